"""The requests to the recall: passages of earlier conversations, each with one owner."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from actors import Request
from rumi.errors import RumiError
from rumi.platform.chat_ids import ChatIds

Kind: TypeAlias = Literal["exchange", "task", "episode"]
"""What a passage is: an exchange in a chat, the result of a task, or the line of a session that ended."""

Who: TypeAlias = Literal["", "user", "assistant"]
"""Whose words are searched; empty: both."""

MOST: Final = 5
"""Passages that an answer has, if no other number is asked for."""
MOST_QUERY_CHARS: Final = 500
"""The part of a query that is read."""


class RecallUnavailable(RumiError):
    """`recall.db` or what it follows cannot be read now."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage that was found. `before` and `after` are its neighbours in the session, in short.

    `at` is in seconds since 1970. `tainted`: something from outside had been read there.
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
    """Find an owner's passages for a query, the best first.

    `since` and `until` are seconds since 1970; nothing outside of them is found.
    """

    owner: str
    query: str
    since: float | None = None
    until: float | None = None
    who: Who = ""
    limit: int = MOST


@dataclass(frozen=True, slots=True)
class CatchUp(Request[bool]):
    """Index a slice of what is new in the state. The reply is True if there may be more.

    `ids` know the owners of chats.
    """

    ids: ChatIds


@dataclass(frozen=True, slots=True)
class Prune(Request[int | None]):
    """Look at the passages after the one of that number, and remove those that the state has no more.

    The reply is where to go on, None at the end.
    """

    after: int = 0


@dataclass(frozen=True, slots=True)
class CountPassages(Request[int]):
    """Return how many passages there are."""


@dataclass(frozen=True, slots=True)
class Unindex(Request[int]):
    """Remove all passages of an owner; the answer is their number. What the state still has comes back."""

    owner: str


@dataclass(frozen=True, slots=True)
class HistoryDeleted:
    """Something was deleted from the state: what was indexed of it is removed now."""


RecallMessage: TypeAlias = SearchPassages | CatchUp | Prune | Unindex | CountPassages | HistoryDeleted
