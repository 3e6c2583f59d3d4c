"""Passages of earlier conversations, and the other values that the recall takes and returns."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rumi.errors import RumiError

Kind: TypeAlias = Literal["exchange", "task", "episode"]
"""The kind of a passage: an exchange in a chat, a task's result, or the line about an ended session."""

Who: TypeAlias = Literal["", "user", "assistant"]
"""The side of the conversations to search; empty for both."""

TOKENS: Final = 1_000
"""Default number of tokens that the passages of an answer may take, as text."""
MOST_TOKENS: Final = 8_000
"""Maximum number of tokens that a caller can ask for."""
MOST_QUERY_CHARS: Final = 500
"""Maximum number of characters of a query; the rest is ignored."""


class RecallUnavailable(RumiError):
    """The recall cannot be used: `recall.db` or the state that it indexes cannot be read at the moment."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage found by a search: an exchange, a task's result, or the line about a session.

    `said` and `answered` are excerpts; a side that did not fit into the answer is empty. `at` is a Unix time.
    `tainted` is true if the passage may contain untrusted content.
    """

    kind: Kind
    chat: str
    turn: str
    at: float
    said: str
    answered: str
    tainted: bool = False
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class HistoryDeleted:
    """A notification that something was deleted from the state, so that its passages are removed now."""
