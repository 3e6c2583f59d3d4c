"""What the journal is asked about model calls, their budgets, and what they have used."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from actors import Request
from rumi.models import Account, Limit

By: TypeAlias = Literal["chat", "owner", "person", "model", "tool", "day", "all"]


@dataclass(frozen=True, slots=True)
class UsageRow:
    """What model calls have used. `day` is the local date on which they began, as 2026-11-23.

    `tool` is the one that a reply called, empty for an answer in words: a reply's tokens are shared between
    the tools that it called. `nano` is the price in billionths of a USD, `unpriced` the tokens without a
    known price. `estimated` are the calls of which no server said how much they used.
    """

    day: str = ""
    owner: str = ""
    chat: str = ""
    task: int = 0
    bot: str = ""
    model: str = ""
    tool: str = ""
    person: str = ""
    calls: int = 0
    tool_calls: int = 0
    prompt: int = 0
    completion: int = 0
    cached: int = 0
    nano: int = 0
    unpriced: int = 0
    estimated: int = 0


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit in the period that runs from one day to another, both in it."""

    limit: Limit
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class State:
    """How far the budget of somebody is used. Of what is `used`, `reserved` belongs to calls that run."""

    bound: Bound
    name: str
    used: int
    reserved: int = 0
    granted: int = 0

    @property
    def most(self) -> int:
        """Return the limit with what was granted."""
        return self.bound.limit.most + self.granted

    @property
    def key(self) -> str:
        """Return the name of this budget in this period. With more granted it is another one."""
        limit = self.bound.limit
        return ":".join(
            (limit.scope, self.name, limit.unit, limit.period, self.bound.first, str(self.granted))
        )


@dataclass(frozen=True, slots=True)
class ReserveCall(Request[State | None]):
    """Reserve what a model call may use, unless a budget does not allow it: that is returned."""

    key: str
    account: Account
    model: str
    day: str
    prompt: int
    completion: int
    nano: int
    priced: bool
    bounds: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class SettleCall(Request[tuple[State, ...]]):
    """End a reservation and count `rows` for it; None counts what was reserved. A second time does nothing.

    Returns the budgets that are nearly used up and about which nobody was told.
    """

    key: str
    account: Account
    rows: tuple[UsageRow, ...] | None
    bounds: tuple[Bound, ...] = ()


@dataclass(frozen=True, slots=True)
class SettleLeft(Request[int]):
    """Count every reservation as what it reserved: an earlier process has made them. Returns how many.

    Only those of some `partitions`, if named.
    """

    partitions: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class RecordUsage(Request[None]):
    """Count calls that no budget bounds."""

    rows: tuple[UsageRow, ...]


@dataclass(frozen=True, slots=True)
class MarkNoticed(Request[None]):
    """Note that people were told that these budgets are nearly used up."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Noticed(Request[bool]):
    """Ask if people were told about a budget in its period."""

    key: str


@dataclass(frozen=True, slots=True)
class Grant(Request[None]):
    """Allow more on a day: to the chat, to its owner, and in all."""

    day: str
    owner: str
    chat: str
    nano: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Spending(Request[tuple[UsageRow, ...]]):
    """Return what was used from one day to another, both included, `by` one thing.

    Only that of an `owner`, a `chat` or a `person`, if they are named.
    """

    by: By
    first: str
    last: str
    owner: str = ""
    chat: str = ""
    person: str = ""


@dataclass(frozen=True, slots=True)
class Standing(Request[tuple[State, ...]]):
    """Return how far budgets are used: those of an `owner`, a `chat` and a `person`, or all."""

    bounds: tuple[Bound, ...]
    owner: str = ""
    chat: str = ""
    person: str = ""


AccountMessage: TypeAlias = (
    ReserveCall | SettleCall | SettleLeft | RecordUsage | MarkNoticed | Noticed | Grant | Spending | Standing
)
