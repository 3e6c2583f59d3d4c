"""The requests to the recall: search and index passages of earlier conversations, each with one owner."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from actors import Request
from rumi.errors import RumiError
from rumi.platform.chat_ids import ChatIds

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
class SearchPassages(Request[tuple[Passage, ...]]):
    """Return an owner's passages for a query, the best first.

    Only passages between the Unix times `since` and `until` are returned.
    """

    owner: str
    query: str
    since: float | None = None
    until: float | None = None
    who: Who = ""
    limit: int = MOST


@dataclass(frozen=True, slots=True)
class CatchUp(Request[bool]):
    """Index a batch of new entries of the state. The reply is True if more new entries may remain.

    `ids` maps chats to their owners.
    """

    ids: ChatIds


@dataclass(frozen=True, slots=True)
class Prune(Request[int | None]):
    """Check a batch of passages with ids above `after`; remove those that were deleted from the state.

    The reply is the cursor for the next batch, None at the end.
    """

    after: int = 0


@dataclass(frozen=True, slots=True)
class CountPassages(Request[int]):
    """Return the number of indexed passages."""


@dataclass(frozen=True, slots=True)
class Unindex(Request[int]):
    """Remove all passages of an owner; the reply is their number.

    Passages that are still in the state will be indexed again.
    """

    owner: str


@dataclass(frozen=True, slots=True)
class HistoryDeleted:
    """A notification that something was deleted from the state, so that its passages are removed now."""


RecallMessage: TypeAlias = SearchPassages | CatchUp | Prune | Unindex | CountPassages | HistoryDeleted
