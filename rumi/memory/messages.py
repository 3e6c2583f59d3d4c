"""The requests to the memory: storing, deleting, sharing and listing facts, each with one owner."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from actors import Request
from rumi.errors import RumiError, UsageError

Source: TypeAlias = Literal["explicit", "auto"]
"""The source of a fact: "explicit" if the user stated it, "auto" if extracted from a conversation."""

MAX_KEY_CHARS = 100
MAX_VALUE_CHARS = 1000
MAX_FACTS = 1000
"""Maximum number of facts of one owner."""


class MemoryUnavailable(RumiError):
    """The memory cannot be used, because its database cannot be read or written."""


class MemoryUnwritable(MemoryUnavailable, UsageError):
    """The memory's database temporarily cannot be written, because of its disk or another program."""


class FactRefused(RumiError):
    """A fact is not stored; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact about an owner.

    The fact comes from a `turn` of a `chat`; for an extracted fact, `turn` names the session instead, such as
    `session 3`. `tainted` is true if the turn had read untrusted content. `created` and `updated` are Unix
    times.
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
    """A fact that another fact has replaced. The replacement happened at `ended`, a Unix time."""

    fact: Fact
    ended: float


@dataclass(frozen=True, slots=True)
class NewFact:
    """A fact to store. For an extracted fact, `replaces` may be the key of a known fact."""

    key: str
    value: str
    replaces: str = ""


@dataclass(frozen=True, slots=True)
class Remember(Request[tuple[Fact, ...]]):
    """Store a fact, or renew its time if it is stored. The reply lists the key's other facts, oldest first.

    Without `also`, the new fact replaces these other facts, which move to the key's history.

    Keys are compared without regard to case and blanks. A fact has the most recent spelling of its key. An
    explicit fact stays explicit, and a fact from an untainted source stays untainted.
    """

    owner: str
    fact: NewFact
    source: Source = "explicit"
    chat: str = ""
    tainted: bool = False
    turn: str = ""
    """The turn that stores the fact and that can be undone; empty for none."""
    also: bool = True


@dataclass(frozen=True, slots=True)
class StoreExtracted(Request[int]):
    """Store facts that were extracted from a session's history up to the entry `upto`.

    The reply is the number of new facts. Idempotent: a second request for the same chat, session and `upto`
    stores nothing and returns 0, even after a crash. `began` is the time at which the session began: a fact
    is not stored if the user has deleted its key since then. If exactly one fact of the owner has the key
    that a new fact names in `replaces`, the new fact replaces it. An explicit fact (one that the user stated)
    is replaced only by a fact with the same key.
    """

    owner: str
    chat: str
    session: int
    upto: int
    facts: tuple[NewFact, ...]
    began: float | None = None


@dataclass(frozen=True, slots=True)
class IsExtracted(Request[bool]):
    """Return True if facts were already extracted from a session up to the entry `upto`."""

    chat: str
    session: int
    upto: int


@dataclass(frozen=True, slots=True)
class Forget(Request[int]):
    """Delete all facts with a key. The reply is the number of deleted facts.

    If the `turn` is undone, the facts are restored.
    """

    owner: str
    key: str
    turn: str = ""


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The result of undoing a turn: keys with restored facts, and keys with facts changed again later."""

    restored: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TakeFactsBack(Request[TakenBack]):
    """Undo a turn's changes to facts. Facts that were changed again after the turn stay as they are."""

    turn: str


@dataclass(frozen=True, slots=True)
class PastFacts(Request[tuple[PastFact, ...]]):
    """Return the replaced facts of a key, oldest first."""

    owner: str
    key: str


@dataclass(frozen=True, slots=True)
class ForgetOwner(Request[int]):
    """Delete all facts of an owner with their history. The reply is the number of deleted current facts."""

    owner: str


@dataclass(frozen=True, slots=True)
class Facts(Request[tuple[Fact, ...]]):
    """Return all facts of an owner: explicit ones first, then the most recent first."""

    owner: str


@dataclass(frozen=True, slots=True)
class Share(Request[int]):
    """Share the facts that an owner has under one key with a group. The reply is the number of these facts.

    Refused with `FactRefused` if the owner already shares too many keys with that group.
    """

    owner: str
    key: str
    group: str


@dataclass(frozen=True, slots=True)
class Unshare(Request[int]):
    """Stop sharing an owner's facts under one key. The reply is 1 if they were shared, otherwise 0."""

    owner: str
    key: str
    group: str


@dataclass(frozen=True, slots=True)
class Shared(Request[tuple[tuple[str, Fact], ...]]):
    """Return the facts that people have shared with a group, each with its owner.

    With an `owner`, return only the facts of that owner.
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
