"""How long to wait before a restart."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential waiting between restarts: `first_s`, then times `factor`, never more than `cap_s`.

    Counting starts over after an incarnation has run for `cap_s`.
    """

    first_s: float = 0.1
    factor: float = 2.0
    cap_s: float = 30.0

    def __post_init__(self) -> None:
        if self.first_s <= 0 or self.factor < 1 or self.cap_s < self.first_s:
            raise ValueError("a backoff needs first_s > 0, factor >= 1 and cap_s >= first_s")

    def delay_s(self, attempt: int) -> float:
        """Seconds to wait before restart number `attempt` in a row, counted from 0."""
        try:
            return min(self.cap_s, self.first_s * self.factor**attempt)
        except OverflowError:
            return self.cap_s
