"""The interface of a tool: a description for the model, and an awaitable that does the work."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import trio

from rumi.models.model import Picture, ToolSpec
from rumi.platform.texts.questions import ActionKind, Detail


@dataclass(frozen=True, slots=True)
class CommandTrace:
    """A command that ran, and its container, for the audit log and for observers.

    Only code that had the sandbox run it makes one: never the arguments of a call.
    """

    argv: tuple[str, ...]
    container_id: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call.

    `ok` is False for a failure (refused, timed out, unreachable, raised). A command that ended with a
    non-zero exit code is a result, not a failure. The model reads `content`. `same_as` is the text by which
    two results are compared (without durations, which always differ). `tainted`: it contains content from
    outside. `links` are the addresses that it shows, as the WHATWG parse writes them. `diff` is the unified
    diff of the file that the call changed, bounded; people see it, the model does not. `pictures` are for the
    model, as `rumi.web.readers.files` scales and keeps them; events do not carry them. `shows` are files,
    below the workspace, that people are shown: a picture as such, others by their names. `trace` is the
    command that the call ran in the sandbox, None if none began. `refused`: the call was withheld or refused,
    and nothing was done.
    """

    ok: bool
    content: str
    exit_code: int | None = None
    duration_ms: int | None = None
    truncated: bool = False
    same_as: str = ""
    trace: CommandTrace | None = None
    tainted: bool = False
    links: tuple[str, ...] = ()
    diff: str = ""
    pictures: tuple[Picture, ...] = ()
    shows: tuple[str, ...] = ()
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Claims:
    """What a server says of one of its tools: it only `reads`, or it `destroys`, and the arguments' schema.

    `siblings` are the names of all tools of that server, as models see them.
    """

    schema: Mapping[str, object]
    reads: bool
    destroys: bool
    siblings: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """The effect of a call, for the user to judge: the real arguments, each with its name, destinations
    first.

    A call that the user asks for in the message of this turn needs no answer: each value of `consent` is
    their word there (`rumi.agent.permissions.consent`), and `asked`, if there is one, finds the deed in what
    they wrote. Calls of tools with `Claims` are judged by their arguments.
    """

    action: ActionKind
    details: Mapping[str, Detail]
    consent: tuple[str, ...] = ()
    asked: Callable[[str], bool] | None = field(default=None, compare=False)


class Tool(Protocol):
    """A tool bound to what it needs. The chat is not an argument: it was bound before."""

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""
        ...

    @property
    def concurrent(self) -> bool:
        """True if calls of one reply may run at the same time as others."""
        ...

    async def prepare(self) -> None:
        """Get ready: called as soon as a reply names the tool, before its arguments are complete.

        The following call reports any failure, so a `RumiError` here is dropped. Most tools need no
        preparation.
        """
        await trio.lowlevel.checkpoint()

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return the question that the user must answer with yes before this call may run in a tainted turn.

        `given` are the addresses that the user or a page gave in this conversation, word for word. Return
        None for harmless calls, and for arguments that the call itself will refuse.
        """
        ...

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Do the work. Cancelled, it leaves nothing running.

        Bad arguments and refusals are results with `ok=False`; a `RumiError` becomes one.
        """
        ...


Calls: TypeAlias = Callable[[str, Mapping[str, object]], Awaitable[ToolResult]]
"""Calls a tool of the turn by its name, as the model would: with the same events, gate and refusals."""


Progress: TypeAlias = Callable[[str], None]
"""Shows people a step of a call, in a few words. Returns at once; after the end of the call it does nothing.

Of many steps at once people see the last one. The text is put on one line and made harmless before it is
shown. A sentence of Rumi's own is written in English, and `rumi.platform.texts.translation` has its
translation.
"""


def claims_of(tool: Tool) -> Claims | None:
    """Return what a server says of its tool; None for a tool of the program's own."""
    claims = getattr(tool, "claims", None)
    return claims if isinstance(claims, Claims) else None


@runtime_checkable
class RunsCommands(Protocol):
    """A tool whose calls, one after the other, run commands in the sandbox."""

    @property
    def ran(self) -> CommandTrace | None:
        """The command of the latest call, None if it has not begun: what a call ran that was cut off."""
        ...


@runtime_checkable
class AlwaysAsks(Protocol):
    """A tool whose question is asked in every turn, not only in a tainted one."""

    always_asks: bool


@runtime_checkable
class BringsTools(Protocol):
    """A tool that brings others into the turn: they can be called from the model's next reply on."""

    @property
    def brought(self) -> tuple[Tool, ...]:
        """The tools that it has brought so far."""
        ...


@runtime_checkable
class ReportsProgress(Protocol):
    """A tool whose calls take long and show their steps; then this is called instead of `call`."""

    async def call_reporting(self, arguments: Mapping[str, object], progress: Progress) -> ToolResult:
        """Do the work, and show its steps through `progress`; otherwise like `call`."""
        ...


@runtime_checkable
class CallsTools(Protocol):
    """A tool that calls others; then this is called instead of `call`."""

    async def call_within(self, arguments: Mapping[str, object], calls: Calls) -> ToolResult:
        """Do the work, with other tools through `calls`; otherwise like `call`."""
        ...
