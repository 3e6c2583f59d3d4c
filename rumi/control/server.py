"""The control socket's server: JSON messages over a WebSocket over a Unix socket.

A request is `{"call": NAME, …}`; its answer `{"ok": true, "result": …}` or `{"ok": false, "error": …}`.
`{"stream": NAME, …}` hands the connection over to what goes on, until either side leaves. Status is read
from the tree without asking an actor, so it is answered however busy they are.

Whoever has one question and no WebSocket sends it as a line that begins with `{`, and gets its answer as a
line: scripts ask for the status often, and a handshake takes them longer than the answer.
"""

import json
import logging
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream

from actors import Actor
from rumi.errors import RumiError

logger = logging.getLogger(__name__)

Call = Callable[[Mapping[str, object]], Awaitable[object]]


class Wire(Protocol):
    """A connection that was handed over: objects both ways, as JSON. Both raise `ConnectionClosed`."""

    async def send(self, message: Mapping[str, object]) -> None:
        """Send an object; waits where the other side does not read."""
        ...

    async def receive(self) -> Mapping[str, object]:
        """The next object."""
        ...


Stream = Callable[[Mapping[str, object], Wire], Awaitable[None]]
"""What goes on with a connection after its first request. It ends when the connection does."""

HANDSHAKE_S = 5.0
MAX_REQUEST_BYTES = 16_000_000
"""What somebody types or pipes into a window is one message."""


class _Wire:
    """A `Wire` on a WebSocket."""

    def __init__(self, connection: WebSocketConnection) -> None:
        self._connection = connection

    async def send(self, message: Mapping[str, object]) -> None:
        await self._connection.send_message(json.dumps(message))  # ASCII: halves of surrogate pairs too

    async def receive(self) -> Mapping[str, object]:
        found = json.loads(await self._connection.get_message())
        return found if isinstance(found, dict) else {}


class ControlServer(Actor[None]):
    """Answers the calls that it was given, by name, as many at once as there are connections."""

    def __init__(
        self,
        path: Path,
        calls: Mapping[str, Call],
        streams: Mapping[str, Stream] | None = None,
        beside: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`beside` runs as long as the server: another way in, such as a signal."""
        self._path = path
        self._calls = calls
        self._streams = streams or {}
        self._beside = beside
        self._connections = 0

    async def started(self) -> None:
        """Open the socket.

        Raises:
            OSError: the socket cannot be made.
        """
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(_listen(self._path)))
        self.start_soon(self._serve, listener)
        if self._beside is not None:
            self.start_soon(self._beside)

    async def receive(self, message: None) -> None:
        """It takes no messages: its clients come by the socket."""

    async def stopped(self, reason: str) -> None:
        """Remove the socket's name."""
        self._path.unlink(missing_ok=True)

    async def _serve(self, listener: trio.SocketListener) -> None:
        async with trio.open_nursery() as nursery:
            await trio.serve_listeners(self._connection, [listener], handler_nursery=nursery)

    def figures(self) -> Mapping[str, object]:
        """How many clients are connected."""
        return {"connections": self._connections}

    async def _connection(self, stream: trio.SocketStream) -> None:
        """Serve one client until it leaves. Its faults are its own."""
        self._connections += 1
        try:
            with trio.fail_after(HANDSHAKE_S):
                first = await stream.socket.recv(1, socket.MSG_PEEK)
            if first == b"{":
                await self._one_line(stream)
            else:
                await self._websocket(stream)
        except* (
            ConnectionClosed,
            OSError,
            ValueError,
            RecursionError,
            trio.BrokenResourceError,
            trio.ClosedResourceError,
            trio.TooSlowError,
        ):
            pass
        finally:
            self._connections -= 1

    async def _one_line(self, stream: trio.SocketStream) -> None:
        line = bytearray()
        with trio.fail_after(HANDSHAKE_S):
            while not line.endswith(b"\n") and len(line) < MAX_REQUEST_BYTES:
                more = await stream.receive_some(65_536)
                if not more:
                    return
                line += more
        await stream.send_all((await self._answer(bytes(line))).encode("utf-8", "backslashreplace") + b"\n")
        await stream.aclose()

    async def _websocket(self, stream: trio.SocketStream) -> None:
        async with trio.open_nursery() as nursery:
            with trio.fail_after(HANDSHAKE_S):
                request = await wrap_server_stream(nursery, stream, max_message_size=MAX_REQUEST_BYTES)
                connection = await request.accept()
            async with connection:
                while True:
                    text = await connection.get_message()
                    if (handed := self._handed_over(text)) is not None:
                        name, asked = handed
                        await self._streams[name](asked, _Wire(connection))
                        return
                    await connection.send_message(await self._answer(text))

    def _handed_over(self, text: str | bytes) -> tuple[str, Mapping[str, object]] | None:
        """The stream that is asked for, and how; None for a call."""
        try:
            request = json.loads(text)
            name = request["stream"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        return (name, request) if isinstance(name, str) and name in self._streams else None

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
