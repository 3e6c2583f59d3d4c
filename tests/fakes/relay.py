"""A Unix socket that passes everything on to another one, and can go away: a daemon that stops, seen from
outside, without touching the daemon."""

import socket
from pathlib import Path
from typing import Any

import trio


class Relay:
    """Serves at `path` what listens at `target`.

    When `serve` is cancelled its connections end and nobody listens any more; called again, it is back.
    """

    def __init__(self, path: Path, target: str) -> None:
        self.path = path
        self.target = target
        self.open = 0

    async def serve(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        self.path.unlink(missing_ok=True)
        listening = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            await listening.bind(str(self.path))
            listening.listen(256)
            task_status.started()
            await trio.serve_listeners(self._connection, [trio.SocketListener(listening)])
        finally:
            listening.close()
            self.path.unlink(missing_ok=True)

    async def _connection(self, stream: trio.SocketStream) -> None:
        self.open += 1
        try:
            async with stream, await trio.open_unix_socket(self.target) as daemon:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_pass_on, stream, daemon)
                    await _pass_on(daemon, stream)
                    nursery.cancel_scope.cancel()
        finally:
            self.open -= 1


async def _pass_on(source: trio.SocketStream, to: trio.SocketStream) -> None:
    """All that comes, and its end."""
    try:
        while data := await source.receive_some(65536):
            await to.send_all(data)
        await to.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return
