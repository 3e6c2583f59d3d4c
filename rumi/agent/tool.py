"""The interface of tools: a description for the model, and an async method that does the work."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import trio

from rumi.models.model import Picture, ToolSpec
from rumi.platform.texts.questions import ActionKind, Detail


@dataclass(frozen=True, slots=True)
class CommandTrace:
    """A command that ran in the sandbox, and its container, for the audit log and for observers.

    Only code that really ran a command creates one. It is never derived from a call's arguments.
    """

    argv: tuple[str, ...]
    container_id: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call.

    `ok` is False for a failure (refused, timed out, unreachable, raised). A command that ended with a
    non-zero exit code is not a failure. The model reads `content`. `same_as` is the text by which two results
    are compared (without durations, which always differ). `tainted`: the result contains content from files
    or the web. `links` are the URLs in the result, as normalized by the WHATWG parser. `diff` is the
    unified diff of the changed file, limited in length; users see it, the model does not. `pictures` are for
    the model, scaled and stored by `rumi.web.readers.files`; events contain them without their bytes. `shows`
    are workspace files to show to users: pictures as images, other files by name. `trace` is the command that
    the call ran in the sandbox, None if none started. `refused`: the call was withheld or refused and had no
    effect.
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
    """The claims of an MCP server about one of its tools: the tool `reads` only, or `destroys`; the schema.

    `schema` is the JSON schema of the arguments. `siblings` are the names of all tools of that server, as
    models see them.
    """

    schema: Mapping[str, object]
    reads: bool
    destroys: bool
    siblings: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """The effect of a call, for the user to judge: the real arguments by name, destinations first.

    No answer is needed if the user's message of this turn asks for the call: it contains every value of
    `consent` (`rumi.agent.permissions.consent`), and `asked`, if set, finds the action in that message. Calls
    of tools with `Claims` are judged by their arguments instead.
    """

    action: ActionKind
    details: Mapping[str, Detail]
    consent: tuple[str, ...] = ()
    asked: Callable[[str], bool] | None = field(default=None, compare=False)


class Tool(Protocol):
    """A tool, already bound to its chat and its resources: the chat is not an argument of a call."""

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""
        ...

    @property
    def concurrent(self) -> bool:
        """True if a call may run at the same time as neighbouring calls of the same reply."""
        ...

    async def prepare(self) -> None:
        """Prepare for a call: runs as soon as a reply names the tool, before the arguments are complete.

        A `RumiError` here is ignored, because the following call reports the failure. Most tools need no
        preparation.
        """
        await trio.lowlevel.checkpoint()

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return the question that the user must approve before this call may run in a tainted turn.

        `known_urls` are the exact URLs that the user or a page gave in this conversation. Return None for
        harmless calls, and for arguments that the call itself will refuse.
        """
        ...

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Run the call and return its result. On cancellation, leaves nothing running.

        Invalid arguments and refusals are results with `ok=False`; the caller converts a `RumiError` to one.
        """
        ...


Calls: TypeAlias = Callable[[str, Mapping[str, object]], Awaitable[ToolResult]]
"""Runs a tool of the turn by its name, like a call by the model: with the same events, gate and refusals."""


Progress: TypeAlias = Callable[[str], None]
"""Reports a step of a call to users, in a few words. Never blocks; does nothing after the end of the call.

Of several steps in a short time, users see the last one. The text is put on one line and sanitized before it
is shown. Rumi's own sentences are in English, and `rumi.platform.texts.translation` has the translations.
"""


def claims_of(tool: Tool) -> Claims | None:
    """Return an MCP server's claims about a tool; None for a built-in tool."""
    claims = getattr(tool, "claims", None)
    return claims if isinstance(claims, Claims) else None


@runtime_checkable
class RunsCommands(Protocol):
    """A tool whose calls run commands in the sandbox, one call at a time."""

    @property
    def ran(self) -> CommandTrace | None:
        """The command of the latest call, also of an interrupted one; None if the command has not started."""
        ...


@runtime_checkable
class AlwaysAsks(Protocol):
    """A tool whose calls need approval in every turn, not only in a tainted one."""

    always_asks: bool


@runtime_checkable
class BringsTools(Protocol):
    """A tool that adds other tools to the turn; the model's next reply can call them."""

    @property
    def brought(self) -> tuple[Tool, ...]:
        """The tools that were added so far."""
        ...


@runtime_checkable
class ReportsProgress(Protocol):
    """A tool whose calls take long and report progress: `call_reporting` is used instead of `call`."""

    async def call_reporting(self, arguments: Mapping[str, object], progress: Progress) -> ToolResult:
        """Run the call like `Tool.call`, and report its steps through `progress`."""
        ...


@runtime_checkable
class CallsTools(Protocol):
    """A tool that calls other tools: `call_within` is used instead of `call`."""

    async def call_within(self, arguments: Mapping[str, object], calls: Calls) -> ToolResult:
        """Run the call like `Tool.call`, and call other tools through `calls`."""
        ...
