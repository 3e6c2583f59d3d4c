"""The limit on restarts within a sliding window of time."""

from collections import deque


class RestartIntensity:
    """Sliding-window limit: at most `max_restarts` restarts in any `within` seconds, both ends included."""

    __slots__ = ("_times", "max_restarts", "within")

    def __init__(self, max_restarts: int, within: float) -> None:
        self.max_restarts = max_restarts
        self.within = within
        self._times: deque[float] = deque()

    def allow(self, now: float) -> bool:
        """Count a restart at `now` and return True, or return False if it would exceed the limit."""
        times = self._times
        while times and now - times[0] > self.within:
            times.popleft()
        if len(times) >= self.max_restarts:
            return False
        times.append(now)
        return True


def check_intensity(max_restarts: int, within: float) -> None:
    """Raise ValueError if the limit is negative or the window is not positive."""
    if max_restarts < 0 or within <= 0:
        raise ValueError("max_restarts must be 0 or more, within must be more than 0 seconds")
