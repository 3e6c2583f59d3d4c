"""The interface of tools: each has a description for the model, and an async method that does the work."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import trio

from rumi.models.model import Picture, ToolSpec
from rumi.platform.texts.questions import ActionKind, Detail
from rumi.store.journal.records import Reason
from rumi.texts import Text


@dataclass(frozen=True, slots=True)
class CommandTrace:
    """A command that ran in the sandbox, and the container in which it ran, for the audit log and observers.

    Only code that really ran a command creates a trace. A trace is never derived from a call's arguments.
    """

    argv: tuple[str, ...]
    container_id: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call.

    `ok` is False if the call failed: it was refused, timed out, could not reach a server, or raised an error.
    A command that ended with a non-zero exit code is not a failure. The model reads `content`. `same_as` is
    the text for comparing two results; it leaves out durations, which always differ. `tainted` means that the
    result contains content from files or the web. `links` are the URLs in the result, as normalized by the
    WHATWG parser. `diff` is the unified diff of the changed file, limited in length; users see it, the model
    does not. `pictures` are for the model; `rumi.web.readers.files` scales and stores them, and events
    contain them without their bytes. `shows` lists workspace files to show to users: pictures as images,
    other files by name. `trace` is the command that the call ran in the sandbox, or None if no command
    started. `refused` means that the call was withheld or refused and had no effect. `broken` means that the
    machinery failed, not the call: the sandbox was lost, a tool raised an error, the tool does not exist, or
    the arguments were not JSON. `may_change` means that the same call may give another result later, without
    any other call in between: it waits for something, or its source is outside of the sandbox. `advice` tells
    people what they can do, such as a setting to change; the model does not read it. `whole_output` is all
    output, if `content` shows only a part of it: the turn writes it to a file of the sandbox and names the
    file to the model. `ends_turn` means that the turn ends after the calls of this reply, and that there is
    nothing to tell the user; `content` says why. `parked` means that the call waits for a person's yes.
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
    broken: bool = False
    may_change: bool = False
    advice: str = ""
    whole_output: bytes = b""
    ends_turn: bool = False
    parked: bool = False


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of an MCP server about one of its tools: what it does, and its schema.

    `reads` is the claim that the tool only reads, `destroys` the claim that it may destroy something.

    `schema` is the JSON schema of the arguments. `siblings` are the names of all tools of that server, as
    models see them.
    """

    schema: Mapping[str, object]
    reads: bool
    destroys: bool
    siblings: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Reach:
    """What a call reaches, so that a person can approve all calls with the same reach at once.

    `host` is the origin of the `address` that the call opens. `to` are the values that determine where the
    call goes or what it acts on, as pairs of path and text, and `texts` are all other texts. `reads` means
    that the call changes nothing; then all values are in `to`, because each tells the server something.
    `version` is the digest of the description that the user has accepted, if the tool is another program's.
    """

    tool: str
    host: str = ""
    address: str = ""
    to: tuple[tuple[str, str], ...] = ()
    texts: tuple[str, ...] = ()
    version: str = ""
    reads: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A question that lets the user judge a call's effect: the real arguments by name, destinations first.

    The question is not asked if the user's message of this turn asks for the call: the message contains every
    value of `consent` (`rumi.agent.permissions.consent`), and `asked`, if set, returns True for the message,
    because the message names the action. Calls of tools with `Claims` are judged by their arguments instead.

    `reach` is set for calls that a person may approve for all runs of a schedule. It is None if the effect
    lasts, destroys something or costs money. `what` describes the action if its kind alone does not. `state`
    names what the call uses besides its arguments, such as files as they are: a yes holds for it only.
    """

    action: ActionKind
    details: Mapping[str, Detail]
    consent: tuple[str, ...] = ()
    asked: Callable[[str], bool] | None = field(default=None, compare=False)
    reach: Reach | None = field(default=None, compare=False)
    what: Text | None = None
    state: str = ""


class Tool(Protocol):
    """A tool that is bound to its chat and its resources, so the chat is not an argument of a call."""

    spec: ToolSpec
    """The tool's name, description and parameters, as the model sees them."""
    concurrent: bool
    """True if a call may run at the same time as the call before or after it in the same reply."""

    async def prepare(self) -> None:
        """Prepare for a call. This runs as soon as a reply names the tool, before the arguments are complete.

        A `RumiError` raised here is ignored, because the call itself then reports the failure. Most tools
        need no preparation.
        """
        await trio.lowlevel.checkpoint()

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return the question that the user must approve before this call may run in a tainted turn.

        `known_urls` contains the exact URLs from the user or from web pages in this conversation. Return None
        for harmless calls, and for arguments that the call itself will refuse.
        """
        ...

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Run the call and return its result. On cancellation, leaves nothing running.

        For invalid arguments and refusals, return a result with `ok=False`. The caller converts a raised
        `RumiError` to such a result.
        """
        ...


Calls: TypeAlias = Callable[[str, Mapping[str, object]], Awaitable[ToolResult]]
"""Runs a tool of the turn by its name, with the same events, gate and refusals as a call by the model."""


Progress: TypeAlias = Callable[[str], None]
"""Reports a step of a call to users, in a few words. It never blocks. After the call it does nothing.

If several steps are reported in a short time, users see only the last one. The text is sanitized and put on
one line before it is shown. Rumi's own texts are passed in English; `rumi.platform.texts.translation`
contains the translations.
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
        """The command of the latest call, even if it was interrupted; None if no command has started."""
        ...


@runtime_checkable
class AlwaysAsks(Protocol):
    """A tool whose calls need approval in every turn, not only in tainted turns."""

    always_asks: bool


@runtime_checkable
class BringsTools(Protocol):
    """A tool that adds other tools to the turn; the model can call the added tools in its next reply."""

    @property
    def brought(self) -> tuple[Tool, ...]:
        """The tools that this tool has added to the turn so far."""
        ...

    def named(self, name: str) -> Tool | None:
        """Return a tool that a model calls by its name without having looked for it, and add it; or None."""
        ...


@runtime_checkable
class LooksOutside(Protocol):
    """A tool whose results may change with time, because their source is outside of the sandbox."""

    looks_outside: bool


@runtime_checkable
class OnlyReads(Protocol):
    """A tool whose calls change nothing outside of the turn: a call that was interrupted can be repeated."""

    only_reads: bool


@runtime_checkable
class KnowsOutcome(Protocol):
    """A tool that stores what it does elsewhere: a later process can ask how an interrupted call ended."""

    async def outcome(self, arguments: Mapping[str, object]) -> ToolResult | None:
        """Return the result of a call of this turn that a restart interrupted; None if nobody can know it.

        Raises:
            RumiError: The outcome cannot be looked up now; it counts as unknown.
        """
        ...


@runtime_checkable
class StreamsOutput(Protocol):
    """A tool that streams the output of its calls: `call_streaming` is used instead of `call`."""

    async def call_streaming(
        self, arguments: Mapping[str, object], heard: Callable[[bytes], object]
    ) -> ToolResult:
        """Run the call like `Tool.call`, and pass each piece of output to `heard`, which never blocks."""
        ...


@runtime_checkable
class WorksBeside(Protocol):
    """A tool with tasks that run beside the turn's calls, and end with the turn."""

    def run_in(self, nursery: trio.Nursery) -> None:
        """Run all tasks in this nursery, which belongs to the turn."""
        ...


@runtime_checkable
class ReportsProgress(Protocol):
    """A tool that reports the progress of its calls: `call_reporting` is used instead of `call`."""

    async def call_reporting(self, arguments: Mapping[str, object], progress: Progress) -> ToolResult:
        """Run the call like `Tool.call`, and report its steps through `progress`."""
        ...


@runtime_checkable
class CallsTools(Protocol):
    """A tool that calls other tools. The turn uses its method `call_within` instead of `call`."""

    async def call_within(self, arguments: Mapping[str, object], calls: Calls) -> ToolResult:
        """Run the call like `Tool.call`, and call other tools through `calls`."""
        ...


@dataclass(frozen=True, slots=True)
class SubTurn:
    """Work for a turn within a turn: its request, its tools, and what it needs to know about its part.

    It makes at most `max_calls` model calls.
    """

    request: str
    instructions: str
    tools: Sequence[Tool]
    max_calls: int


@dataclass(frozen=True, slots=True)
class SubTurnEnd:
    """The end of a turn within a turn. `answer` is the model's last text, or the reason of a failure.

    `tainted` and `links` describe the answer as in `ToolResult`: links are those that the turn knew before.
    """

    reason: Reason
    answer: str
    tainted: bool
    links: tuple[str, ...] = ()


RunSubTurn: TypeAlias = Callable[[SubTurn], Awaitable[SubTurnEnd]]
"""Runs a turn within the turn of a call, with the same gate, limits and accounting."""


@runtime_checkable
class Delegates(Protocol):
    """A tool whose calls run turns within the turn. `call_delegating` is used instead of `call`.

    A call without effects on the workspace may run at the same time as its neighbours: `concurrent` depends
    on the arguments.
    """

    def is_concurrent(self, arguments: Mapping[str, object]) -> bool:
        """Return True if a call with these arguments may run at the same time as others."""
        ...

    async def call_delegating(
        self, arguments: Mapping[str, object], tools: Sequence[Tool], run: RunSubTurn
    ) -> ToolResult:
        """Run the call like `Tool.call`; `tools` are those of the turn."""
        ...


@runtime_checkable
class MaySave(Protocol):
    """A tool that only reads, unless its arguments say otherwise."""

    def saves(self, arguments: Mapping[str, object]) -> bool:
        """Return True if a call with these arguments changes the workspace."""
        ...

    def reading(self) -> Tool:
        """Return the same tool without the arguments that let it change something."""
        ...


def only_reads(tool: Tool | None, arguments: Mapping[str, object]) -> bool:
    """Return True if a call changes nothing, so that it can be repeated when nobody knows how it ended.

    A tool of an MCP server counts by the claim of its server, a delegate by the tools that it gets.
    """
    if tool is None:
        return False
    if isinstance(tool, Delegates):
        return tool.is_concurrent(arguments)
    if isinstance(tool, MaySave) and tool.saves(arguments):
        return False
    claims = claims_of(tool)
    return claims.reads if claims is not None else bool(getattr(tool, "only_reads", False))


def is_turn_only(tool: Tool) -> bool:
    """Return True for a tool that acts for the whole turn or starts work of its own: delegates lack it."""
    return bool(getattr(tool, "turn_only", False))
