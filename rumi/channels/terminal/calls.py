"""Summaries of tool calls: the outcome in a few words, and the first and last lines of the output."""

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


def excerpt_of(result: ToolResult, reader: Reader, unfolds: bool = False) -> list[str]:
    """Return at most `LINES` lines of the tool's output: the first and the last ones.

    A line between them states how many lines are omitted and, if `unfolds` is True, the key that shows them.
    """
    if result.shows:
        return paths_of(result, reader)
    lines = [line for line in map(_shortened, output_of(result, reader)) if line]
    if len(lines) <= LINES:
        return lines
    head, tail = LINES // 2, LINES - LINES // 2 - 1
    return [*lines[:head], omitted(len(lines) - head - tail, reader, unfolds), *lines[-tail:]]


def output_of(result: ToolResult, reader: Reader) -> list[str]:
    """Return the lines of the tool's output, safe to print."""
    content = result.content if result.ok else translate(reader.language, result.content)
    said = _lines(content)
    if result.ok and said and said[0].startswith("exit code "):
        # A command's content opens with its exit code and duration, which `outcome_of` shows.
        said = [line for line in said[1:] if line not in ("output:", "(no output)")]
    return said


def diff_of(result: ToolResult, reader: Reader, unfolds: bool = False) -> list[str]:
    """Return at most `DIFF_LINES` lines of a call's diff; the header lines with file names are omitted."""
    lines = list(map(_shortened, whole_diff_of(result)))
    if len(lines) <= DIFF_LINES:
        return lines
    return [*lines[: DIFF_LINES - 1], omitted(len(lines) - DIFF_LINES + 1, reader, unfolds)]


def whole_diff_of(result: ToolResult) -> list[str]:
    """Return the lines of a call's diff without its header, safe to print."""
    return _lines(result.diff)[2:]


def is_folded(result: ToolResult, reader: Reader) -> bool:
    """Return True if the excerpt and the diff that are shown of a call leave something out."""
    output, diff = [] if result.shows else [*filter(None, output_of(result, reader))], whole_diff_of(result)
    longest = max((len(line) for line in [*output, *diff]), default=0)
    return len(output) > LINES or len(diff) > DIFF_LINES or longest > LINE_CHARS


def omitted(count: int, reader: Reader, unfolds: bool) -> str:
    """Return the line that stands for lines that are not shown."""
    if unfolds:
        return gettext(reader.language, "… {count} more lines · Ctrl-O shows them", count=count)
    return gettext(reader.language, "… {count} more lines", count=count)


def code_and_rest(text: str) -> tuple[str, str]:
    """Return the code with which a reply begins, and the text after it; the code is empty without any."""
    found = _CODE.match(text)
    return (found[2], text[found.end() :].strip()) if found else ("", text)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in clean(text).expandtabs(4).split("\n")]


def _shortened(line: str) -> str:
    return line if len(line) <= LINE_CHARS else f"{line[: LINE_CHARS - 1]}…"
