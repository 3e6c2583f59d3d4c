"""The `edit_file` tool: replaces one or all occurrences of a text in a file, and nothing else."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Final

import trio

from rumi.agent.tool import ToolResult
from rumi.agent.tools.file_access import MAX_BYTES, FileTool, named
from rumi.agent.tools.read_file import no_text, not_a_file
from rumi.agent.tools.text_file import TextDifference, TextFile, decoded, difference, lines_of
from rumi.models.model import ToolSpec
from rumi.platform.openat import shown

MOST_BYTES: Final = 4 * MAX_BYTES
"""Maximum size of a file after an edit, in bytes."""

_NUMBERED: Final = re.compile(r"^ *\d+\t", re.MULTILINE)
_NEAR_LINES: Final = 2000
_NEAR_CHARS: Final = 120
_SHOWN_LINES: Final = 10


@dataclass(frozen=True, slots=True)
class _Edited:
    """The result of an edit: the new content and the number of replacements, or the reason for a failure."""

    content: bytes = b""
    count: int = 0
    difference: TextDifference | None = None
    why_not: str = ""


class EditFile(FileTool):
    """The `edit_file` tool, bound to one chat's sandbox."""

    concurrent = False
    writes = True
    spec = ToolSpec(
        name="edit_file",
        description=(
            "Replace a part of a text file.\n"
            "`old_text` is copied exactly from the file, without line numbers, and must be unique."
        ),
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "old_text": {"type": "string"},
                "new_text": {"type": "string"},
                "replace_all": {"type": "boolean"},
            },
            "required": ["path", "old_text", "new_text"],
        },
    )

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Read the file, edit it, and write it completely or not at all."""
        path = self.path(arguments.get("path"))
        if isinstance(path, ToolResult):
            return path
        old, new, every = (arguments.get(name) for name in ("old_text", "new_text", "replace_all"))
        if not isinstance(old, str) or not isinstance(new, str) or not isinstance(every, bool | None):
            return self.refused("needs `old_text` and `new_text`, strings; `replace_all` is true or false")
        if not old:
            return self.refused("needs an `old_text` that is not empty. write_file writes whole files")
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
        edited = await trio.to_thread.run_sync(partial(_edit, name, file, old, new, every=bool(every)))
        if edited.difference is None:
            return self.answer(f"{name} is as it was: {edited.why_not}", found.trace, found.duration_ms, 1)
        written = await self.put(path, edited.content)
        if written.content not in ("created", "overwritten"):
            return written
        count_text = f"{edited.count} places, " if edited.count > 1 else ""
        content = f"edited {name}: {count_text}{edited.difference.counts}, line {edited.difference.where}"
        took = found.duration_ms + (written.duration_ms or 0)
        return self.answer(content, found.trace, took, diff=edited.difference.diff)


def _edit(name: str, file: TextFile, old: str, new: str, *, every: bool) -> _Edited:
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    starts = file.found(old)
    if not starts:
        return _Edited(why_not=_not_found(file.plain, old))
    if old == new:
        return _Edited(why_not="old_text and new_text are the same")
    if len(starts) > 1 and not every:
        lines = (file.plain.count("\n", 0, start) + 1 for start in starts[:_SHOWN_LINES])
        numbers = dict.fromkeys(map(str, lines))
        more = ", …" if len(starts) > _SHOWN_LINES else ""
        return _Edited(
            why_not=f"old_text is there {len(starts)} times, at lines {', '.join(numbers)}{more}. Give more "
            "lines around the one that you mean, or set replace_all"
        )
    # Occurrences may overlap; replacing all of them needs those that do not, from the left.
    apart = starts[:1]
    for start in starts[1:]:
        if start >= apart[-1] + len(old):
            apart.append(start)
    if len(file.text) + len(apart) * (len(new) - len(old)) > MOST_BYTES:
        return _Edited(why_not=f"it would have more than {MOST_BYTES} bytes. Use sed or awk in bash")
    text = file.replaced(apart, old, new)
    try:
        content = file.encoded(text)
    except UnicodeEncodeError as error:
        lacks = shown(text[error.start : error.end][:10])
        return _Edited(why_not=f"it is {file.encoding} text, which has no {lacks}")
    return _Edited(content, len(apart), difference(name, file.text, text))


def _not_found(plain: str, old: str) -> str:
    """Return the error message for a text that was not found.

    The message includes the lines of the file that are most similar to the text's first line.
    """
    if (bare := _NUMBERED.sub("", old)) != old and bare in plain:
        return "old_text is there only without the line numbers. Leave them out"
    wanted_lines = lines_of(old)
    skipped = next((n for n, line in enumerate(wanted_lines) if line.strip()), 0)
    wanted = wanted_lines[skipped].strip()[:_NEAR_CHARS] if wanted_lines else ""
    lines = lines_of(plain)
    numbers: dict[str, int] = {}
    for number, line in enumerate(lines):
        numbers.setdefault(line.strip()[:_NEAR_CHARS], number)
    near = [wanted] if wanted in numbers else get_close_matches(wanted, list(numbers)[:_NEAR_LINES], 3, 0.5)
    if not near:
        return "old_text is not there, and no line is like it. Read the file first"
    length = min(len(wanted_lines), _SHOWN_LINES)
    shown_lines: dict[int, str] = {}
    for near_line in near:
        first = max(0, numbers[near_line] - skipped)
        for number in range(first, min(first + length, len(lines))):
            shown_lines[number] = f"{number + 1}\t{lines[number][:_NEAR_CHARS]}"
    nearest = "\n".join(shown_lines[number] for number in sorted(shown_lines))
    return f"old_text is not there. Copy it exactly; the nearest lines are:\n{nearest}"
