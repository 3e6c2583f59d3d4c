"""`<details>` with a `<summary>` in Markdown: the only HTML tags of a text that are read as such."""

import re
from typing import TYPE_CHECKING, Final

from rumi.channels.formulas import GROWING

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock

PAIRS: Final = "details"
"""The key of a parser's environment for the lines where details begin, with those where they end."""

_OPENING: Final = re.compile(
    r"<details((?:\s+[\w-]{1,20}(?:=\"[^\"<>]{0,100}\")?){0,9})\s*>\s*", re.IGNORECASE
)
_OPEN: Final = re.compile(r"\sopen(?![\w-])", re.IGNORECASE)
_SUMMARY: Final = re.compile(
    r"\s*<summary(?:\s[^<>]{0,100})?>(.{0,500}?)</summary>[ \t]*", re.DOTALL | re.IGNORECASE
)
_CLOSING: Final = "</details>"
_FENCE: Final = re.compile(r"(`{3,}|~{3,})")


def read_details(state: "StateBlock", line: int, end: int, silent: bool) -> bool:
    """Read details whose closing tag comes; details without one are text."""
    start = state.bMarks[line] + state.tShift[line]
    if not state.src.startswith("<", start) or state.is_code_block(line):
        return False
    opening = _OPENING.match(state.src, start, state.eMarks[line])
    if opening is None:
        return False
    pairs = state.env.get(PAIRS)
    if pairs is None:
        pairs = state.env[PAIRS] = _pairs(state)
    last = pairs.get(line)
    if last is None or last >= end:
        if last is not None or not state.env.get(GROWING) or state.level:
            return False
        if not silent:
            state.push("details_open", "details", 1).map = [line, end]
            state.push("details_close", "details", -1)
            state.line = end
        return True
    if not silent:
        _read(state, line, last, opening)
    return True


def _read(state: "StateBlock", line: int, last: int, opening: re.Match[str]) -> None:
    close = state.src.lower().rindex(_CLOSING, state.bMarks[last], state.eMarks[last])
    token = state.push("details_open", "details", 1)
    token.map = [line, last + 1]
    if _OPEN.search(opening[1]):
        token.attrs = {"open": ""}
    begin = opening.end()
    if summary := _SUMMARY.match(state.src, begin, close):
        state.push("summary_open", "summary", 1)
        inline = state.push("inline", "", 0)
        inline.content, inline.children, inline.map = " ".join(summary[1].split()), [], [line, last + 1]
        state.push("summary_close", "summary", -1)
        begin = summary.end()
    first = line + state.src.count("\n", state.bMarks[line], begin)
    kept = state.bMarks[first], state.tShift[first], state.sCount[first], state.eMarks[last], state.lineMax
    state.bMarks[first], state.tShift[first], state.sCount[first] = begin, 0, state.blkIndent
    state.eMarks[last] = close
    content_end = last + 1 if state.src[max(begin, state.bMarks[last]) : close].strip() else last
    state.lineMax = content_end
    if first < content_end and first <= last:
        state.md.block.tokenize(state, first, content_end)
    state.bMarks[first], state.tShift[first], state.sCount[first], state.eMarks[last], state.lineMax = kept
    state.push("details_close", "details", -1)
    state.line = last + 1


def _pairs(state: "StateBlock") -> dict[int, int]:
    """Return the lines where details begin, each with the line where they end. Code blocks are skipped."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    fence = ""
    for line in range(state.lineMax):
        text = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].strip().lower()
        if marks := _FENCE.match(text):
            if not fence:
                fence = marks[1]
            elif marks[1].startswith(fence) and marks[1] == text:
                fence = ""
        elif not fence:
            if _OPENING.match(text):
                opened.append(line)
            if opened and (text.startswith(_CLOSING) or text.endswith(_CLOSING)):
                pairs[opened.pop()] = line
    return pairs
