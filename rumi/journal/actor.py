"""The journal's actor: the only writer of `state.db`. Requests that come together share one commit."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import trio

from actors import Actor
from rumi.journal.messages import JournalMessage
from rumi.journal.store import Store

T = TypeVar("T")


class Offload(Protocol):
    """Runs blocking work. Threads in a process; in place, under a virtual clock, in a simulation."""

    async def __call__(self, work: Callable[[], T]) -> T:
        """Run `work` and return what it returns."""
        ...


class Threads:
    """Blocking work in worker threads of its own: one after the other, unless more are let in."""

    def __init__(self, at_once: int = 1) -> None:
        self._limiter = trio.CapacityLimiter(at_once)

    async def __call__(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread. Cancellation waits for its end: a commit is never half known."""
        return await trio.to_thread.run_sync(work, limiter=self._limiter)


class _Job:
    """A request on its way to the file. Its asker waits for `done`."""

    __slots__ = ("done", "error", "reply", "request")

    def __init__(self, request: JournalMessage) -> None:
        self.request = request
        self.done = trio.Event()
        self.reply: object = None
        self.error: Exception | None = None


class Journal(Actor[JournalMessage]):
    """Group commit: what arrives while one transaction is written goes into the next, all together.

    It is started with a concurrency of many, so that requests reach `receive` while others wait for the
    disk; one sender's are written in the order of its asks; tells have no order. A write error is a
    crash: the supervisor tries again, and gives up when the disk stays as it is.
    """

    CONCURRENCY = 4096

    def __init__(self, path: Path, offload: Offload, now: Callable[[], float]) -> None:
        self._path = path
        self._offload = offload
        self._now = now
        self._waiting: list[_Job] = []
        self._work = trio.Event()
        self._store: Store | None = None
        self._outbox = 0

    async def started(self) -> None:
        """Open the file.

        Raises:
            JournalError: with what to do about it.
        """
        self._store = await self._offload(lambda: Store(self._path, self._now))
        self._outbox = self._store.undelivered
        self.start_soon(self._write, self._store)

    async def receive(self, message: JournalMessage) -> object:
        """Hand the request to the writer, and answer once it is on the disk."""
        job = _Job(message)
        self._waiting.append(job)
        self._work.set()
        await job.done.wait()
        if job.error is not None:
            raise job.error
        return job.reply

    async def _write(self, store: Store) -> None:
        while True:
            await self._work.wait()
            self._work = trio.Event()
            jobs, self._waiting = self._waiting, []
            requests = [job.request for job in jobs]
            try:
                replies = await self._offload(lambda requests=requests: store.run(requests))  # type: ignore[misc]
            except Exception as error:
                for job in jobs:
                    job.error = error
                    job.done.set()
                raise
            self._outbox = store.undelivered
            for job, reply in zip(jobs, replies, strict=True):
                job.reply = reply
                job.done.set()

    async def stopped(self, reason: str) -> None:
        """Write what is left, then close the file."""
        store, self._store = self._store, None
        if store is None:
            return
        left = [job.request for job in self._waiting]
        try:
            if left and reason != "crashed":
                await self._offload(lambda: store.run(left))
        finally:
            store.close()

    def doing(self) -> str:
        """How many requests wait for the disk."""
        return f"{len(self._waiting)} waiting for the disk" if self._waiting else ""

    def figures(self) -> Mapping[str, object]:
        """Requests that wait for the disk, and replies that nobody has acknowledged, as last committed."""
        return {"waiting": len(self._waiting), "outbox": self._outbox}
