"""The memory's requests: facts about its users, each with one owner."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from actors import Request
from rumi.errors import RumiError, UsageError

Source: TypeAlias = Literal["explicit", "auto"]
"""Stated by the user, or extracted from a conversation."""

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


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact. `chat` is its origin, `turn` the turn there; of an extracted one the session, as `session 3`.

    `tainted`: its turn had read something from outside.

    `created` and `updated` are seconds since 1970.
    """

    key: str
    value: str
    source: Source = "explicit"
    chat: str = ""
    tainted: bool = False
    created: float = 0.0
    updated: float = 0.0
    turn: str = ""


@dataclass(frozen=True, slots=True)
class PastFact:
    """A fact that another one has replaced, and when, in seconds since 1970."""

    fact: Fact
    ended: float


@dataclass(frozen=True, slots=True)
class NewFact:
    """A fact to store. An extracted one may have the key of a known fact that it `replaces`."""

    key: str
    value: str
    replaces: str = ""


@dataclass(frozen=True, slots=True)
class Remember(Request[tuple[Fact, ...]]):
    """Store a fact, or renew its time. The answer has the other facts with the key, oldest first.

    Without `also` they are replaced: they hold no longer, and are kept as the key's history.

    Keys are equal regardless of case and blanks; a fact shows the spelling that was written last. A stated
    fact stays stated, and a fact from a clean source stays clean.
    """

    owner: str
    fact: NewFact
    source: Source = "explicit"
    chat: str = ""
    tainted: bool = False
    turn: str = ""
    """The turn that stores it, which can be taken back."""
    also: bool = True


@dataclass(frozen=True, slots=True)
class StoreExtracted(Request[int]):
    """Store facts extracted from a session up to its history entry `upto`. The answer counts the new ones.

    This happens once: for the same chat, session and `upto` the next answer is 0, also after a crash. `began`
    is the time when the session began: keys that the user has forgotten since then are not learned from
    earlier words. A fact replaces the owner's fact with the key that it names, if there is exactly one; a
    stated fact is replaced only under its own key.
    """

    owner: str
    chat: str
    session: int
    upto: int
    facts: tuple[NewFact, ...]
    began: float | None = None


@dataclass(frozen=True, slots=True)
class IsExtracted(Request[bool]):
    """Ask if facts were already extracted from a session up to that entry."""

    chat: str
    session: int
    upto: int


@dataclass(frozen=True, slots=True)
class Forget(Request[int]):
    """Delete all facts with a key. The answer is their number. The `turn` that does it can be taken back."""

    owner: str
    key: str
    turn: str = ""


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The keys whose facts are as before a turn, and those that something else has changed since."""

    restored: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TakeFactsBack(Request[TakenBack]):
    """Restore the facts that a turn has stored or deleted. What was changed since stays as it is."""

    turn: str


@dataclass(frozen=True, slots=True)
class PastFacts(Request[tuple[PastFact, ...]]):
    """Return the facts of a key that others have replaced, oldest first."""

    owner: str
    key: str


@dataclass(frozen=True, slots=True)
class ForgetOwner(Request[int]):
    """Delete all that is known of an owner, with its history. The answer is the number of facts."""

    owner: str


@dataclass(frozen=True, slots=True)
class Facts(Request[tuple[Fact, ...]]):
    """Return all facts of an owner: explicit ones first, then the most recent first."""

    owner: str


@dataclass(frozen=True, slots=True)
class Share(Request[int]):
    """Show an owner's facts with a key to a group. The answer is how many facts these are; 0 shares nothing.

    Refused with `FactRefused` where the owner shares too many with that group.
    """

    owner: str
    key: str
    group: str


@dataclass(frozen=True, slots=True)
class Unshare(Request[int]):
    """Show them no more. The answer is 1 if they were shared, otherwise 0."""

    owner: str
    key: str
    group: str


@dataclass(frozen=True, slots=True)
class Shared(Request[tuple[tuple[str, Fact], ...]]):
    """Return the facts that people have shared with a group, each with its owner; only an `owner`'s, if one
    is named.
    """

    group: str
    owner: str = ""


MemoryMessage: TypeAlias = (
    Remember
    | StoreExtracted
    | IsExtracted
    | Forget
    | ForgetOwner
    | PastFacts
    | Facts
    | TakeFactsBack
    | Share
    | Unshare
    | Shared
)
