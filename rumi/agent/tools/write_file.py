"""The `write_file` tool: writes a file completely or not at all."""

from collections.abc import Mapping

import trio

from rumi.agent.tool import ToolResult
from rumi.agent.tools.file_access import FileTool, FoundPath, named, path_in
from rumi.agent.tools.syntax import syntax_note
from rumi.agent.tools.text_file import TextDifference, decoded, difference, lines_of, visible
from rumi.models.model import ToolSpec


class WriteFile(FileTool):
    """The `write_file` tool, bound to one chat's sandbox."""

    concurrent = False
    writes = True
    spec = ToolSpec(
        name="write_file",
        description="Write a whole text file, with its folders.",
        parameters={
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
    )

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Write the file. If the old content was text, the result contains a diff against it."""
        path, text = self.path(path_in(arguments)), arguments.get("content")
        if isinstance(path, ToolResult):
            return path
        if not isinstance(text, str):
            return self.refused("needs `content`, a string")
        found = await self.look(path)
        if isinstance(found, ToolResult):
            return found
        content = text.encode("utf-8", "replace")
        written = await self.put(path, content)
        if written.content not in ("created", "overwritten"):
            return written
        changed = await _changed(path, found, text) if written.content == "overwritten" else None
        before = found.content if found.kind == "file" else None
        note = await syntax_note(self.run, path, before, content)
        about = f", {changed.counts}" if changed is not None else ""
        lines = len(lines_of(text))
        said = f"{written.content} {named(path)}: {lines} lines, {len(content)} bytes"
        took = found.duration_ms + (written.duration_ms or 0)
        return self.answer(
            said + about + note, found.trace, took, diff=changed.diff if changed is not None else ""
        )


async def _changed(path: str, found: FoundPath, text: str) -> TextDifference | None:
    """Return the difference between old and new file; None if the old file is too large or not text."""
    file = decoded(found.content) if found.kind == "file" else None
    if file is None:
        return None
    name = named(path)
    return await trio.to_thread.run_sync(difference, name, visible(file.text), text)
