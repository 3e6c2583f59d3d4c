"""The tools that read the workspace of a research task: `read`, `grep`, `ls` and `find`.

All files of a task are untrusted. So the tools put each result into a marked block, and the task counts as
tainted afterwards.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from rumi.agent.tool import Question, Tool, ToolResult
from rumi.agent.tools.bash import CommandShell
from rumi.agent.tools.read_file import ReadFile
from rumi.agent.tools.search_files import InWorkspace, bounded, search_tools
from rumi.agent.tools.text_file import TextFile
from rumi.platform.untrusted_text import untrusted_block
from rumi.tasks.research.repository.placeholders import pointer
from rumi.tasks.research.sources import Source

RegisterSource: TypeAlias = Callable[[str, str], Awaitable[Source | None]]
"""Registers a file, given by its workspace path and its text, as a source; returns the source."""


Marks: TypeAlias = Callable[[str], Sequence[str]]
"""Returns a line for each file or folder at or below a workspace path that does not hold its content."""

MOST_MARKS: Final = 10


def workspace_tools(
    shell: CommandShell, register_source: RegisterSource, marks: Marks = lambda path: ()
) -> tuple[Tool, ...]:
    """Return the workspace tools.

    `register_source` gets the path and the text of each file that `read` reads. Results of searches name what
    `marks` returns for their paths: it was searched without its content.
    """
    searches = (_Marked(tool, marks) for tool in search_tools(shell))
    return (ReadSource(shell, register_source), *searches)


class _Marked(Tool):
    """A tool that searches the workspace, and names the placeholders at or below its path."""

    def __init__(self, tool: Tool, marks: Marks) -> None:
        self.spec = tool.spec
        self.concurrent = tool.concurrent
        self._tool = tool
        self._marks = marks

    async def prepare(self) -> None:
        """Prepare the tool."""
        await self._tool.prepare()

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return the tool's question."""
        return self._tool.question(arguments, known_urls)

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Call the tool, and add a note on the placeholders."""
        result = await self._tool.call(arguments)
        path = str(arguments.get("path") or "").removeprefix("/workspace").strip("/").removeprefix("./")
        found = self._marks("" if path == "." else path) if result.ok else ()
        if not found:
            return result
        more = [f"and {len(found) - MOST_MARKS} more"] if len(found) > MOST_MARKS else []
        note = "; ".join([*found[:MOST_MARKS], *more])
        return replace(result, content=f"Without their content here: {note}.\n{result.content}")


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
        number = f"source [{source.number}]" if source is not None else ""
        return "".join(f"{note} · " for note in (number, pointer(file.plain)) if note)

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
