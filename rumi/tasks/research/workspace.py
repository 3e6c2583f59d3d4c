"""The tools that read the workspace of a research task: `read`, `grep`, `ls` and `find`.

All files of a task are untrusted. So the tools put each result into a marked block, and the task counts as
tainted afterwards.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from rumi.agent.tool import Tool, ToolResult
from rumi.agent.tools.bash import CommandShell
from rumi.agent.tools.read_file import ReadFile
from rumi.agent.tools.search_files import InWorkspace, bounded, search_tools
from rumi.agent.tools.text_file import TextFile
from rumi.platform.untrusted_text import untrusted_block
from rumi.tasks.research.sources import Source

RegisterSource: TypeAlias = Callable[[str, str], Awaitable[Source | None]]
"""Registers a file, given by its workspace path and its text, as a source; returns the source."""


def workspace_tools(shell: CommandShell, register_source: RegisterSource) -> tuple[Tool, ...]:
    """Return the workspace tools.

    `register_source` gets the path and the text of each file that `read` reads.
    """
    return (ReadSource(shell, register_source), *search_tools(shell))


class ReadSource(InWorkspace, ReadFile):
    """The tool `read`: reads files in the workspace, and registers them as sources."""

    spec = replace(
        ReadFile.spec, name="read", description="Read a text file of the workspace as numbered lines."
    )

    def __init__(self, shell: CommandShell, register_source: RegisterSource) -> None:
        super().__init__(shell)
        self._register_source = register_source

    async def source_note(self, path: str, file: TextFile) -> str:
        """Register the file as a source.

        Return a note with the source's number. The result of the call begins with this note.
        """
        source = await self._register_source(path.removeprefix("/workspace/"), file.plain)
        return f"source [{source.number}] · " if source is not None else ""

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Read the lines; see `ReadFile`. The result has at most 50 KB of lines, in an untrusted block."""
        result = await super().call(arguments)
        first, _, rest = result.content.partition("\n")
        if not result.ok or not rest:
            return replace(result, tainted=True)
        text, cut = bounded(rest.split("\n"))
        note = ". Not all of these lines fit: read the rest from a later offset" if cut else ""
        about = str(arguments.get("path"))
        return replace(
            result, content=f"{first}{note}\n{untrusted_block(about, text)}", tainted=True, truncated=cut
        )
