"""Blocks of an answer: the page gets a growing text as it is, and each top-level block once, when it closes.

A block is closed when more text cannot change it. Offsets are in UTF-16 code units, as in the strings of a
browser.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from rumi.channels.formulas import GROWING
from rumi.channels.page.rendering.colours import colours
from rumi.channels.page.rendering.html import block_tokens, code_html, html_of, plain_html

if TYPE_CHECKING:
    from markdown_it.token import Token

MOST_CHARS: Final = 100_000
"""Maximum length of a block that is parsed, in characters; a longer one is shown as plain text."""

_LINE_END: Final = re.compile(r"\r\n?|\n")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_START: Final = re.compile(r" {0,3}(?:[-*+>#=`~<$\\:]|\d{1,9}[.)])")
"""The begin of a line that may start a block, or end one, without a blank line before."""

_LATER: Final = ("]:", "\\[", "$$", "<details")
"""Marks of texts whose end can change blocks before it: definitions, and openings that are never closed."""

_PARSE_SHARE: Final = 10
"""A growing block is parsed again when it has grown by this share, so that the total time stays linear."""


@dataclass(frozen=True, slots=True)
class ClosedBlock:
    """A closed top-level block. It ends at `to`; the first block begins at 0, each other where one ended.

    It has either `html`, or the range `code` of the code in the raw text, without the line break at its end.
    A code block in a list, or with indented fences, is part of an HTML block. `lang` is the language that
    the text names for the code. `colours` are runs, such as "3K1,4F": a run is an optional gap and a comma, a
    length, and an upper-case letter, the CSS class. Lengths are in base 36.
    """

    to: int
    html: str = ""
    code: tuple[int, int] | None = None
    lang: str = ""
    colours: str = ""

    def form(self) -> dict[str, Any]:
        """Return the block for JSON, without empty fields."""
        if self.code is None:
            return {"to": self.to, "html": self.html}
        shape: dict[str, Any] = {"to": self.to, "code": list(self.code)}
        shape |= {"lang": self.lang} if self.lang else {}
        return shape | ({"colours": self.colours} if self.colours else {})


class GrowingMarkdown:
    """The blocks of one growing text. `text` is the text so far, `blocks` are its closed blocks.

    Links and footnotes whose definitions come after their block closed stay plain text until the text ends.
    If `restated` is then True, blocks that were returned before have changed: send all `blocks` again.
    """

    def __init__(self) -> None:
        self.text = ""
        self.blocks: list[ClosedBlock] = []
        self.restated = False
        self._environment: dict[str, Any] = {}
        self._at = 0  # offset of the open block in `text`
        self._units = 0  # the same offset in UTF-16 code units
        self._seen = 0  # offset behind the last complete line that was looked at
        self._parsed = 0  # length of the open block when it was parsed last
        self._kind = ""  # type of the open block's first token
        self._fence = ""

    def advance(self, text: str, *, ended: bool = False) -> list[ClosedBlock]:
        """Take the whole text so far; return the newly closed blocks. Blocking: call it in a thread.

        With `ended`, the remaining blocks are closed too.
        """
        self.text = text
        if ended:
            return self._end()
        complete = text.rfind("\n") + 1
        lines, self._seen = text[self._seen : complete], max(self._seen, complete)
        if not lines or not self._may_close(lines, complete - self._at):
            return []
        part = text[self._at : complete]
        *closed, last = _split(part, self._environment, growing=True)
        self._parsed = len(part) - last.start
        self._kind = last.tokens[0].type if last.tokens else ""
        self._fence = last.tokens[0].markup if self._kind == "fence" else ""
        if self._fence and any(_closes(self._fence, line) for line in part[last.start :].splitlines()[1:]):
            self._fence = ""
        return self._close(closed, part, last.start)

    def _may_close(self, lines: str, size: int) -> bool:
        """Return True if these new lines may close the open block, and parsing it is worth its time."""
        if self._fence:
            return any(_closes(self._fence, line) for line in lines.splitlines())
        grown = (size - self._parsed) * _PARSE_SHARE >= size
        if self._kind in ("paragraph_open", "table_open", "heading_open"):
            return any(not line.strip() or (grown and _START.match(line)) for line in lines.splitlines())
        return grown

    def _close(self, found: "list[_Found]", part: str, end: int) -> list[ClosedBlock]:
        blocks = list(_blocks(found, part, self._units, self._environment))
        self.blocks += blocks
        if blocks:
            self._at += end
            self._units = blocks[-1].to
        return blocks

    def _end(self) -> list[ClosedBlock]:
        part, count = self.text[self._at :], len(self.blocks)
        rest = self._close(list(_split(part, self._environment)), part, len(part)) if part else []
        if any(mark in self.text for mark in _LATER):
            whole = list(blocks_of(self.text))
            self.restated = whole[:count] != self.blocks[:count]
            self.blocks, rest = whole, whole[count:]
        return rest


@lru_cache(maxsize=64)
def blocks_of(text: str) -> tuple[ClosedBlock, ...]:
    """Return the blocks of a whole text. A hostile text takes seconds of CPU time: call it in a thread."""
    environment: dict[str, Any] = {}
    found = list(_split(text, environment)) if text else []
    return tuple(_blocks(found, text, 0, environment))


def to_html(text: str) -> str:
    """Return a whole text as HTML, code blocks included. Blocking, as `blocks_of`."""
    data = text.encode("utf-16-le", "surrogatepass")
    return "".join(
        block.html
        if block.code is None
        else code_html(
            data[2 * block.code[0] : 2 * block.code[1]].decode("utf-16-le", "surrogatepass"),
            block.lang,
            block.colours,
        )
        for block in blocks_of(text)
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """A top-level block of a text, with offsets in characters. Without tokens it is shown as it is."""

    start: int
    end: int
    tokens: "list[Token]"
    lines: list[int]
    """Offsets of the lines that the tokens' maps count."""


def _split(text: str, environment: dict[str, Any], *, growing: bool = False) -> Iterator[_Found]:
    """Yield the blocks of a text. If the text is `growing`, its last block is not complete."""
    begin = 0
    while len(text) - begin > MOST_CHARS:
        cut = text.rfind("\n", begin, begin + MOST_CHARS) + 1 or begin + MOST_CHARS
        *closed, _ = _parsed(text[begin:cut], begin, environment, growing=True)
        if not closed:
            cut = text.find("\n", cut - 1) + 1 or len(text)
            closed = [_Found(begin, cut, [], [])]
        yield from closed
        begin = closed[-1].end
    if begin < len(text):
        yield from _parsed(text[begin:], begin, environment, growing=growing)


def _parsed(text: str, offset: int, environment: dict[str, Any], *, growing: bool) -> list[_Found]:
    environment[GROWING] = growing
    tokens = block_tokens(text, environment)
    lines = [offset, *(offset + end.end() for end in _LINE_END.finditer(text)), offset + len(text)]
    starts = [
        (index, token.map[0])
        for index, token in enumerate(tokens)
        if token.level == 0 and token.nesting >= 0 and token.map is not None
    ]
    # What is before the first block, such as empty lines and definitions of links, belongs to it.
    edges = [offset, *(lines[line] for _, line in starts[1:]), offset + len(text)]
    groups = [tokens[index:behind] for (index, _), (behind, _) in pairwise([*starts, (len(tokens), 0)])]
    return [
        _Found(start, end, group, lines)
        for (start, end), group in zip(pairwise(edges), groups or [[]], strict=True)
    ]


def _blocks(found: list[_Found], text: str, units: int, environment: dict[str, Any]) -> Iterator[ClosedBlock]:
    """Yield the blocks for the page. The first character of `text` has the offset `units`."""
    for one in found:
        to = units + _units(text[one.start : one.end])
        if block := _code(one, text, units, to):
            yield block
        elif one.tokens:
            yield ClosedBlock(to, html_of(one.tokens, environment))
        else:
            yield ClosedBlock(to, "" if one.lines else plain_html(text[one.start : one.end]))
        units = to


def _code(found: _Found, text: str, units: int, to: int) -> ClosedBlock | None:
    """Return a block of code whose lines are as in the text; None for another block."""
    if len(found.tokens) != 1 or (first := found.tokens[0]).type != "fence" or first.map is None:
        return None
    begin = found.lines[first.map[0] + 1]
    code = first.content.removesuffix("\n")
    if not text.startswith(code, begin) or text[begin + len(code) : begin + len(code) + 1] not in ("", "\n"):
        return None
    lang = first.info.split(maxsplit=1)[0] if first.info.strip() else ""
    begun = units + _units(text[found.start : begin])
    return ClosedBlock(to, "", (begun, begun + _units(code)), lang, colours(code, lang))


def _closes(fence: str, line: str) -> bool:
    start = _FENCE.match(line)
    return start is not None and start[1].startswith(fence) and not line[start.end() :].strip()


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
