"""A client of the Chrome DevTools Protocol over the pipes of a browser (`--remote-debugging-pipe`).

Each message is JSON, followed by a NUL. Only the process that started the browser has the pipes, so no other
program of the machine can control it, as it could through a port.
"""

import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import trio

from rumi.web.browser.messages import BrowserEnded, BrowserError, PageError

MOST_BYTES: Final = 48 * 1024 * 1024
"""Maximum size of one message of the browser, in bytes."""

ANSWER_S: Final = 10.0
"""Maximum time until the browser answers a command that needs no server, in seconds."""

_CHUNK: Final = 1 << 16

Params: TypeAlias = Mapping[str, Any]
Listener: TypeAlias = Callable[[str, Params], None]
"""Gets an event's name and its parameters. It never blocks."""


class CdpRefused(PageError):
    """The browser has refused a command, for example because the page or the element is gone."""


class PageHangs(PageError):
    """The page or the browser has not answered in time: a script of the page may run without end."""


class _Pending:
    def __init__(self) -> None:
        self.done = trio.Event()
        self.answer: Params | None = None


class Cdp:
    """The connection to a browser: `run` must run while it is used."""

    def __init__(self, out: trio.abc.SendStream, back: trio.abc.ReceiveStream) -> None:
        self._out = out
        self._back = back
        self._queue: deque[bytes] = deque()
        self._queued = trio.Event()
        self._pending: dict[int, _Pending] = {}
        self._listeners: dict[str, Listener] = {}
        self._last = 0
        self.ended = trio.Event()

    def listen(self, session: str, listener: Listener) -> None:
        """Pass the events of a session to `listener`; the empty name is the browser itself."""
        self._listeners[session] = listener

    def forget(self, session: str) -> None:
        """Pass no more events of a session on."""
        self._listeners.pop(session, None)

    def post(self, method: str, params: Params | None = None, session: str = "") -> int:
        """Queue a command and return its id. Its answer is dropped unless `call` waits for it."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        self._queue.append(json.dumps(message).encode() + b"\0")
        self._queued.set()
        return self._last

    async def call(
        self, method: str, params: Params | None = None, session: str = "", within_s: float | None = None
    ) -> Params:
        """Send a command and return its result. On cancellation, the answer is dropped when it comes.

        Raises:
            CdpRefused: The browser refuses the command.
            PageHangs: It does not answer in time.
            BrowserError: The browser has ended.
        """
        if self.ended.is_set():
            raise BrowserEnded
        id_ = self.post(method, params, session)
        pending = self._pending[id_] = _Pending()
        try:
            with trio.move_on_after(ANSWER_S if within_s is None else within_s) as limit:
                await pending.done.wait()
        finally:
            del self._pending[id_]
        if limit.cancelled_caught:
            raise PageHangs("The page does not answer, so it was closed.", "Open it again, or another one.")
        if pending.answer is None:
            raise BrowserEnded
        if "error" in pending.answer:
            # The browser's own words about the command: they may name what the page has.
            raise CdpRefused("The page has changed in the meantime.", "Read it again.")
        result: Params = pending.answer.get("result", {})
        return result

    async def run(self) -> None:
        """Send and receive until the browser closes its end.

        Raises:
            BrowserError: The browser sent a message that is too long or is not JSON.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write)
                await self._read()
                nursery.cancel_scope.cancel()
        finally:
            self.ended.set()
            for pending in self._pending.values():
                pending.done.set()

    async def _write(self) -> None:
        # One task writes, so that the cancellation of a call never leaves half of a message.
        try:
            while True:
                while self._queue:
                    await self._out.send_all(self._queue.popleft())
                self._queued = trio.Event()
                await self._queued.wait()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the browser has ended, which `_read` notices

    async def _read(self) -> None:
        rest = bytearray()
        try:
            while chunk := await self._back.receive_some(_CHUNK):
                *whole, last = bytes(chunk).split(b"\0")
                for part in whole:
                    self._take(bytes(rest) + part)
                    rest.clear()
                rest += last
                if len(rest) > MOST_BYTES:
                    raise BrowserError("The page is too large for the browser tool.")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    def _take(self, text: bytes) -> None:
        try:
            message = json.loads(text)
        except ValueError as error:
            raise BrowserError("The browser sent a message that is not JSON.") from error
        if "id" in message:
            pending = self._pending.get(message["id"])
            if pending is not None:
                pending.answer = message
                pending.done.set()
            return
        listener = self._listeners.get(message.get("sessionId", ""))
        if listener is not None:
            listener(message.get("method", ""), message.get("params", {}))
