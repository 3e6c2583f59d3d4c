"""The control socket's server: JSON objects, a line each or a WebSocket's message each, over a Unix socket.

A request is `{"call": NAME, …}`; its answer `{"ok": true, "result": …}`, or `{"ok": false, "error": …}` with
the exit `code` that a command should end with.
`{"stream": NAME, …}` hands the connection over to what goes on, until either side leaves. Status is read
from the tree without asking an actor, so it is answered however busy they are.

What begins with `{` are lines, of which a connection has one question or one stream: scripts ask for the
status often, and a handshake takes them longer than the answer. Over a WebSocket any number of calls may
follow each other.
"""

import json
import logging
import os
import socket
import stat
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Never

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream

from actors import Actor
from rumi.control.wire import MAX_LINE_BYTES, LineWire, Wire, WireClosed, decode, encode
from rumi.errors import RumiError

logger = logging.getLogger(__name__)

Call = Callable[[Mapping[str, object]], Awaitable[object]]

Stream = Callable[[Mapping[str, object], Wire], Awaitable[None]]
"""What goes on with a connection after its first request. It ends when the connection does."""

HANDSHAKE_S = 5.0

WAITING = 1024
"""Clients that may come at once: of more, the system refuses some as if nobody were there."""


class WebSocketWire:
    """A `Wire` on a WebSocket."""

    def __init__(self, connection: WebSocketConnection) -> None:
        self._connection = connection

    async def send(self, message: Mapping[str, object]) -> None:
        """Send an object as a message."""
        try:
            await self._connection.send_message(encode(message).decode("ascii"))
        except ConnectionClosed:
            raise WireClosed from None

    async def receive(self) -> Mapping[str, object]:
        """The object that the next message holds."""
        try:
            return decode(await self._connection.get_message())
        except ConnectionClosed:
            raise WireClosed from None


class ControlServer(Actor[Never]):
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
        self._open: Counter[str] = Counter()

    async def started(self) -> None:
        """Open the socket.

        Raises:
            OSError: the socket cannot be made.
        """
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(_listen(self._path)))
        self.start_soon(self._serve, listener)
        if self._beside is not None:
            self.start_soon(self._beside)

    async def stopped(self, reason: str) -> None:
        """Remove the socket's name."""
        self._path.unlink(missing_ok=True)

    async def _serve(self, listener: trio.SocketListener) -> None:
        async with trio.open_nursery() as nursery:
            await trio.serve_listeners(self._connection, [listener], handler_nursery=nursery)

    def doing(self) -> str:
        """What goes on over connections that were handed over."""
        return ", ".join(f"{count} {name}" for name, count in sorted((+self._open).items()))

    def figures(self) -> Mapping[str, object]:
        """How many clients are connected, and how many of them follow which stream."""
        return {"connections": self._connections, "streams": dict(+self._open)}

    async def _connection(self, stream: trio.SocketStream) -> None:
        """Serve one client until it leaves. Its faults are its own."""
        self._connections += 1
        try:
            with trio.fail_after(HANDSHAKE_S):
                first = await stream.socket.recv(1, socket.MSG_PEEK)
            if first == b"{":
                await self._lines(stream)
            else:
                await self._websocket(stream)
        except* (
            WireClosed,
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

    async def _lines(self, stream: trio.SocketStream) -> None:
        wire = LineWire(stream)
        with trio.fail_after(HANDSHAKE_S):
            first = await wire.line()
        if (handed := self._handed_over(first)) is not None:
            await self._stream(*handed, wire)
        else:
            await wire.send_line((await self._answer(first)).encode("utf-8", "backslashreplace"))
        await stream.aclose()

    async def _websocket(self, stream: trio.SocketStream) -> None:
        async with trio.open_nursery() as nursery:
            with trio.fail_after(HANDSHAKE_S):
                request = await wrap_server_stream(nursery, stream, max_message_size=MAX_LINE_BYTES)
                connection = await request.accept()
            async with connection:
                while True:
                    text = await connection.get_message()
                    if (handed := self._handed_over(text)) is not None:
                        await self._stream(*handed, WebSocketWire(connection))
                        return
                    await connection.send_message(await self._answer(text))

    async def _stream(self, name: str, asked: Mapping[str, object], wire: Wire) -> None:
        """Let what goes on have the connection. Its faults end this connection and nothing else."""
        self._open[name] += 1
        try:
            await self._streams[name](asked, wire)
        except* WireClosed:
            pass
        except* Exception as error:
            logger.error("the stream %s failed", name, exc_info=error)
        finally:
            self._open[name] -= 1

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
            refused = {"ok": False, "error": str(error), "code": error.exit_code}
            return json.dumps(refused, ensure_ascii=False)
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
    listener.listen(WAITING)
    return listener
