"""The adaptive limit on simultaneous calls to one server. Servers do not report how many calls they can take.

The limit adapts like TCP's congestion window. Each successful call raises the limit by one, so the limit
doubles with each round of calls, until the server refuses a call because there are too many. From then on,
the limit rises by one per round, and falls by a quarter after a refusal. The limit rises only while calls
have to wait for it.
"""

from dataclasses import dataclass
from typing import Final

AT_FIRST: Final = 100
"""Initial limit. Most servers accept this many calls; other servers refuse the excess calls immediately."""

AT_MOST: Final = 2000
DOWN_TO: Final = 0.75
LEAST_SHARE: Final = 0.25
"""The first round of refusals cannot lower the limit below this share of it, as some refusals arrive late."""


@dataclass(slots=True)
class Concurrency:
    """The state of one server's limit. `limit` is the current limit on simultaneous calls, at most `most`.

    `first` is the number of calls that had started when the first call was refused. `begun` is the number of
    calls that had started when the limit was last reduced: the refusal of a call that started earlier does
    not reduce the limit again. `taken` counts the calls that were running at the first refusal and have not
    been refused. `least` is the lower bound of the limit for the first round.
    """

    limit: float = AT_FIRST
    most: int = AT_MOST
    first: int | None = None
    begun: int = 0
    taken: int = 0
    least: float = 1.0

    @property
    def now(self) -> int:
        """The number of calls that may currently run at the same time."""
        return int(self.limit)

    def went_well(self, running: int) -> None:
        """Record that a call was answered while `running` calls ran. Raise the limit if it was reached."""
        if running >= self.now:
            more = 1.0 if self.first is None else 1 / max(1.0, self.limit)
            self.limit = max(self.limit, min(self.limit + more, self.most))

    def refused(self, number: int, running: int, begun: int) -> None:
        """Record the refusal of a call; lower the limit.

        `number` is the number of calls that started before the refused call. `running` is the number of
        running calls. `begun` is the number of calls that have started in total. Each refused call that
        started before the first refusal means that one call too many was running.
        """
        if self.first is None:
            self.first, self.begun, self.taken = begun, begun, running
            self.least = max(1.0, self.limit * LEAST_SHARE)
        if number < self.first:
            self.taken -= 1
            self.limit = min(self.limit, max(self.least, self.taken))
        elif number >= self.begun:
            self.limit, self.begun = min(self.limit, max(1.0, self.limit * DOWN_TO)), begun
