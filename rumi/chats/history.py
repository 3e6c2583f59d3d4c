"""How much history prompts hold, and when its beginning has to give way: seldom, and in large steps.

Between two steps prompts only grow, so that each begins with all of the one before: servers charge less for
what they have seen, and answer sooner.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rumi.chats.noting import exchanges, is_whole
from rumi.journal import HistoryEntry
from rumi.models import messages_tokens

SUMMED_AT: Final = 0.6
"""How much of the room for a prompt is taken when the beginning of the history is summed up."""

CUT_AT: Final = 0.85
"""How much of it is taken when a turn begins with a cut, because there is no summary."""

LEAST: Final = 0.55
"""How much of what instructions and tools leave the history has in any case, before it is summed up."""

KEPT_BY_SUMMARY: Final = 0.35
KEPT_BY_CUT: Final = 0.5
"""How much of the history stays, of as much as there may be: then the next step is many turns away."""


@dataclass(frozen=True, slots=True)
class HistoryRoom:
    """The room for prompts in tokens, what of it is taken before any history, and the most messages."""

    tokens: int
    taken: int
    messages: int | None = None

    def outgrown(self, entries: Sequence[HistoryEntry]) -> tuple[HistoryEntry, ...]:
        """The oldest exchanges, which a summary should stand for; nothing while there is room."""
        left = self.tokens - self.taken
        most = max(int(self.tokens * SUMMED_AT) - self.taken, int(left * LEAST))
        return self._beginning(entries, most, SUMMED_AT, KEPT_BY_SUMMARY)

    def too_long(self, entries: Sequence[HistoryEntry]) -> tuple[HistoryEntry, ...]:
        """The oldest exchanges, which have to go although there is no summary; never the last one."""
        left = self.tokens - self.taken
        most = max(int(self.tokens * CUT_AT) - self.taken, int(left * LEAST))
        gone = self._beginning(entries, most, 1, KEPT_BY_CUT)
        return gone if len(gone) < len(entries) else gone[: len(gone) - len(exchanges(entries)[-1])]

    def _beginning(
        self, entries: Sequence[HistoryEntry], most_tokens: int, share: float, kept_share: float
    ) -> tuple[HistoryEntry, ...]:
        most = (most_tokens, float("inf") if self.messages is None else self.messages * share)
        if not _exceeds(_cost(entries), most, 1):
            return ()
        kept = tokens = messages = 0
        for exchange in reversed(exchanges(entries)):
            more = _cost(exchange)
            tokens, messages = tokens + more[0], messages + more[1]
            # The last exchange is what the user is talking about: it stays, unless it fills the room alone.
            if _exceeds((tokens, messages), most, kept_share if kept else 1):
                break
            kept += len(exchange)
        return tuple(entries[: len(entries) - kept])


def _cost(entries: Sequence[HistoryEntry]) -> tuple[int, int]:
    """Tokens without the whole note, which stands with the instructions; messages without any note."""
    messages = [entry.message for entry in entries if not is_whole(entry)]
    return messages_tokens(messages), sum(message.role != "system" for message in messages)


def _exceeds(cost: tuple[int, int], most: tuple[float, float], share: float) -> bool:
    return cost[0] > most[0] * share or cost[1] > most[1] * share
