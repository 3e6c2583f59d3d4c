"""The number of calls that may run at once at one server. No server reports it, so it is measured.

TCP measures the capacity of a path in the same way: each successful call lets one more run (so the number
doubles each round), until the server refuses one because there are too many. From then on the number
increases by one a round, and decreases by a quarter when a call is refused. It increases only while it is the
reason that calls wait.
"""

from dataclasses import dataclass
from typing import Final

AT_FIRST: Final = 100
"""Most servers take this many calls, and the others refuse the rest at once."""

AT_MOST: Final = 2000
DOWN_TO: Final = 0.75
LEAST_SHARE: Final = 0.25
"""The first refused calls reduce the limit at most to this share, because some may be refused late."""


@dataclass(slots=True)
class Concurrency:
    """The limit of one server. `limit` is how many calls may run now; `most` is its maximum.

    `first` and `begun` are how many calls had begun at the first refusal, and when the limit was last
    reduced: refusals of earlier calls say nothing about a lower limit. `taken` counts those calls of the
    first refusal's round that the server has not refused since.
    """

    limit: float = AT_FIRST
    most: int = AT_MOST
    first: int | None = None
    begun: int = 0
    taken: int = 0
    least: float = 1.0

    @property
    def now(self) -> int:
        """The number of calls that may run now."""
        return int(self.limit)

    def went_well(self, running: int) -> None:
        """Raise the limit if it was reached: of `running` calls, one was answered."""
        if running >= self.now:
            more = 1.0 if self.first is None else 1 / max(1.0, self.limit)
            self.limit = max(self.limit, min(self.limit + more, self.most))

    def refused(self, number: int, running: int, begun: int) -> None:
        """Lower the limit: call `number` was refused while `running` calls ran and `begun` had begun in all.

        Each refused call that began before the first refusal shows that there was one call too many.
        """
        if self.first is None:
            self.first, self.begun, self.taken = begun, begun, running
            self.least = max(1.0, self.limit * LEAST_SHARE)
        if number < self.first:
            self.taken -= 1
            self.limit = min(self.limit, max(self.least, self.taken))
        elif number >= self.begun:
            self.limit, self.begun = min(self.limit, max(1.0, self.limit * DOWN_TO)), begun
