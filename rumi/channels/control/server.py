"""The server of the control socket: JSON objects as WebSocket messages over a Unix socket.

A call is `{"call": NAME, "caller": {…}, …}`; its response is `{"ok": true, "result": …}`, or `{"ok":
false, "error": …}` with the exit `code` of the command. A connection may carry any number of calls, one
after the other. `{"stream": NAME, "caller": {…}, …}` hands the connection over to a stream, until either
side disconnects. The status is read from the tree without asking an actor, so it is available even if all
actors are busy.

One exception: a client whose first byte is `{` sends one call as one line, and gets one line. Scripts query
the status often. With this exception they need only the standard library, and no WebSocket handshake, which
takes longer than the call.

Workers that share a database use the same protocol over TCP, after they have proved their shared secret:
see `rumi.channels.attach.peers`. The server sets `"passed": true` in requests of peers, and removes the
field from all others. Some calls are not available to peers.
"""

import json
import logging
import os
import socket
import stat
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Never

import trio
from trio_websocket import ConnectionClosed, wrap_server_stream

from actors import Actor
from rumi.channels.attach.peers import NotProved, Peer, admit, listeners_of
from rumi.channels.attach.wire import CHUNK_BYTES, MAX_MESSAGE_BYTES, PROTOCOL, LastWords, Wire, WireClosed
from rumi.errors import RumiError
from rumi.platform.caller import WORKER, Caller, ControlCall
from rumi.texts import os_error

logger = logging.getLogger(__name__)


ControlStream = Callable[[Caller, Mapping[str, object], Wire], Awaitable[None]]
"""Serves a connection that was handed over to a stream; returns when the connection ends."""

HANDSHAKE_S = 5.0

WAITING = 1024
"""Length of the listen backlog: beyond it the kernel refuses clients as if no process were listening."""

MOST_STRANGERS = 64
"""Maximum number of connections on which the peer has not proved the secret yet; more are closed."""


class ControlServer(Actor[Never]):
    """Actor that serves control calls and streams, by name. It serves all connections concurrently."""

    def __init__(
        self,
        path: Path,
        calls: Mapping[str, ControlCall],
        streams: Mapping[str, ControlStream] | None = None,
        beside: Callable[[], Awaitable[None]] | None = None,
        peer: Peer | None = None,
        own: Collection[str] = (),
    ) -> None:
        """Create the server of the control socket at `path`.

        `beside` is an async function that runs as long as the server does, for example a signal handler.
        Other workers (peers) connect to the address `peer`, and may not make the calls named in `own`.
        """
        self._path = path
        self._calls = calls
        self._streams = streams or {}
        self._beside = beside
        self._peer = peer
        self._own = frozenset(own)
        self._unproved_peers = 0
        self._connections = 0
        self._open: Counter[str] = Counter()

    async def started(self) -> None:
        """Listen on the control socket, and at the address for peers.

        Raises:
            OSError: the socket cannot be created.
            RumiError: this process cannot listen at the address for peers.
        """
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(_listen(self._path)))
        self.start_soon(self._serve, [listener], self._connection)
        if self._peer is not None:
            self.start_soon(self._serve, await self._listeners(self._peer), self._peer_connection)
        if self._beside is not None:
            self.start_soon(self._beside)

    async def stopped(self, reason: str) -> None:
        """Remove the socket file."""
        self._path.unlink(missing_ok=True)

    async def _serve(
        self,
        listeners: list[trio.SocketListener],
        handler: Callable[[trio.SocketStream], Awaitable[None]],
    ) -> None:
        async with trio.open_nursery() as nursery:
            await trio.serve_listeners(handler, listeners, handler_nursery=nursery)

    async def _listeners(self, peer: Peer) -> list[trio.SocketListener]:
        try:
            return await listeners_of(peer)
        except OSError as error:
            raise RumiError(
                "Other workers cannot reach this one at {host}:{port}: {reason}.",
                "Correct [store] address, or end the program that listens there.",
                host=peer.host,
                port=peer.port,
                reason=os_error(error),
            ) from None

    async def _peer_connection(self, stream: trio.SocketStream) -> None:
        """Serve a peer that proves the shared secret; close any other connection without a response."""
        assert self._peer is not None
        if self._unproved_peers >= MOST_STRANGERS:
            return
        self._unproved_peers += 1
        try:
            await admit(stream, self._peer.key)
        except (NotProved, OSError, trio.BrokenResourceError, trio.TooSlowError):
            logger.warning("a connection was refused: it has not proved the secret of the workers")
            await trio.aclose_forcefully(stream)
            return
        finally:
            self._unproved_peers -= 1
        await self._connection(stream, forwarded=True)

    def activity(self) -> str:
        """Return a text that says how many streams of each name are open."""
        return ", ".join(f"{count} {name}" for name, count in sorted((+self._open).items()))

    def metrics(self) -> Mapping[str, object]:
        """Return the number of connections, and the number of open streams by name."""
        return {"connections": self._connections, "streams": dict(+self._open)}

    async def _connection(self, stream: trio.SocketStream, forwarded: bool = False) -> None:
        """Serve one client until it disconnects. An error of the client ends only this connection."""
        self._connections += 1
        try:
            with trio.fail_after(HANDSHAKE_S):
                # Peeked, not read: the WebSocket handshake and the line protocol both need the first byte.
                first = await stream.socket.recv(1, socket.MSG_PEEK)
            await (self._line(stream, forwarded) if first == b"{" else self._websocket(stream, forwarded))
        except* (
            WireClosed,
            ConnectionClosed,
            OSError,
            trio.BrokenResourceError,
            trio.ClosedResourceError,
            trio.TooSlowError,
        ):
            pass
        except* Exception as error:  # for example a protocol violation during the closing handshake
            logger.warning("a connection failed", exc_info=error)
        finally:
            self._connections -= 1

    async def _line(self, stream: trio.SocketStream, forwarded: bool) -> None:
        """Read one call, sent as a line of JSON; respond with a line."""
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
        answer = (
            NO_STREAM
            if "stream" in request
            else await self._answer(_with_passed(request, forwarded), forwarded)
        )
        # Lone surrogates, for example of file names, become JSON escapes.
        await stream.send_all(answer.encode("utf-8", "backslashreplace") + b"\n")

    async def _websocket(self, stream: trio.SocketStream, forwarded: bool) -> None:
        async with trio.open_nursery() as nursery:
            with trio.fail_after(HANDSHAKE_S):
                proposal = await wrap_server_stream(
                    nursery, LastWords(stream),
                    max_message_size=MAX_MESSAGE_BYTES, receive_buffer_size=CHUNK_BYTES,
                )  # fmt: skip
                known = PROTOCOL if PROTOCOL in proposal.proposed_subprotocols else None
                wire = Wire(await proposal.accept(subprotocol=known))
            async with wire:
                while True:
                    request = _with_passed(await wire.receive(), forwarded)
                    if str(request.get("stream")) not in self._streams:
                        await wire.send_text(await self._answer(request, forwarded))
                        continue
                    try:
                        caller, request = _caller_of(request, forwarded)
                    except RumiError as error:
                        await wire.send_text(_refused(error))
                        continue
                    await self._stream(caller, request, wire)
                    break
            nursery.cancel_scope.cancel()  # trio-websocket's background task

    async def _stream(self, caller: Caller, request: Mapping[str, object], wire: Wire) -> None:
        """Hand the connection over to a stream. A failure of the stream ends only this connection."""
        name = str(request["stream"])
        self._open[name] += 1
        try:
            await self._streams[name](caller, request, wire)
        except* WireClosed:
            pass
        except* Exception as error:
            logger.error("the stream %s failed", name, exc_info=error)
        finally:
            self._open[name] -= 1

    async def _answer(self, request: Mapping[str, object], forwarded: bool) -> str:
        name = str(request.get("call"))
        if name not in self._calls or (forwarded and name in self._own):
            return _refusal(f"unknown request; calls: {', '.join(self._calls)}")
        try:
            caller, request = _caller_of(request, forwarded)
            result = await self._calls[name](caller, request)
            return json.dumps({"ok": True, "result": result}, ensure_ascii=False)
        except RumiError as error:
            return _refused(error)
        except Exception as error:  # a failed call is reported to its caller and must not end the server
            logger.error("the control call %s failed", name, exc_info=error)
            return _refusal("It failed. The program's log says why.")


def _with_passed(request: Mapping[str, object], forwarded: bool) -> Mapping[str, object]:
    """Return the request with `passed` set if a peer sent it, and without `passed` otherwise.

    A local client cannot claim to be a peer, and a peer cannot hide that it is one.
    """
    rest = {name: value for name, value in request.items() if name != "passed"}
    return {**rest, "passed": True} if forwarded else rest


def _caller_of(request: Mapping[str, object], forwarded: bool) -> tuple[Caller, Mapping[str, object]]:
    """Return the caller of a request, and the request without the field `caller`.

    A worker of an earlier version forwards requests without their callers. Such a worker has proved the
    shared secret, so the requests count as calls by the worker itself.

    Raises:
        UsageError: The request names no caller.
    """
    known = "caller" in request or not forwarded
    caller = Caller.of(request.get("caller")) if known else WORKER
    return caller, {name: value for name, value in request.items() if name != "caller"}


def _refused(error: RumiError) -> str:
    return _refusal(str(error), code=error.exit_code, kind=error.code)


def _refusal(error: str, **more: object) -> str:
    return json.dumps({"ok": False, "error": error, **more}, ensure_ascii=False)


NO_STREAM = _refusal("A line can only be a call. Open the stream over a WebSocket; see docs/status.md.")


def _listen(path: Path) -> socket.socket:
    """Return a listening Unix socket whose file has mode 0600 from the moment it is created.

    Raises:
        OSError: The socket cannot be created; `PermissionError` if other users can write to its folder.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = path.parent.stat()
    if owner.st_uid != os.getuid() or stat.S_IMODE(owner.st_mode) & 0o022:
        raise PermissionError(f"{path.parent} is not this user's alone; the control socket is not made there")
    path.unlink(missing_ok=True)  # of an earlier process: only the one that has locked the home comes here
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # A chmod after `bind` would leave a moment in which other users can connect.
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
    finally:
        os.umask(before)
    listener.listen(WAITING)
    return listener
