"""The adaptive limit of simultaneous calls at one server. Servers do not report their capacity.

The limit follows the server as TCP's congestion window follows a path: each successful call raises it by one
(so it doubles each round) until the server refuses a call because there are too many. From then on it rises
by one per round and falls by a quarter after a refusal. It rises only while it delays calls.
"""

from dataclasses import dataclass
from typing import Final

AT_FIRST: Final = 100
"""Initial limit: most servers accept this many calls, and the others refuse the excess calls at once."""

AT_MOST: Final = 2000
DOWN_TO: Final = 0.75
LEAST_SHARE: Final = 0.25
"""Share of the limit below which the first round of refusals cannot reduce it: some of them arrive late."""


@dataclass(slots=True)
class Concurrency:
    """The limit of one server. `limit` is the current number of simultaneous calls; `most` is its maximum.

    `first` is the number of calls that had started at the first refusal, `begun` the number at the last
    reduction: a refusal of a call that started before a reduction does not count against the lower limit.
    `taken` counts the calls that ran at the first refusal and were not refused since. `least` is the lower
    bound for the first round.
    """

    limit: float = AT_FIRST
    most: int = AT_MOST
    first: int | None = None
    begun: int = 0
    taken: int = 0
    least: float = 1.0

    @property
    def now(self) -> int:
        """The number of calls that may run at the same time now."""
        return int(self.limit)

    def went_well(self, running: int) -> None:
        """Record an answered call while `running` calls ran; raise the limit if it was reached."""
        if running >= self.now:
            more = 1.0 if self.first is None else 1 / max(1.0, self.limit)
            self.limit = max(self.limit, min(self.limit + more, self.most))

    def refused(self, number: int, running: int, begun: int) -> None:
        """Record the refusal of a call; lower the limit.

        `number` is the number of calls that had started before the refused one, `running` the number of calls
        that run, `begun` the number that have started in total. Each refused call that had started before the
        first refusal shows one call too many.
        """
        if self.first is None:
            self.first, self.begun, self.taken = begun, begun, running
            self.least = max(1.0, self.limit * LEAST_SHARE)
        if number < self.first:
            self.taken -= 1
            self.limit = min(self.limit, max(self.least, self.taken))
        elif number >= self.begun:
            self.limit, self.begun = min(self.limit, max(1.0, self.limit * DOWN_TO)), begun
