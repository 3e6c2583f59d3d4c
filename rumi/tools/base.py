"""What a tool is: a description for the model, and an awaitable that does the work."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import trio

from rumi.models import ToolSpec
from rumi.texts import Deed


@dataclass(frozen=True, slots=True)
class CommandTrace:
    """What ran in which container, for the audit log and for whoever watches."""

    argv: tuple[str, ...]
    container_id: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool call came to.

    `ok` is False for a failure (refused, timed out, unreachable, raised); a command that ran and
    ended with a non-zero exit code is a result, not a failure. `content` is what the model reads;
    `same_as` is what two results are compared by (without durations, which always differ). `tainted`:
    it says something that came from outside. `links` are the addresses that it shows, as the WHATWG parse
    writes them.
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


@dataclass(frozen=True, slots=True)
class Question:
    """What a call would do, for the user to judge: the real arguments, each with its name."""

    deed: Deed
    details: Mapping[str, str]


class Tool(Protocol):
    """A tool bound to what it may touch. The chat it acts for is no argument: it was bound before."""

    @property
    def spec(self) -> ToolSpec:
        """How the model sees it."""
        ...

    @property
    def concurrent(self) -> bool:
        """Whether calls of one reply may run at the same time as others."""
        ...

    async def prepare(self) -> None:
        """Get ready: called as soon as a reply names the tool, before its arguments are complete.

        Whatever goes wrong here is told by the call that follows, so a `RumiError` is dropped. Most tools
        have nothing to get ready.
        """
        await trio.lowlevel.checkpoint()

    def question(self, arguments: Mapping[str, object], given: Collection[str]) -> Question | None:
        """What the user has to say yes to before this call may run in a turn that is tainted.

        `given` are the addresses that the user or a page gave in this conversation, word for word. None for
        what does no harm whoever wishes it, and for arguments that the call itself will refuse.
        """
        ...

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Do the work. Cancelled, it leaves nothing running.

        Bad arguments and refusals are results with `ok=False`; a `RumiError` becomes one.
        """
        ...


Calls: TypeAlias = Callable[[str, Mapping[str, object]], Awaitable[ToolResult]]
"""Calls a tool of the turn by its name, as the model would: told, judged and refused in the same way."""


@runtime_checkable
class CallsTools(Protocol):
    """A tool that calls others; then this is called instead of `call`."""

    async def call_within(self, arguments: Mapping[str, object], calls: Calls) -> ToolResult:
        """Do the work, with other tools through `calls`. As `call` otherwise."""
        ...
