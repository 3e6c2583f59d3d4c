"""Worker threads for blocking work, such as files and databases."""

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

T = TypeVar("T")


class Offload(Protocol):
    """Runs blocking work in worker threads or, in a simulation with a virtual clock, in the trio thread."""

    async def __call__(self, work: Callable[[], T]) -> T:
        """Run `work` and return its result."""
        ...


class Threads:
    """Runs blocking work in worker threads, at most `at_once` calls at the same time."""

    def __init__(self, at_once: int = 1) -> None:
        self._limiter = trio.CapacityLimiter(at_once)

    async def __call__(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread and return its result. On cancellation, wait until the work has ended."""
        # An abandoned thread could still commit, and nobody would know whether it did.
        return await trio.to_thread.run_sync(work, limiter=self._limiter)
