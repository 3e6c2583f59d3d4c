"""Delays before restarts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff between restarts: `first_s`, multiplied by `factor` each time, at most `cap_s`.

    The delay returns to `first_s` after an incarnation has run for `cap_s`. Times are in seconds.
    """

    first_s: float = 0.1
    factor: float = 2.0
    cap_s: float = 30.0

    def __post_init__(self) -> None:
        if self.first_s <= 0 or self.factor < 1 or self.cap_s < self.first_s:
            raise ValueError("a backoff needs first_s > 0, factor >= 1 and cap_s >= first_s")

    def delay_s(self, attempt: int) -> float:
        """Return the seconds to wait before consecutive restart number `attempt`, counted from 0."""
        try:
            return min(self.cap_s, self.first_s * self.factor**attempt)
        except OverflowError:
            return self.cap_s
