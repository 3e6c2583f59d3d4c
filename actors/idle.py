"""Idle checks of all keyed children of a supervisor, in one task."""

import heapq
from collections.abc import Callable

import trio


class IdleWatch:
    """A heap of the times at which to check each key for idleness.

    `look(key, at)` closes the child if it has been idle long enough, and returns the time of the next check,
    or None if there is none. Messages don't reset a timer here; the check compares with the time of the last
    message, so that a message costs nothing. Checks are never removed from the heap before they are due:
    `look` recognises an outdated check by its `at`.
    """

    __slots__ = ("_looks", "_nap")

    def __init__(self) -> None:
        self._looks: list[tuple[float, str]] = []
        self._nap: trio.CancelScope | None = None

    def add(self, key: str, at: float) -> None:
        """Schedule a check of `key` at the time `at`, on trio's clock."""
        heapq.heappush(self._looks, (at, key))
        if self._nap is not None and self._looks[0] == (at, key):
            self._nap.cancel()  # the new check is the earliest: sleep until then instead

    async def run(self, look: Callable[[str, float], float | None]) -> None:
        """Call `look` for each check when it is due; this continues until cancelled."""
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
