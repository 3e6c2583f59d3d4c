"""What a tool is: a description for the model, and an awaitable that does the work."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from rumi.models import ToolSpec


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
    `same_as` is what two results are compared by (without durations, which always differ).
    """

    ok: bool
    content: str
    exit_code: int | None = None
    duration_ms: int | None = None
    truncated: bool = False
    same_as: str = ""
    trace: CommandTrace | None = None


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

        Whatever goes wrong here is told by the call that follows, so a `RumiError` is dropped.
        """
        ...

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Do the work. Cancelled, it leaves nothing running.

        Bad arguments and refusals are results with `ok=False`; a `RumiError` becomes one.
        """
        ...
