"""The `edit_file` tool: replaces parts of a text file, and nothing else."""

from collections.abc import Mapping
from functools import partial
from typing import Final

import trio

from rumi.agent.tool import ToolResult
from rumi.agent.tools.edits import apply_edits, edits_in
from rumi.agent.tools.file_access import MAX_BYTES, FileTool, named, path_in
from rumi.agent.tools.read_file import no_text, not_a_file
from rumi.agent.tools.syntax import syntax_note
from rumi.agent.tools.text_file import decoded
from rumi.models.model import ToolSpec

MOST_BYTES: Final = 4 * MAX_BYTES
"""Maximum size of a file after an edit, in bytes."""

_EDIT: Final = {
    "old_text": {"type": "string"},
    "new_text": {"type": "string"},
    "replace_all": {"type": "boolean"},
}


class EditFile(FileTool):
    """The `edit_file` tool, bound to one chat's sandbox."""

    concurrent = False
    writes = True
    spec = ToolSpec(
        name="edit_file",
        description=(
            "Replace parts of a text file, in order, all or none.\n"
            "`old_text` is copied exactly from the file, without line numbers, and must be unique."
        ),
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "edits": {
                    "type": "array",
                    "items": {"type": "object", "properties": _EDIT, "required": ["old_text", "new_text"]},
                },
            },
            "required": ["path", "edits"],
        },
    )

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Read the file, edit it, and write it completely or not at all.

        A single edit may also stand beside `path`, without the list.
        """
        path, edits = self.path(path_in(arguments)), edits_in(arguments)
        if isinstance(path, ToolResult):
            return path
        if isinstance(edits, str):
            return self.refused(edits)
        found = await self.look(path)
        if isinstance(found, ToolResult):
            return found
        if found.kind == "large":
            why = f"{named(path)} has {found.size} bytes, more than the {MAX_BYTES} that edit_file takes"
            return self.refused(f"did nothing: {why}. Use sed or awk in bash")
        if found.kind != "file":
            return not_a_file(self, path, found)
        file = decoded(found.content)
        if file is None:
            return no_text(self, path, found)
        name = named(path)
        # In a thread, because the edit of a large file takes long and must not delay other chats.
        edited = await trio.to_thread.run_sync(partial(apply_edits, name, file, edits, MOST_BYTES))
        if edited.difference is None:
            return self.answer(f"{name} is as it was: {edited.why_not}", found.trace, found.duration_ms, 1)
        written = await self.put(path, edited.content)
        if written.content not in ("created", "overwritten"):
            return written
        note = await syntax_note(self.run, path, found.content, edited.content)
        count_text = f"{edited.count} places, " if edited.count > 1 else ""
        content = f"edited {name}: {count_text}{edited.difference.counts}, line {edited.difference.where}"
        took = found.duration_ms + (written.duration_ms or 0)
        return self.answer(content + note, found.trace, took, diff=edited.difference.diff)
