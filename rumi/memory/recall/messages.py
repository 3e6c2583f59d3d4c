"""Passages of earlier conversations, and the other values that the recall takes and returns."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rumi.errors import RumiError

Kind: TypeAlias = Literal["exchange", "task", "episode"]
"""The kind of a passage: an exchange in a chat, a task's result, or the line about an ended session."""

Who: TypeAlias = Literal["", "user", "assistant"]
"""The side of the conversations to search; empty for both."""

MOST: Final = 5
"""Default number of passages in an answer."""
MOST_QUERY_CHARS: Final = 500
"""Maximum number of characters of a query; the rest is ignored."""


class RecallUnavailable(RumiError):
    """The recall cannot be used: `recall.db` or the state that it indexes cannot be read at the moment."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage found by a search. `before` and `after` are the session's adjacent passages, shortened.

    `at` is a Unix time. `tainted` is true if the passage or an adjacent one may contain untrusted content.
    """

    kind: Kind
    chat: str
    turn: str
    at: float
    said: str
    answered: str
    before: str = ""
    after: str = ""
    tainted: bool = False
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class HistoryDeleted:
    """A notification that something was deleted from the state, so that its passages are removed now."""
