"""Accounting of model calls: the account, its budget limits, and the meter that records usage."""

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
"""Kinds of failures that cost nothing if no output of a reply has arrived."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A budget limit: at most `most` billionths of a USD, tokens or calls in each `period`.

    The limit applies to each member of the `scope`: each owner, chat, task, bot or person. The period `ever`
    is never renewed: it limits one task, or one bot, for its whole life.
    """

    scope: Scope
    unit: Unit
    period: Period
    most: int


@dataclass(frozen=True, slots=True)
class Account:
    """The account that a model call is charged to.

    A limit does not apply if the account's name in its scope is empty (for tasks, if `task` is 0). `limits`
    apply to this account in addition to the configured limits.
    """

    chat: str = ""
    owner: str = ""
    task: int = 0
    bot: str = ""
    limits: tuple[Limit, ...] = ()
    person: str = ""
    """The requesting person: in a group, the sender of the message."""

    def name(self, scope: Scope) -> str:
        """Return the account's name in a scope; empty if the scope does not apply."""
        if scope == "task":
            return str(self.task or "")
        names = {"total": "total", "owner": self.owner, "chat": self.chat, "bot": self.bot}
        return {**names, "person": self.person}[scope]


@dataclass(frozen=True, slots=True)
class Counted:
    """The usage of one attempt. `estimated`: the server did not report it. `tools` are the called tools."""

    usage: Usage
    tools: Sequence[str] = ()
    estimated: bool = False


class Hold(Protocol):
    """A reservation for one attempt that may start. Only the first `settle` or `abandon` counts."""

    @property
    def most_reply(self) -> int | None:
        """The maximum size of the reply, in tokens; None without a limit."""
        ...

    async def settle(self, counted: Counted | None) -> Usage:
        """Record the usage, and return it with its price. None records the reserved amount."""
        ...

    def abandon(self) -> None:
        """Record the reserved amount for an attempt that was interrupted. Never blocks."""
        ...


class Meter(Protocol):
    """A meter of model calls: reserves budget before each attempt; the returned `Hold` records the usage."""

    async def reserve(
        self, account: Account, model: str, prompt_tokens: int, language: Language
    ) -> Hold | ModelError:
        """Return a hold, or an error that states the exhausted budget and its time of renewal."""
        ...


def counted(outcome: Reply | ModelError, prompt_tokens: int, *, begun: bool) -> Counted | None:
    """Return the usage of an attempt; None if it is not known. `begun`: output of a reply has arrived."""
    if isinstance(outcome, ModelError):
        return Counted(Usage()) if outcome.kind in UNBILLED and not begun else None
    tools = tuple(call.name for call in outcome.tool_calls)
    if outcome.usage.prompt_tokens or outcome.usage.completion_tokens:
        return Counted(outcome.usage, tools)
    reply = Message("assistant", outcome.text, outcome.tool_calls).tokens
    return Counted(Usage(prompt_tokens, reply), tools, estimated=True)
