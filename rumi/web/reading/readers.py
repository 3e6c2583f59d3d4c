"""Readers: processes that turn pages into text, one page at a time each."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from rumi.web.reading.reader import NoAnswer, Reader
from rumi.web.reading.text import Text
from rumi.web.types import FetchError

READ_S = 10.0

AT_ONCE = max(1, (os.cpu_count() or 1) // 2)
"""Half of the processors may read: the others are for those who wait for something else than a page."""


class Readers:
    """At most `at_once` processes that read, started when needed, ended when idle for `idle_s` seconds.

    Parsers are large, are written for friendly input, and hold Python's lock while they work: in a thread
    they could neither be ended nor kept from delaying everybody. `read_s` is the time that one page may take.
    """

    def __init__(self, at_once: int = AT_ONCE, *, idle_s: float = 60.0, read_s: float = READ_S) -> None:
        self._permits = trio.Semaphore(at_once)
        self._idle_s = idle_s
        self._read_s = read_s
        self._idle: deque[tuple[float, Reader]] = deque()  # the one that was used last is at the right
        self._parked = trio.Event()
        self._running = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Readers]:
        """Pages can be read inside; at the end, however it comes, no process is left."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.run)
            yield self
            nursery.cancel_scope.cancel()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Own the processes that wait for work, until cancelled; then they are ended."""
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
        """How many processes wait for work."""
        return len(self._idle)

    async def read(
        self, body: bytes, *, media_type: str, charset: str | None, url: str, max_chars: int
    ) -> Text:
        """Read a page.

        `media_type` is the server's, without parameters; `charset` the one that it names, if it does; `url`
        is where the page came from, and what its links are relative to; the text that is returned has at most
        `max_chars` characters.

        Cancelled, the process that works on it has been killed and reaped before this leaves.

        Raises:
            FetchError: the page cannot be read in the time and memory that one page may take.
        """
        if not self._running:
            raise RuntimeError("readers read inside running() only")
        request: dict[str, object] = {"media_type": media_type.lower(), "charset": charset, "url": url}
        request["max_chars"] = max_chars
        async with self._permits:
            reader = await self._one()
            sound = False
            try:
                with trio.fail_after(self._read_s):
                    text = await reader.read(request, body)
                sound = not reader.worn
            except trio.TooSlowError:
                raise _too_much(f"it took more than {self._read_s:.0f} seconds") from None
            except NoAnswer as error:
                raise _too_much(str(error)) from None
            finally:
                if sound and self._running:
                    self._idle.append((trio.current_time() + self._idle_s, reader))
                    self._parked.set()
                else:
                    await reader.end()
        return text

    async def _one(self) -> Reader:
        """The reader that was used last, if it is still alive, or a new one."""
        while self._idle:
            reader = self._idle.pop()[1]
            if reader.alive:
                return reader
            await reader.end()
        return await Reader.start()

    async def _end_idle(self) -> None:
        """Wait for what comes first: the end of somebody's idle time, or somebody new who is idle."""
        due = self._idle[0][0] if self._idle else math.inf
        with trio.move_on_at(due):
            self._parked = trio.Event()
            await self._parked.wait()
        while self._idle and self._idle[0][0] <= trio.current_time():
            await self._idle.popleft()[1].end()


def _too_much(why: str) -> FetchError:
    return FetchError(f"The page could not be read: {why}.", "Another page may say the same.", answered=True)
