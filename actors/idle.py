"""Finds children that have been idle long enough: one task for all of them."""

import heapq
from collections.abc import Callable

import trio


class IdleWatch:
    """A clock for each key, looked at when it may have run out; messages do not touch it.

    `look(key, at)` closes the child if it is idle for long enough, and returns the time of the next look, or
    None when there is none. Nothing is ever taken out: a look that is no longer wanted is known by its `at`.
    """

    __slots__ = ("_looks", "_nap")

    def __init__(self) -> None:
        self._looks: list[tuple[float, str]] = []
        self._nap: trio.CancelScope | None = None

    def add(self, key: str, at: float) -> None:
        """Look at `key` at that time."""
        heapq.heappush(self._looks, (at, key))
        if self._nap is not None and self._looks[0] == (at, key):
            self._nap.cancel()

    async def run(self, look: Callable[[str, float], float | None]) -> None:
        """Look when it is time, until cancelled."""
        while True:
            at = self._looks[0][0] if self._looks else float("inf")
            with trio.CancelScope() as self._nap:
                await trio.sleep_until(at)
            self._nap = None
            while self._looks and self._looks[0][0] <= trio.current_time():
                at, key = heapq.heappop(self._looks)
                again = look(key, at)
                if again is not None:
                    heapq.heappush(self._looks, (again, key))
