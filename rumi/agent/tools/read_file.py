"""The `read_file` tool: shows numbered lines of a text file, or describes what else is at a path."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Final

from rumi.agent.tool import ToolResult
from rumi.agent.tools.bash import CommandShell
from rumi.agent.tools.file_access import (
    LINE_BYTES,
    MAX_BYTES,
    MOST_NAMES,
    FileTool,
    FoundPath,
    named,
    path_in,
)
from rumi.agent.tools.text_file import TextFile, decoded, lines_of
from rumi.errors import RumiError
from rumi.models.model import ToolSpec
from rumi.platform.file_kinds import HEAD_BYTES, is_viewable
from rumi.platform.openat import shown
from rumi.platform.texts.operating import short_size
from rumi.web.readers.files.viewer import Seen, View
from rumi.web.readers.pages.kinds import looks_like

LINES: Final = 200
MOST_LINES: Final = 2000
MOST_CHARS: Final = 50_000
"""Maximum number of characters in one result; the model reads the rest with a larger offset."""

LINE_CHARS: Final = 2000
_NAMES: Final = 40
_WORKSPACE: Final = "/workspace/"
_CUT: Final = re.compile(rb"^([^\n]{%d})$" % LINE_BYTES, re.MULTILINE)
_LAST_CHARACTER: Final = re.compile(rb"[\xc0-\xff][\x80-\xbf]*$")


class ReadFile(FileTool):
    """The `read_file` tool, bound to one chat's sandbox.

    `view` renders pictures, documents and recordings.
    """

    concurrent = True
    only_reads = True
    spec = ToolSpec(
        name="read_file",
        description="Read a file as numbered lines: a text, or that of a PDF or office file. See a picture.",
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "offset": {"type": "integer", "description": "First line"},
                "limit": {"type": "integer"},
            },
            "required": ["path"],
        },
    )

    def __init__(
        self,
        shell: CommandShell,
        view: View | None = None,
        can_view: Callable[[bytes, str], bool] = is_viewable,
    ) -> None:
        super().__init__(shell)
        self._view = view
        self._can_view = can_view

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Read the lines. The result is tainted if the chat's files may contain untrusted content."""
        path = self.path(path_in(arguments))
        if isinstance(path, ToolResult):
            return path
        offset, limit = _number(arguments.get("offset"), 1), _number(arguments.get("limit"), LINES)
        if offset is None or limit is None:
            return self.refused("takes `offset` and `limit` as whole numbers, from 1 on")
        limit = min(limit, MOST_LINES)
        found = await self.look(path, offset, limit)
        if isinstance(found, ToolResult):
            return found
        if found.kind not in ("file", "large"):
            return not_a_file(self, path, found)
        if (seen := await self._seen(path, found)) is not None:
            return self._in_view(path, found, seen, offset, limit)
        first = offset if found.kind == "large" else 1
        file = _of_large(found) if found.kind == "large" else decoded(found.content)
        if file is None:
            return no_text(self, path, found)
        name, lines = named(path), lines_of(file.plain)
        total = found.lines or len(lines)
        if not total:
            return self.answer(f"{name} is empty", found.trace, found.duration_ms)
        if offset > total:
            why = f"{name} has {total} lines, and offset {offset} is past its end. Read from 1 to {total}"
            return self.answer(why, found.trace, found.duration_ms, 1)
        part = _numbered(lines[offset - first :][:limit], offset, cut=found.kind == "large")
        last = offset + len(part) - 1
        about = [f"lines {offset}-{last} of {total}", short_size(found.size), *file.about]
        if last < total:
            about.append(f"{total - last} more lines from offset={last + 1}")
        source_note = await self.source_note(path, file)
        content = "\n".join([f"{source_note}{name}: {', '.join(about)}", *part])
        return self.answer(content, found.trace, found.duration_ms)

    async def _seen(self, path: str, found: FoundPath) -> Seen | None:
        """Return the rendered view of a workspace file that is not plain text; None for other files."""
        if self._view is None or not path.startswith(_WORKSPACE):
            return None
        if not self._can_view(found.content[:HEAD_BYTES], path):
            return None
        try:
            return await self._view(path.removeprefix(_WORKSPACE))
        except RumiError as error:
            return Seen(f"It cannot be shown: {error.message}")

    def _in_view(self, path: str, found: FoundPath, seen: Seen, offset: int, limit: int) -> ToolResult:
        name = f"{named(path)} ({found.size} bytes)"
        if not seen.text:
            said = "; ".join(filter(None, (f"{name}: {seen.about}", seen.lost, seen.cut)))
            answer = self.answer(said, found.trace, found.duration_ms)
            return replace(answer, pictures=seen.pictures)
        lines = lines_of(seen.text)
        part = _numbered(lines[offset - 1 :][:limit], offset, cut=False)
        last = offset + len(part) - 1
        about = [f"{name}: {seen.about}", f"lines {offset}-{last}" if part else f"none from line {offset} on"]
        if part and last < len(lines):
            about.append(f"{len(lines) - last} more lines from offset={last + 1}")
        about += filter(None, (seen.lost, seen.cut))
        return self.answer("\n".join(["; ".join(about), *part]), found.trace, found.duration_ms)

    async def source_note(self, path: str, file: TextFile) -> str:
        """Return the text that precedes the file's name in the result; empty in this class.

        Subclasses override this method to record which files the model has read.
        """
        return ""


def _number(value: object, default: int) -> int | None:
    """Return the positive number in a model's argument; None if the argument is invalid.

    A text that contains a number is accepted. For null or an empty text, return `default`; for 0, return 1.
    """
    if value is None or value == "":
        return default
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return max(1, min(value, 10**12)) if isinstance(value, int) and value >= 0 else None


def _of_large(found: FoundPath) -> TextFile | None:
    """Return the lines that were read from a large file; None if the file is not text."""
    head, lines = found.content[:HEAD_BYTES], found.content[HEAD_BYTES:]
    if decoded(_LAST_CHARACTER.sub(b"", head)) is None:
        return None
    lines = lines if len(lines) < MAX_BYTES else lines[: lines.rfind(b"\n") + 1]
    # The script cuts lines after a number of bytes, so a line may end in the middle of a character.
    return decoded(_CUT.sub(lambda line: _LAST_CHARACTER.sub(b"", line[0]), lines))


def _numbered(lines: list[str], first: int, *, cut: bool) -> list[str]:
    """Return lines with line numbers, up to `MOST_CHARS` characters in total."""
    shown_lines, size = list[str](), 0
    for number, line in enumerate(lines, first):
        more = len(line) - LINE_CHARS
        if more > 0:
            line = f"{line[:LINE_CHARS]} [… this line is cut: {'at least ' * cut}{more} more characters]"
        size += len(line) + 8
        if size > MOST_CHARS and shown_lines:
            break
        shown_lines.append(f"{number}\t{line}")
    return shown_lines


def no_text(tool: FileTool, path: str, found: FoundPath) -> ToolResult:
    """Return a result that states the kind and the size of a file that is not text."""
    kind = looks_like(found.content[:HEAD_BYTES]) or "not a text file"
    content = f"{named(path)} is {kind}, {found.size} bytes. Its content cannot be shown as text"
    return tool.answer(content, found.trace, found.duration_ms, 1 if tool.writes else None)


def not_a_file(tool: FileTool, path: str, found: FoundPath) -> ToolResult:
    """Return a result about a path that is not a file, with the names of files near the path."""
    names = found.names
    more = f" and {len(names) - _NAMES} more" if len(names) < MOST_NAMES else " and many more"
    some = ", ".join(names[:_NAMES]) + (more if len(names) > _NAMES else "")
    match found.kind:
        case "folder" if not tool.writes:
            content = f"{named(path)} is a folder{f' with: {some}' if names else ', and empty'}"
            return tool.answer(content, found.trace, found.duration_ms)
        case "folder":
            content = f"{named(path)} is a folder, not a file"
        case "missing":
            content = _missing(path, found.size, names, some)
        case "denied":
            content = f"{named(path)} may not be read"
        case "link":
            content = f"{named(path)} is a link, or a folder on its way is, and links are not followed"
        case _:
            content = f"{named(path)} is a device, a pipe or a socket, not a file"
    return tool.answer(content, found.trace, found.duration_ms, 1)


def _missing(path: str, levels: int, names: list[str], some: str) -> str:
    """Return a message that the file does not exist, with the names of similar existing files."""
    inside = PurePosixPath(path)
    folder, wanted = inside.parents[levels - 1], inside.parts[-levels]
    if wanted in names:
        there = (
            "is a link to nothing"
            if levels == 1
            else f"cannot be: {named(str(folder / wanted))} is no folder"
        )
        return f"{named(path)} {there}"
    near = get_close_matches(wanted.lower(), {name.rstrip("/").lower(): 0 for name in names}, 3)
    by_lower = {name.rstrip("/").lower(): name for name in names}
    there = f"Near it in {shown(str(folder))}: {', '.join(by_lower[name] for name in near)}"
    if not near:
        there = f"{shown(str(folder))} has: {some}" if names else f"{shown(str(folder))} is empty"
    bytes_ = " (\\x… stands for a byte that is not UTF-8: rename such a file with mv and a glob)"
    return f"there is no {named(path)}. {there}{bytes_ if chr(92) + 'x' in there else ''}"
