"""Types for budgets of model calls: accounts, budget limits, and the meter that records usage."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from rumi.models.model import Message, ModelError, Reply, Usage
from rumi.platform.config.providers import OFFLINE
from rumi.texts import Language

Scope: TypeAlias = Literal["total", "owner", "chat", "task", "bot", "person"]
Unit: TypeAlias = Literal["usd", "tokens", "calls"]
Period: TypeAlias = Literal["day", "month", "ever"]

UNBILLED = frozenset(
    {"auth", "not_found", "rate_limited", "too_large", "refused", "server", "unreachable", "budget"}
)
"""Kinds of failures that cost nothing if none of the reply's output has arrived."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A budget limit: at most `most` calls, tokens, or billionths of a USD in each `period`.

    The limit applies separately to each member of the `scope`: to each owner, chat, task, bot or person. The
    period `ever` never ends; it limits a task or a bot for its whole lifetime.
    """

    scope: Scope
    unit: Unit
    period: Period
    most: int


@dataclass(frozen=True, slots=True)
class Account:
    """The account that a model call is charged to.

    A limit does not apply if the account has no name in the limit's scope, or, for the scope `task`, if
    `task` is 0. `limits` apply to this account in addition to the configured limits.
    """

    chat: str = ""
    owner: str = ""
    task: int = 0
    bot: str = ""
    limits: tuple[Limit, ...] = ()
    person: str = ""
    """The person who made the request; in a group, this is the sender of the message."""

    def name(self, scope: Scope) -> str:
        """Return the account's name in a scope; empty if the scope does not apply to the account."""
        if scope == "task":
            return str(self.task or "")
        names = {"total": "total", "owner": self.owner, "chat": self.chat, "bot": self.bot}
        return {**names, "person": self.person}[scope]


@dataclass(frozen=True, slots=True)
class Counted:
    """The usage of one attempt at a model call. `tools` contains the names of the called tools.

    `estimated` is True if the server did not report the usage.
    """

    usage: Usage
    tools: Sequence[str] = ()
    estimated: bool = False


class Hold(Protocol):
    """A reservation of budget for one attempt.

    After the first call of `settle` or `abandon`, more calls have no effect.
    """

    @property
    def most_reply(self) -> int | None:
        """The maximum size of the reply, in tokens; None without a limit."""
        ...

    async def settle(self, counted: Counted | None) -> Usage:
        """Record the usage, and return it with the price filled in.

        Without `counted`, record the reserved amount.
        """
        ...

    def abandon(self) -> None:
        """Record the reserved amount for an attempt that was interrupted. Never blocks."""
        ...


class Meter(Protocol):
    """A meter of model calls: reserves budget before each attempt; the returned `Hold` records the usage."""

    async def reserve(
        self, account: Account, model: str, prompt_tokens: int, language: Language
    ) -> Hold | ModelError:
        """Return a hold, or an error that states which budget is exhausted and when it is renewed."""
        ...


def counted(outcome: Reply | ModelError, prompt_tokens: int, *, begun: bool) -> Counted | None:
    """Return the usage of an attempt at a model call; None if the usage is not known.

    `begun` is True if some output of the reply has arrived.
    """
    if isinstance(outcome, ModelError):
        return Counted(Usage()) if outcome.kind in UNBILLED and not begun else None
    tools = tuple(call.name for call in outcome.tool_calls)
    if outcome.model == OFFLINE:  # the demo uses no tokens, so there is nothing to estimate
        return Counted(Usage(), tools)
    if outcome.usage.prompt_tokens or outcome.usage.completion_tokens:
        return Counted(outcome.usage, tools)
    reply = Message("assistant", outcome.text, outcome.tool_calls).tokens
    return Counted(Usage(prompt_tokens, reply), tools, estimated=True)
