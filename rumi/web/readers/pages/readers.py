"""The pool of processes that convert pages to text. Each process converts one page at a time."""

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
"""Peak memory, in KB, above which a process is not used again, because it does not return memory."""

_PROGRAM = ("-m", "rumi.web.readers.pages.process")

AT_ONCE = max(1, (os.cpu_count() or 1) // 2)
"""Maximum number of processes: half of the processors, so that the other half is free for other work."""


class Readers:
    """A pool of at most `at_once` processes, started when needed and ended after `idle_s` idle seconds.

    Page parsers are large, are written for harmless input, and hold Python's global interpreter lock while
    they work. In a thread, they could not be stopped and would delay all other work. `read_s` limits the time
    for one page, in seconds.
    """

    def __init__(self, at_once: int = AT_ONCE, *, idle_s: float = 60.0, read_s: float = READ_S) -> None:
        self._permits = trio.Semaphore(at_once)
        self._idle_s = idle_s
        self._read_s = read_s
        self._idle: deque[tuple[float, Child]] = deque()  # the most recently used one is at the right
        self._parked = trio.Event()
        self._running = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Readers]:
        """Run the pool for a block. When the block has ended, no process is left."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.run)
            yield self
            nursery.cancel_scope.cancel()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the pool until cancelled; then end the idle processes."""
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

        `media_type` comes from the server, without parameters; `charset` is the one that the server declares,
        or None. `url` is the page's URL, to which its links are relative. The text has at most `max_chars`
        characters. On cancellation, the process that converts this page is killed and reaped before this
        method returns.

        Raises:
            FetchError: The page cannot be read within the limits of time and memory.
        """
        if not self._running:
            raise RuntimeError("readers read inside running() only")
        request: dict[str, object] = {"media_type": media_type.lower(), "charset": charset, "url": url}
        request["max_chars"] = max_chars
        async with self._permits:
            reader = await self._one()
            # True only after a complete answer: a process that was cancelled or failed in the middle of a
            # page could answer the next request with this page.
            sound = False
            try:
                text = await self._read(reader, request, body)
                sound = _peak_kb(reader.pid) <= WORN_KB
            finally:
                # After the end of `run`, no task would end an idle process.
                if sound and self._running:
                    self._idle.append((trio.current_time() + self._idle_s, reader))
                    self._parked.set()
                else:
                    await reader.end()
        return text

    async def _one(self) -> Child:
        """Return the most recently used process that is still alive, or start a new one.

        Raises:
            FetchError: A new process does not start.
        """
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
        """Send a page to a process, and return its answer, which is as untrusted as the page.

        Raises:
            FetchError: The page cannot be read, or the answer is invalid.
        """
        reader.left_s = self._read_s
        try:
            await reader.say(request, body)
            heard = await reader.hear()
            if heard.get("failed"):
                raise _too_much(str(heard["failed"]))
            links = tuple(str(link) for link in heard["links"])
            texts = (str(heard[name]) for name in ("cut", "described", "refresh"))
            return PageText(str(heard["title"]), str(heard["text"]), links, *texts)
        except (KeyError, TypeError):
            raise _too_much(NONSENSE) from None
        except ChildFailed as error:
            raise _too_much(self._why(error)) from None

    def _why(self, error: ChildFailed) -> str:
        if error.why == "late":
            return f"it took more than {self._read_s:.0f} seconds"
        if error.why == "signal" and error.number == signal.SIGXCPU:
            return "it took too much time"
        if error.why == "signal":  # libraries in C and C++ abort if they get no memory
            name = signal_name(error.number)
            return f"it takes too much memory, or is made to break its reader ({name})"
        return str(error)

    async def _end_idle(self) -> None:
        """Wait until a process becomes idle or has been idle too long; end all that were idle too long."""
        due = self._idle[0][0] if self._idle else math.inf
        with trio.move_on_at(due):
            self._parked = trio.Event()
            await self._parked.wait()
        while self._idle and self._idle[0][0] <= trio.current_time():
            await self._idle.popleft()[1].end()


def _too_much(why: str) -> FetchError:
    return FetchError(
        "The page could not be read: {why}.", "Another page may say the same.", why=why, answered=True
    )


def _peak_kb(pid: int) -> int:
    """Return a process's peak memory since its program started, in KB, as counted by the kernel.

    If the process called `getrusage`, the result would include its parent's peak from before the program
    started.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # the process has ended
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)
