"""The control socket's server: JSON messages over a WebSocket over a Unix socket.

A request is `{"call": NAME, …}`; its answer `{"ok": true, "result": …}` or `{"ok": false, "error": …}`.
Status is read from the tree without asking an actor, so it is answered however busy they are.
"""

import json
import logging
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import trio
from trio_websocket import ConnectionClosed, wrap_server_stream

from actors import Actor
from rumi.errors import RumiError

logger = logging.getLogger(__name__)

Call = Callable[[Mapping[str, object]], Awaitable[object]]

HANDSHAKE_S = 5.0
MAX_REQUEST_BYTES = 1_000_000


class ControlServer(Actor[None]):
    """Answers the calls that it was given, by name, as many at once as there are connections."""

    def __init__(self, path: Path, calls: Mapping[str, Call]) -> None:
        self._path = path
        self._calls = calls

    async def started(self) -> None:
        """Open the socket.

        Raises:
            OSError: the socket cannot be made.
        """
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(_listen(self._path)))
        self.start_soon(self._serve, listener)

    async def receive(self, message: None) -> None:
        """It takes no messages: its clients come by the socket."""

    async def stopped(self, reason: str) -> None:
        """Remove the socket's name."""
        self._path.unlink(missing_ok=True)

    async def _serve(self, listener: trio.SocketListener) -> None:
        async with trio.open_nursery() as nursery:
            await trio.serve_listeners(self._connection, [listener], handler_nursery=nursery)

    async def _connection(self, stream: trio.SocketStream) -> None:
        """Serve one client until it leaves. Its faults are its own."""
        try:
            async with trio.open_nursery() as nursery:
                with trio.fail_after(HANDSHAKE_S):
                    request = await wrap_server_stream(nursery, stream, max_message_size=MAX_REQUEST_BYTES)
                    connection = await request.accept()
                async with connection:
                    while True:
                        await connection.send_message(await self._answer(await connection.get_message()))
        except* (ConnectionClosed, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            pass

    async def _answer(self, text: str | bytes) -> str:
        try:
            request = json.loads(text)
            call = self._calls[request["call"]]
        except (ValueError, TypeError, KeyError, RecursionError):
            return json.dumps({"ok": False, "error": f"unknown request; calls: {', '.join(self._calls)}"})
        try:
            return json.dumps({"ok": True, "result": await call(request)}, ensure_ascii=False)
        except RumiError as error:
            return json.dumps({"ok": False, "error": str(error)}, ensure_ascii=False)
        except Exception as error:  # a call's fault is its caller's news, not the end of this server
            logger.error("the control call %s failed", request["call"], exc_info=error)
            return json.dumps({"ok": False, "error": "It failed. The program's log says why."})


def _listen(path: Path) -> socket.socket:
    """A listening Unix socket whose file has mode 0600 from its first moment."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = path.parent.stat()
    if owner.st_uid != os.getuid() or stat.S_IMODE(owner.st_mode) & 0o022:
        raise PermissionError(f"{path.parent} is not this user's alone; the control socket is not made there")
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
    finally:
        os.umask(before)
    listener.listen(64)
    return listener
