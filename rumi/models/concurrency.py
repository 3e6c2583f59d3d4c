"""How many calls may run at once at one server, which nobody tells: it is found out.

As TCP finds how much a line carries: each call that goes well lets one more run (so the number doubles with
each round), until the server refuses one because there are too many. From then on the number goes up by one
a round, and down by a quarter when a call is refused. It only goes up while it is what holds calls back.
"""

from dataclasses import dataclass
from typing import Final

AT_FIRST: Final = 100
"""Most servers take so many, and those that do not refuse the rest at once."""

AT_MOST: Final = 2000
DOWN_TO: Final = 0.75
LEAST_SHARE: Final = 0.25
"""The first calls that are refused take the limit down so far at the most: some may be refused late."""


@dataclass(slots=True)
class Concurrency:
    """One server's. `limit` is how many may run now; `most` what it never exceeds.

    `first` and `begun` are how many calls had begun when one was refused for the first time, and when the
    limit went down last: what earlier calls meet says nothing about a lower limit. `taken` is how many of
    those that ran at that first time the server has not refused since.
    """

    limit: float = AT_FIRST
    most: int = AT_MOST
    first: int | None = None
    begun: int = 0
    taken: int = 0
    least: float = 1.0

    @property
    def now(self) -> int:
        """How many calls may run."""
        return int(self.limit)

    def went_well(self, running: int) -> None:
        """A call was answered, while so many ran, itself included."""
        if running >= self.now:
            more = 1.0 if self.first is None else 1 / max(1.0, self.limit)
            self.limit = max(self.limit, min(self.limit + more, self.most))

    def refused(self, number: int, running: int, begun: int) -> None:
        """Call `number` was refused, while so many ran, itself included, and `begun` had begun in all.

        Of the calls that began before the first one was refused, each says by how many there were too many.
        """
        if self.first is None:
            self.first, self.begun, self.taken = begun, begun, running
            self.least = max(1.0, self.limit * LEAST_SHARE)
        if number < self.first:
            self.taken -= 1
            self.limit = min(self.limit, max(self.least, self.taken))
        elif number >= self.begun:
            self.limit, self.begun = min(self.limit, max(1.0, self.limit * DOWN_TO)), begun
