"""Readers: processes that convert pages to text, one page at a time each."""

from __future__ import annotations

import math
import os
import signal
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from rumi.sandbox.confined.parent import NONSENSE, Child, ChildFailed, signal_name
from rumi.web.messages import FetchError, PageText

READ_S = 10.0
MOST_ANSWER_BYTES = 32_000_000

WORN_KB = 120_000
"""A reader that has ever used more than this reads no other page, because it does not return the memory."""

_PROGRAM = ("-m", "rumi.web.readers.pages.process")

AT_ONCE = max(1, (os.cpu_count() or 1) // 2)
"""Half of the processors may read pages: the others are for other work."""


class Readers:
    """At most `at_once` reading processes, started when needed, and ended after `idle_s` idle seconds.

    Parsers are large, are written for harmless input, and hold Python's lock while they work: in a thread
    they could not be ended, and would delay all other work. `read_s` bounds the time for one page.
    """

    def __init__(self, at_once: int = AT_ONCE, *, idle_s: float = 60.0, read_s: float = READ_S) -> None:
        self._permits = trio.Semaphore(at_once)
        self._idle_s = idle_s
        self._read_s = read_s
        self._idle: deque[tuple[float, Child]] = deque()  # the one that was used last is at the right
        self._parked = trio.Event()
        self._running = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Readers]:
        """Pages can be read in the block; at its end no process is left."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.run)
            yield self
            nursery.cancel_scope.cancel()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Own the idle processes until cancelled, and then end them."""
        self._running = True
        try:
            task_status.started()
            while True:
                await self._end_idle()
        finally:
            self._running = False
            while self._idle:
                await self._idle.popleft()[1].end()

    @property
    def idle(self) -> int:
        """The number of idle processes."""
        return len(self._idle)

    async def read(
        self, body: bytes, *, media_type: str, charset: str | None, url: str, max_chars: int
    ) -> PageText:
        """Return the text of a page.

        `media_type` is the server's, without parameters; `charset` the one that it names, if it does; `url`
        is where the page came from, and what its links are relative to; the text that is returned has at most
        `max_chars` characters.

        Cancelled, the process that works on it has been killed and reaped before this leaves.

        Raises:
            FetchError: The page cannot be read within the limits of time and memory.
        """
        if not self._running:
            raise RuntimeError("readers read inside running() only")
        request: dict[str, object] = {"media_type": media_type.lower(), "charset": charset, "url": url}
        request["max_chars"] = max_chars
        async with self._permits:
            reader = await self._one()
            sound = False
            try:
                text = await self._read(reader, request, body)
                sound = _peak_kb(reader.pid) <= WORN_KB
            finally:
                if sound and self._running:
                    self._idle.append((trio.current_time() + self._idle_s, reader))
                    self._parked.set()
                else:
                    await reader.end()
        return text

    async def _one(self) -> Child:
        """Return the reader that was used last, if it is still alive, or a new one."""
        while self._idle:
            reader = self._idle.pop()[1]
            if reader.alive:
                return reader
            await reader.end()
        try:
            return await Child.start(_PROGRAM, most_bytes=MOST_ANSWER_BYTES)
        except ChildFailed as error:
            raise FetchError(
                "The process that reads pages does not start.", "Run: rumi doctor", answered=True
            ) from error

    async def _read(self, reader: Child, request: dict[str, object], body: bytes) -> PageText:
        """Return the text that a reader sends as JSON, which is trusted no more than the page."""
        reader.left_s = self._read_s
        try:
            await reader.say(request, body)
            heard = await reader.hear()
            if heard.get("failed"):
                raise _too_much(str(heard["failed"]))
            links = tuple(str(link) for link in heard["links"])
            return PageText(
                str(heard["title"]), str(heard["text"]), links, str(heard["cut"]), str(heard["described"])
            )
        except (KeyError, TypeError):
            raise _too_much(NONSENSE) from None
        except ChildFailed as error:
            raise _too_much(self._why(error)) from None

    def _why(self, error: ChildFailed) -> str:
        if error.why == "late":
            return f"it took more than {self._read_s:.0f} seconds"
        if error.why == "signal" and error.number == signal.SIGXCPU:
            return "it took too much time"
        if error.why == "signal":  # what is written in C and C++ ends so where it gets no memory
            name = signal_name(error.number)
            return f"it takes too much memory, or is made to break its reader ({name})"
        return str(error)

    async def _end_idle(self) -> None:
        """Wait until a reader's idle time is over, or another becomes idle; end those whose time is over."""
        due = self._idle[0][0] if self._idle else math.inf
        with trio.move_on_at(due):
            self._parked = trio.Event()
            await self._parked.wait()
        while self._idle and self._idle[0][0] <= trio.current_time():
            await self._idle.popleft()[1].end()


def _too_much(why: str) -> FetchError:
    return FetchError(f"The page could not be read: {why}.", "Another page may say the same.", answered=True)


def _peak_kb(pid: int) -> int:
    """Return the largest memory of a process since its program began, in KB, as the kernel counts.

    `getrusage` in the process would begin with the peak of the process that it was forked from.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # it is gone
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)
