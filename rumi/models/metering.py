"""Who a model call is for, what bounds it, and what counts it: all that models know of budgets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from rumi.models.model import Message, ModelError, Reply, Usage
from rumi.platform.texts.language import Language

Scope: TypeAlias = Literal["total", "owner", "chat", "task", "bot", "person"]
Unit: TypeAlias = Literal["usd", "tokens", "calls"]
Period: TypeAlias = Literal["day", "month", "ever"]

UNBILLED = frozenset(
    {"auth", "not_found", "rate_limited", "too_large", "refused", "server", "unreachable", "budget"}
)
"""Failures that cost nothing where no word of a reply has come."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of what one of the scope uses in each `period`: `most` billionths of a USD, tokens or calls.

    `ever` has no renewal: it bounds one task, or one bot, for its whole life.
    """

    scope: Scope
    unit: Unit
    period: Period
    most: int


@dataclass(frozen=True, slots=True)
class Account:
    """Who a model call is for. An empty name, and the task 0, are nobody's: such limits do not apply.

    `limits` hold for this account besides those of the configuration.
    """

    chat: str = ""
    owner: str = ""
    task: int = 0
    bot: str = ""
    limits: tuple[Limit, ...] = ()
    person: str = ""
    """Who asked for it: in a group, the one who spoke."""

    def name(self, scope: Scope) -> str:
        """Return who it is in a scope; empty for nobody."""
        if scope == "task":
            return str(self.task or "")
        names = {"total": "total", "owner": self.owner, "chat": self.chat, "bot": self.bot}
        return {**names, "person": self.person}[scope]


@dataclass(frozen=True, slots=True)
class Counted:
    """What one attempt has used. `estimated`: its server did not say. `tools` are those that it called."""

    usage: Usage
    tools: Sequence[str] = ()
    estimated: bool = False


class Hold(Protocol):
    """One attempt that may begin. It is settled once, whatever is called how often."""

    @property
    def most_reply(self) -> int | None:
        """The most tokens that the reply may have; None where nothing is bounded."""
        ...

    async def settle(self, counted: Counted | None) -> Usage:
        """Count what was used, and return it with its price; None counts what was reserved."""
        ...

    def abandon(self) -> None:
        """Count what was reserved, of an attempt that was cut off. Waits for nothing."""
        ...


class Meter(Protocol):
    """Is asked before each attempt at a model call, and told after it."""

    async def reserve(
        self, account: Account, model: str, prompt_tokens: int, language: Language
    ) -> Hold | ModelError:
        """Return a hold, or the error that says which budget is used up, and when it is renewed."""
        ...


def counted(outcome: Reply | ModelError, prompt_tokens: int, *, begun: bool) -> Counted | None:
    """Return what an attempt has used; None where nobody knows. `begun`: something of a reply came."""
    if isinstance(outcome, ModelError):
        return Counted(Usage()) if outcome.kind in UNBILLED and not begun else None
    tools = tuple(call.name for call in outcome.tool_calls)
    if outcome.usage.prompt_tokens or outcome.usage.completion_tokens:
        return Counted(outcome.usage, tools)
    reply = Message("assistant", outcome.text, outcome.tool_calls).tokens
    return Counted(Usage(prompt_tokens, reply), tools, estimated=True)
