"""The control socket's server: JSON objects, each a message of a WebSocket, over a Unix socket.

A call is `{"call": NAME, …}`; its answer `{"ok": true, "result": …}`, or `{"ok": false, "error": …}` with the
exit `code` that a command should end with. Any number of calls may follow each other on a connection.
`{"stream": NAME, …}` hands the connection over to a stream, until either side leaves. Status is read from the
tree without asking an actor, so it is answered however busy they are.

One exception: a client whose first byte is `{` sends one call as one line, and gets one line. Scripts ask for
the status often; with this, the standard library is enough, and no handshake takes longer than the answer.
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
from trio_websocket import ConnectionClosed, wrap_server_stream

from actors import Actor
from rumi.control.wire import CHUNK_BYTES, MAX_MESSAGE_BYTES, LastWords, Wire, WireClosed
from rumi.errors import RumiError

logger = logging.getLogger(__name__)

Call = Callable[[Mapping[str, object]], Awaitable[object]]

Stream = Callable[[Mapping[str, object], Wire], Awaitable[None]]
"""Serves a connection that was handed over to a stream. It ends when the connection does."""

HANDSHAKE_S = 5.0

WAITING = 1024
"""Clients that may come at once: of more, the system refuses some as if nobody were there."""


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

    def activity(self) -> str:
        """Return what goes on over connections that were handed over."""
        return ", ".join(f"{count} {name}" for name, count in sorted((+self._open).items()))

    def metrics(self) -> Mapping[str, object]:
        """Return how many clients are connected, and how many of them follow which stream."""
        return {"connections": self._connections, "streams": dict(+self._open)}

    async def _connection(self, stream: trio.SocketStream) -> None:
        """Serve one client until it leaves. Its faults end this connection and nothing else."""
        self._connections += 1
        try:
            with trio.fail_after(HANDSHAKE_S):
                first = await stream.socket.recv(1, socket.MSG_PEEK)
            await (self._line(stream) if first == b"{" else self._websocket(stream))
        except* (
            WireClosed,
            ConnectionClosed,
            OSError,
            trio.BrokenResourceError,
            trio.ClosedResourceError,
            trio.TooSlowError,
        ):
            pass
        except* Exception as error:  # such as a violation of the protocol in the middle of the closing
            logger.warning("a connection failed", exc_info=error)
        finally:
            self._connections -= 1

    async def _line(self, stream: trio.SocketStream) -> None:
        """Answer a call that came as a line with a line."""
        got = bytearray()
        with trio.fail_after(HANDSHAKE_S):
            async for chunk in stream:
                got += chunk
                if b"\n" in chunk or len(got) > MAX_MESSAGE_BYTES:
                    break
        line, end, _ = got.partition(b"\n")
        if not end:
            return
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            request = {}
        answer = NO_STREAM if "stream" in request else await self._answer(request)
        await stream.send_all(answer.encode("utf-8", "backslashreplace") + b"\n")

    async def _websocket(self, stream: trio.SocketStream) -> None:
        async with trio.open_nursery() as nursery:
            with trio.fail_after(HANDSHAKE_S):
                proposal = await wrap_server_stream(
                    nursery, LastWords(stream),
                    max_message_size=MAX_MESSAGE_BYTES, receive_buffer_size=CHUNK_BYTES,
                )  # fmt: skip
                wire = Wire(await proposal.accept())
            async with wire:
                while str((request := await wire.receive()).get("stream")) not in self._streams:
                    await wire.send_text(await self._answer(request))
                await self._stream(request, wire)
            nursery.cancel_scope.cancel()

    async def _stream(self, request: Mapping[str, object], wire: Wire) -> None:
        """Hand the connection over. A stream's failure ends this connection and nothing else."""
        name = str(request["stream"])
        self._open[name] += 1
        try:
            await self._streams[name](request, wire)
        except* WireClosed:
            pass
        except* Exception as error:
            logger.error("the stream %s failed", name, exc_info=error)
        finally:
            self._open[name] -= 1

    async def _answer(self, request: Mapping[str, object]) -> str:
        name = str(request.get("call"))
        if name not in self._calls:
            return _refusal(f"unknown request; calls: {', '.join(self._calls)}")
        try:
            return json.dumps({"ok": True, "result": await self._calls[name](request)}, ensure_ascii=False)
        except RumiError as error:
            return _refusal(str(error), code=error.exit_code, kind=error.code)
        except Exception as error:  # a call's failure is for its caller and does not end this server
            logger.error("the control call %s failed", name, exc_info=error)
            return _refusal("It failed. The program's log says why.")


def _refusal(error: str, **more: object) -> str:
    return json.dumps({"ok": False, "error": error, **more}, ensure_ascii=False)


NO_STREAM = _refusal("A line can only be a call. Open the stream over a WebSocket; see docs/status.md.")


def _listen(path: Path) -> socket.socket:
    """Return a listening Unix socket whose file has mode 0600 from its first moment."""
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
