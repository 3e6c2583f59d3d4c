"""Worker threads for blocking work, such as files and databases."""

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

T = TypeVar("T")


class Offload(Protocol):
    """Runs blocking work in worker threads; a simulation with a virtual clock runs it in place."""

    async def __call__(self, work: Callable[[], T]) -> T:
        """Return the result of `work`."""
        ...


class Threads:
    """Runs blocking work in worker threads of its own, at most `at_once` at the same time."""

    def __init__(self, at_once: int = 1) -> None:
        self._limiter = trio.CapacityLimiter(at_once)

    async def __call__(self, work: Callable[[], T]) -> T:
        """Return the result of `work`. On cancellation, wait for its end first."""
        # An abandoned thread could still commit, and nobody would know whether it did.
        return await trio.to_thread.run_sync(work, limiter=self._limiter)
