"""The HTTP server: hypercorn's connections, isolated from each other.

Hypercorn's own worker keeps all connections in one nursery, where an error in one connection (a broken HTTP/2
or WebSocket preamble is enough) ends all connections. In this module, such an error ends only the connection
in which it occurs. The number of connections is limited, because file descriptors are limited. A connection
above the limit replaces the connection that has been idle for the longest time, so slow clients cannot lock
out others.
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Final, cast

import h11
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Closed, Event
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework, ConnectionState
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rumi.channels.http.address import BoundSocket

MOST_CONNECTIONS: Final = 128
"""Maximum number of connections."""

IDLE_S: Final = 5
"""Maximum time for a connection to send the head of its first or next request, in seconds."""

MOST_HEAD_BYTES: Final = 16_384

MOST_MESSAGE_BYTES: Final = 65_536
"""Maximum size of a message that a client sends over a WebSocket; larger ones end the connection."""

_GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError)

logger = logging.getLogger(__name__)


async def serve(
    app: ASGIApp, bound: BoundSocket, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until cancelled. On cancellation, close all connections immediately, whatever their state.

    The listening socket stays open, because this function uses a duplicate of the socket.
    """
    config, context = _config(), WorkerContext(None)
    streams: dict[object, trio.SocketStream] = {}  # by client address, oldest first
    at_work: set[object] = set()

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        client, gone = scope.get("client"), False

        async def sending(message: Message) -> None:
            nonlocal gone
            try:
                await send(message)
            except (*_GONE, h11.ProtocolError):
                gone = True
                raise

        at_work.add(client)
        try:
            await app(scope, receive, sending)
        except Exception as error:
            if not gone:
                raise
            logger.debug("an answer was not sent: %r", error)  # any client can cause this
        finally:
            at_work.discard(client)

    wrapped = ASGIWrapper(cast(ASGIFramework, watched))

    async def connection(stream: trio.SocketStream) -> None:
        try:
            client = tuple(stream.socket.getpeername()[:2])
        except OSError:  # the client has disconnected already
            stream.socket.close()
            return
        # Connections with a request in progress are never evicted; if all have one, the new one is rejected.
        if len(streams) >= MOST_CONNECTIONS:
            waiting = next((idle_stream for idle_stream in streams if idle_stream not in at_work), None)
            if waiting is None:
                stream.socket.close()
                return
            streams.pop(waiting).socket.close()
        streams[client] = stream
        try:
            await _Connection(wrapped, config, context, ConnectionState({}), stream)  # type: ignore[arg-type]  # plain TCP is served too
        except* Exception as error:  # noqa: BLE001  # a client's error affects only its own connection
            logger.debug("a connection ended by an error: %r", error)
        finally:
            # A new connection from the same client address may have replaced this entry.
            if streams.get(client) is stream:
                del streams[client]
            stream.socket.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_close_at_the_end, streams)
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(bound.listener.dup()))
        await nursery.start(partial(trio.serve_listeners, connection, [listener]))
        task_status.started()


class _Connection(TCPServer):
    """A connection that speaks only HTTP/1.

    HTTP/2 without TLS is not supported, because a proxy that checks requests would not see requests made with
    it. The connection ends when its client disconnects; hypercorn's own class would keep it until the idle
    timeout.
    """

    async def _read_data(self) -> None:
        made = self.protocol
        made.protocol = _Http1(
            made.app,
            made.config,
            made.context,
            made.task_group,
            made.state,
            made.ssl,
            made.client,
            made.server,
            made.send,
        )
        await super()._read_data()
        await self.idle_task.stop()

    async def _close(self) -> None:
        async with self.send_lock:  # a response may be in the middle of being sent
            await super()._close()


class _OtherVersion(Exception):
    """The request has an HTTP version that is not supported."""


class _Http1(H11Protocol):
    """HTTP/1 protocol that refuses HTTP/2, and ignores `Upgrade: h2c` like servers that do not support it."""

    async def handle(self, event: Event) -> None:
        try:
            await super().handle(event)
        except _OtherVersion:
            await self._send_error_response(505)
            await self.send(Closed())

    async def _check_protocol(self, event: h11.Request) -> None:
        if event.http_version not in (b"1.0", b"1.1"):
            raise _OtherVersion


async def _close_at_the_end(streams: Mapping[object, trio.SocketStream]) -> None:
    """Close all connections on cancellation, because hypercorn's shielded sends could delay the shutdown."""
    try:
        await trio.sleep_forever()
    finally:
        for stream in streams.values():
            stream.socket.close()


def _config() -> Config:
    config = Config()
    config.accesslog = None  # an access log would contain login links
    config.errorlog = logger
    config.include_server_header = False
    config.keep_alive_timeout = IDLE_S
    config.h11_max_incomplete_size = MOST_HEAD_BYTES
    config.max_app_queue_size = 10
    config.websocket_max_message_size = MOST_MESSAGE_BYTES
    return config
