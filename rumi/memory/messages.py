"""Facts, each with one owner, and the errors of the memory that stores them."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

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

    advises_models = True


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
class TakenBack:
    """The result of undoing a turn: keys with restored facts, and keys with facts changed again later."""

    restored: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
