"""The server: hypercorn's connections, each in a place of its own.

Hypercorn's own worker keeps all connections in one nursery, where an error in the code of one protocol (a
broken HTTP/2 or WebSocket preamble is enough) ends all of them. Here it ends the connection that it came by;
and there are never more connections than a process can spare descriptors for: one more takes the place of the
one that has waited longest without a request, so that slow visitors keep no others out.
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
"""The largest number of connections at once."""

IDLE_S: Final = 5
"""How long a connection may take to send the head of a request, the first or the next."""

MOST_HEAD_BYTES: Final = 16_384

_GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError)

logger = logging.getLogger(__name__)


async def serve(
    app: ASGIApp, bound: BoundSocket, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until cancelled. Then all connections are closed at once, whatever they wait for.

    The listening socket stays open: this takes a duplicate of it.
    """
    config, context = _config(), WorkerContext(None)
    streams: dict[object, trio.SocketStream] = {}  # by the client's address, the oldest first
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
            logger.debug("an answer was not sent: %r", error)  # any client can bring that about
        finally:
            at_work.discard(client)

    wrapped = ASGIWrapper(cast(ASGIFramework, watched))

    async def connection(stream: trio.SocketStream) -> None:
        try:
            client = tuple(stream.socket.getpeername()[:2])
        except OSError:  # gone already
            stream.socket.close()
            return
        if len(streams) >= MOST_CONNECTIONS:
            waiting = next((idle_stream for idle_stream in streams if idle_stream not in at_work), None)
            if waiting is None:
                stream.socket.close()
                return
            streams.pop(waiting).socket.close()
        streams[client] = stream
        try:
            await _Connection(wrapped, config, context, ConnectionState({}), stream)  # type: ignore[arg-type]  # plain TCP is served too
        except* Exception as error:  # noqa: BLE001  # whatever a client has brought about is its own
            logger.debug("a connection ended by an error: %r", error)
        finally:
            if streams.get(client) is stream:
                del streams[client]
            stream.socket.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_close_at_the_end, streams)
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(bound.listener.dup()))
        await nursery.start(partial(trio.serve_listeners, connection, [listener]))
        task_status.started()


class _Connection(TCPServer):
    """Speaks only HTTP/1: a proxy that judges requests would not see those of HTTP/2 without TLS.

    It ends when its client has gone; hypercorn's own would stay until its idle time is over.
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
        async with self.send_lock:  # an answer may be on its way
            await super()._close()


class _OtherVersion(Exception):
    """A request has another version of HTTP."""


class _Http1(H11Protocol):
    """Answers `Upgrade: h2c` as HTTP/1.1 does that has no such upgrade, and refuses HTTP/2 from the start."""

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
    """Close all connections when cancelled. Hypercorn's sends are shielded: one could delay the end."""
    try:
        await trio.sleep_forever()
    finally:
        for stream in streams.values():
            stream.socket.close()


def _config() -> Config:
    config = Config()
    config.accesslog = None  # it would write down login links
    config.errorlog = logger
    config.include_server_header = False
    config.keep_alive_timeout = IDLE_S
    config.h11_max_incomplete_size = MOST_HEAD_BYTES
    config.max_app_queue_size = 10
    return config
