"""Summaries of tool calls: the outcome in a few words, and the first lines of the output."""

import re
from pathlib import PurePath

from rumi.agent.tool import ToolResult
from rumi.channels.terminal.words import Reader
from rumi.platform.printable import clean
from rumi.platform.texts.operating import short_duration
from rumi.texts import gettext, translate

_CODE = re.compile(r"(`{3,})\n(.*?)\n\1(?:\n|\Z)", re.DOTALL)

LINES = 5
"""Maximum number of lines of an excerpt."""

DIFF_LINES = 24
"""Maximum number of lines of a diff that are shown."""

LINE_CHARS = 160
"""Maximum length of a line in an excerpt, in characters."""


def outcome_of(result: ToolResult, reader: Reader, steps: int = 0) -> str:
    """Return the outcome of a call, such as `exit 0 · 12 ms` or `failed · 4 steps`; may be empty."""
    parts = []
    if not result.ok:
        parts.append(gettext(reader.language, "failed"))
    if steps:
        parts.append(
            gettext(reader.language, "1 step")
            if steps == 1
            else gettext(reader.language, "{count} steps", count=steps)
        )
    if result.exit_code is not None:
        parts.append(gettext(reader.language, "exit {code}", code=result.exit_code))
    if result.duration_ms is not None:
        parts.append(short_duration(result.duration_ms / 1000))
    if result.truncated:
        parts.append(gettext(reader.language, "truncated"))
    return " · ".join(parts)


def paths_of(result: ToolResult, reader: Reader) -> list[str]:
    """Return one line for each file that the call shows: the file's path on this machine."""
    return [clean(f"→ {PurePath(reader.workspace, path)}") for path in result.shows[:LINES]]


def excerpt_of(result: ToolResult, reader: Reader) -> list[str]:
    """Return at most `LINES` lines of the tool's output; the last line states how many lines are omitted."""
    if result.shows:
        return paths_of(result, reader)
    content = result.content if result.ok else translate(reader.language, result.content)
    said = _lines(content)
    if result.ok and said and said[0].startswith("exit code "):
        # A command's content opens with its exit code and duration, which `outcome_of` shows.
        said = [line for line in said[1:] if line not in ("output:", "(no output)")]
    return _first([line for line in said if line], LINES, reader)


def diff_of(result: ToolResult, reader: Reader) -> list[str]:
    """Return at most `DIFF_LINES` lines of a call's diff; the header lines with file names are omitted."""
    return _first(_lines(result.diff)[2:], DIFF_LINES, reader)


def code_and_rest(text: str) -> tuple[str, str]:
    """Return the code with which a reply begins, and the text after it; the code is empty without any."""
    found = _CODE.match(text)
    return (found[2], text[found.end() :].strip()) if found else ("", text)


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in clean(text).expandtabs(4).split("\n")]
    return [line if len(line) <= LINE_CHARS else f"{line[: LINE_CHARS - 1]}…" for line in lines]


def _first(lines: list[str], most: int, reader: Reader) -> list[str]:
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], gettext(reader.language, "… {count} more lines", count=len(lines) - most + 1)]
