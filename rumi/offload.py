"""Blocking work, such as files and databases, away from the event loop."""

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

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
