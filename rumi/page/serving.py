"""The server: hypercorn's connections, each in a place of its own.

Hypercorn's own worker keeps all connections in one nursery, where an error in the code of one protocol (a
broken HTTP/2 or WebSocket preamble is enough) ends all of them. Here it ends the connection that it came by;
and there are never more connections than a house can spare descriptors for.
"""

import logging
from functools import partial
from typing import Final, cast

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework, ConnectionState
from starlette.types import ASGIApp

from rumi.page.address import Bound

MOST_CONNECTIONS: Final = 128
"""At once. More are closed as soon as they come."""

IDLE_S: Final = 5
"""How long a connection may take to send the head of a request, the first or the next."""

MOST_HEAD_BYTES: Final = 16_384

logger = logging.getLogger(__name__)


async def serve(
    app: ASGIApp, bound: Bound, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until cancelled. Then all connections are closed at once, whatever they wait for.

    The listening socket stays open: this takes a duplicate of it.
    """
    config, context = _config(), WorkerContext(None)
    wrapped = ASGIWrapper(cast(ASGIFramework, app))
    streams: set[trio.SocketStream] = set()

    async def connection(stream: trio.SocketStream) -> None:
        if len(streams) >= MOST_CONNECTIONS:
            stream.socket.close()
            return
        streams.add(stream)
        try:
            await _Connection(wrapped, config, context, ConnectionState({}), stream)  # type: ignore[arg-type]  # plain TCP is served too
        except* Exception as error:  # noqa: BLE001  # whatever a client has brought about is its own
            logger.debug("a connection ended by an error: %r", error)
        finally:
            streams.discard(stream)
            stream.socket.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_close_at_the_end, streams)
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(bound.listener.dup()))
        await nursery.start(partial(trio.serve_listeners, connection, [listener]))
        task_status.started()


class _Connection(TCPServer):
    """Ends when its client has gone; hypercorn's own would stay until its idle time is over."""

    async def _read_data(self) -> None:
        await super()._read_data()
        await self.idle_task.stop()


async def _close_at_the_end(streams: set[trio.SocketStream]) -> None:
    """Hypercorn sends shielded: a browser that reads nothing would hold up the end."""
    try:
        await trio.sleep_forever()
    finally:
        for stream in streams:
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
