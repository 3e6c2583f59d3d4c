"""Blocking work, such as files and databases, away from the event loop."""

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

T = TypeVar("T")


class Offload(Protocol):
    """Runs blocking work. Threads in a process; in place, under a virtual clock, in a simulation."""

    async def __call__(self, work: Callable[[], T]) -> T:
        """Return the result of `work`."""
        ...


class Threads:
    """Runs blocking work in its own worker threads: at most `at_once` at the same time."""

    def __init__(self, at_once: int = 1) -> None:
        self._limiter = trio.CapacityLimiter(at_once)

    async def __call__(self, work: Callable[[], T]) -> T:
        """Return the result of `work`. A cancellation waits for its end, so that no commit is half known."""
        return await trio.to_thread.run_sync(work, limiter=self._limiter)
