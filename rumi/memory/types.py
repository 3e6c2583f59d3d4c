"""What the memory is asked: facts about its users, each belonging to one owner."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from actors import Request
from rumi.errors import RumiError, UsageError

Source: TypeAlias = Literal["explicit", "auto"]
"""Said to be remembered, or drawn from what was said."""

LOCAL = "local"
"""The owner of what is said in the terminal's chats."""

MAX_KEY_CHARS = 100
MAX_VALUE_CHARS = 1000
MAX_FACTS = 1000
"""How many facts one owner may have."""


class MemoryUnavailable(RumiError):
    """`memory.db` cannot be read or written."""


class MemoryUnwritable(MemoryUnavailable, UsageError):
    """`memory.db` cannot be written now, because of its disk or of another program."""


class FactRefused(RumiError):
    """A fact that is not stored, and why."""


def owner_of(chat: str) -> str:
    """Whose facts a chat works with: a Telegram user's, a group's as such, or the terminal's.

    The topics of one Telegram chat share its owner: `tg-100777_5` belongs to `tg-100777`.
    """
    return chat.partition("_")[0] if chat.startswith("tg") else LOCAL


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact. `chat` is where it came from; `tainted`: something from outside had been read there before.

    `created` and `updated` are seconds since 1970.
    """

    key: str
    value: str
    source: Source = "explicit"
    chat: str = ""
    tainted: bool = False
    created: float = 0.0
    updated: float = 0.0


@dataclass(frozen=True, slots=True)
class NewFact:
    """A fact to be stored."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Remember(Request[tuple[Fact, ...]]):
    """Store a fact, or renew its time. Answered with what else stands under the key, oldest first.

    Keys are the same whatever their case and blanks; a fact shows as it was written last. One that was said
    stays one that was said, and what was known from a clean source stays clean.
    """

    owner: str
    fact: NewFact
    source: Source = "explicit"
    chat: str = ""
    tainted: bool = False


@dataclass(frozen=True, slots=True)
class Learn(Request[int]):
    """Store what was drawn from a session up to its history entry `upto`; how many facts are new.

    Once: the same chat, session and `upto` are answered with 0 the next time, also after a crash. `began` is
    when the session began: what its user has had forgotten since is not learned from what they said before.
    """

    owner: str
    chat: str
    session: int
    upto: int
    facts: tuple[NewFact, ...]
    began: float | None = None


@dataclass(frozen=True, slots=True)
class Learned(Request[bool]):
    """Whether a session was learned from up to that entry already."""

    chat: str
    session: int
    upto: int


@dataclass(frozen=True, slots=True)
class Forget(Request[int]):
    """Delete all facts under a key; how many went."""

    owner: str
    key: str


@dataclass(frozen=True, slots=True)
class Facts(Request[tuple[Fact, ...]]):
    """All facts of an owner: explicit ones first, then the most recent first."""

    owner: str


MemoryMessage: TypeAlias = Remember | Learn | Learned | Forget | Facts
