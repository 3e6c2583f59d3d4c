"""Conversion of Markdown to visible text and to spans of this text that have a format such as bold.

`parsing.py` parses the Markdown; one walk over the tokens writes the text and its spans.
"""

import html
import logging
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from markdown_it.common.utils import normalizeReference, unescapeAll
from markdown_it.token import Token

from rumi.channels.telegram.formatting.parsing import Overgrown, linkable, parsed
from rumi.channels.telegram.formatting.spans import Kind, TextSpan, clean, ordered
from rumi.channels.telegram.formatting.tables import columns, records

logger = logging.getLogger(__name__)

_FENCE: Final = re.compile(r"^[ >]*(`{3,}(?!.*`)|~{3,})(.*)$", re.MULTILINE)
_ENDING: Final = 16_000
_LANGUAGE: Final = re.compile(r"[ {.]*([\w+#.-]{1,32})(?=[\s,:}]|$)")
_TAB: Final = 4
_LINE_END: Final = re.compile(r"[ \t]*\n[ \t]*")
_BREAK: Final = re.compile(r"<br\s*/?>", re.IGNORECASE)
_CELL_BREAK: Final = "\x00"  # does not occur in a cleaned text
_BORDER: Final = re.compile(r"(?<!\\)\|")
_STYLES: Final[dict[str, Kind]] = {"strong_open": "bold", "em_open": "italic", "s_open": "strikethrough"}
_STYLE_ENDS: Final = ("strong_close", "em_close", "s_close")
_BLANK: Final = " \t>"
_RULE: Final = "———"


def read(markdown: str) -> tuple[str, tuple[TextSpan, ...]]:
    """Return the visible text of `markdown` and its spans. The same input always gives the same result.

    If the parser fails, or if the result would be far too large, the function returns `markdown` unchanged,
    without spans.
    """
    source = clean(markdown)
    try:
        return _Writer(source).written(parsed(source))
    except Overgrown:
        logger.info("a Markdown text of %d characters would grow too much: it stays as it is", len(source))
    except Exception:  # whatever error the parser raises, the text must be shown
        logger.warning("a Markdown text cannot be formatted: it stays as it is", exc_info=True)
    return source.replace("\t", " "), ()


def ending(markdown: str) -> str:
    """Return the last part of a long text, cut so that it can be parsed alone. Return a short text unchanged.

    This keeps the cost of showing a growing answer constant. The result begins at the start of a paragraph if
    possible, otherwise at the start of a line. If the result begins inside a code block, the block's opening
    fence is repeated.
    """
    if len(markdown) <= 2 * _ENDING:
        return markdown
    start = markdown.find("\n", len(markdown) - _ENDING) + 1 or len(markdown) - _ENDING
    fence = _open_fence(markdown, start)
    if fence:
        return f"{fence}\n{markdown[start:]}"
    paragraph = markdown.find("\n\n", start - 1, start + _ENDING // 2)
    return markdown[paragraph + 2 if paragraph >= 0 else start :]


def _open_fence(markdown: str, end: int) -> str:
    """Return the line that opened the code block at index `end`; empty if `end` is outside of code blocks."""
    opened: re.Match[str] | None = None
    for found in _FENCE.finditer(markdown, 0, end):
        if opened is None:
            opened = found
        elif found[1].startswith(opened[1]) and not found[2].strip():
            opened = None
    return opened[0] if opened else ""


class _OpenLink(NamedTuple):
    """A link or picture whose end has not been written yet: where it and its words begin, and its address."""

    start: int
    words: int
    address: str
    linked: bool
    closing: str


class _Writer:
    """Writes the tokens of one source text."""

    def __init__(self, source: str) -> None:
        self._lines = source.split("\n")
        self._padding_left = 1000 + 4 * len(source)  # limit of repeated headers
        self._parts: list[str] = []
        self._length = 0
        self._spans: list[TextSpan] = []
        self._last_line = 0  # the source line at which the last block began
        self._at_item = False  # a list item's mark was written, and nothing behind it
        self._lists = 0
        self._quotes: list[int] = []
        self._styles: list[tuple[Kind, int]] = []  # with the start; -1 within the same style
        self._links: list[_OpenLink] = []
        self._in_table = False

    def written(self, tokens: Sequence[Token]) -> tuple[str, tuple[TextSpan, ...]]:
        """Return the text of block tokens, and its spans in order."""
        at = 0
        while at < len(tokens):
            at = self._block(tokens, at)
        text = "".join(self._parts).replace("\t", " ")
        return text, ordered(text, self._spans)

    def _block(self, tokens: Sequence[Token], at: int) -> int:
        """Write the token at index `at`, or a whole table. Return the index of the next token."""
        token = tokens[at]
        line = token.map[0] if token.map else 0
        match token.type:
            case "inline":
                self._inline(token)
            case "paragraph_open":
                self._begin(0 if self._lists else line)
            case "heading_open":
                self._begin(line)
                self._open_style("bold")
            case "heading_close":
                self._close_style()
            case "fence" | "code_block":
                self._code(token.content.removesuffix("\n"), clean(unescapeAll(token.info)).strip(), line)
            case "bullet_list_open" | "ordered_list_open":
                if not self._lists:
                    self._begin(line)
                self._lists += 1
            case "bullet_list_close" | "ordered_list_close":
                self._lists -= 1
            case "list_item_open":
                self._item(token.info, tokens[at + 2].content if at + 2 < len(tokens) else "")
            case "list_item_close":
                self._at_item = False
                self._end_line()
            case "blockquote_open":
                self._begin(line)
                self._quotes.append(self._length)
            case "blockquote_close":
                start = self._quotes.pop()
                if not self._quotes:
                    self._span(start, "blockquote")
            case "hr":
                self._begin(line)
                self._write(_RULE)
            case "html_block":
                self._begin(line)
                self._write(token.content.strip("\n"))
            case "definition":
                self._begin(line)
                self._write(self._typed(token).lstrip(" \t>"))
            case "table_open":
                return self._table(tokens, at, line)
        return at + 1

    def _write(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)

    def _span(self, start: int, kind: Kind, detail: str = "") -> None:
        if start < self._length:
            self._spans.append(TextSpan(start, self._length, kind, detail))

    def _end_line(self, line_ends: int = 1) -> None:
        """Write line ends, as many as are missing at the end of the text."""
        for part in reversed(self._parts):
            line_ends -= len(part) - len(part.rstrip("\n"))
            if line_ends <= 0 or part.strip("\n"):
                break
        if line_ends > 0:
            self._write("\n" * line_ends)

    def _begin(self, line: int) -> None:
        """Begin a block on a new line; if there is a blank line above it in the source, below a blank line.

        The first block of a list item begins behind the item's mark.
        """
        if self._at_item or not self._length:
            self._at_item = False
        else:
            blank = self._last_line < line - 1 and not self._lines[line - 1].strip(_BLANK)
            self._end_line(2 if blank else 1)
        self._last_line = line or self._last_line

    def _typed(self, token: Token) -> str:
        first, end = token.map or (0, 0)
        return "\n".join(self._lines[first:end]).strip("\n")

    def _item(self, number: str, content: str) -> None:
        if self._length:
            self._end_line()
        mark = f"{int(number)}. " if number else "" if content[:2] in ("☐ ", "☑ ") else "• "
        self._write("  " * (self._lists - 1) + mark)
        self._at_item = True

    def _code(self, code: str, info: str, line: int) -> None:
        found = _LANGUAGE.match(info)
        more = info[found.end() :].strip(" \t,:}") if found else info
        self._begin(line)
        if more:  # usually a file's name
            self._write(more + "\n")
        start = self._length
        self._write(code.expandtabs(_TAB))  # Telegram shows a tab as one space
        self._span(start, "pre", found[1] if found else "")

    def _inline(self, token: Token) -> None:
        """Write the text of a paragraph, a heading or a picture."""
        if token.children:
            self._inlines(token.children)
        else:
            self._write(_LINE_END.sub("\n", token.content) if "\n" in token.content else token.content)

    def _inlines(self, tokens: Sequence[Token]) -> None:
        for at, token in enumerate(tokens):
            kind = token.type
            if kind == "text":
                self._write(token.content)
            elif kind == "code_inline":
                self._inline_code(token.content)
            elif kind in ("softbreak", "hardbreak"):
                self._write("\n")
            elif kind in _STYLES:
                self._open_style(_STYLES[kind])
            elif kind in _STYLE_ENDS:
                self._close_style()
            elif kind == "link_open":
                behind = tokens[at + 2 : at + 3]
                only = tokens[at + 1].content if behind and behind[0].type == "link_close" else ""
                self._open_link(token, str(token.attrs["href"]), only)
            elif kind == "link_close":
                self._close_link()
            elif kind == "image":
                self._open_link(token, str(token.attrs["src"]), token.content)
                self._inline(token)
                self._close_link()
            elif kind == "text_special":  # a reference such as &amp;, which can produce any character
                self._write(clean(html.unescape(token.markup)))
            else:  # HTML; in a table, nothing else breaks a line
                line_break = self._in_table and _BREAK.fullmatch(token.content)
                self._write(_CELL_BREAK if line_break else token.content)

    def _open_style(self, kind: Kind) -> None:
        within = any(kind == open_kind for open_kind, _ in self._styles)
        self._styles.append((kind, -1 if within else self._length))

    def _close_style(self) -> None:
        kind, start = self._styles.pop()
        if start >= 0:
            self._span(start, kind)

    def _inline_code(self, code: str) -> None:
        """Write code. A style around it ends before it and continues after it; a link around it stays."""
        start = self._length
        linked = any(link.linked for link in self._links)
        if not linked:
            for kind, opened in self._styles:
                if opened >= 0:
                    self._span(opened, kind)
        self._write(code)
        if not linked:
            self._span(start, "code")
            self._styles = [(kind, self._length if opened >= 0 else -1) for kind, opened in self._styles]

    def _open_link(self, token: Token, address: str, text: str) -> None:
        """Begin a link or a picture, which becomes a link. `text` is its text, if it has no markup.

        Its brackets are shown if its definition has the same: `[1]`.
        """
        start = self._length
        linked = linkable(address)
        opening = closing = ""
        picture = token.type == "image"
        if token.markup == "autolink" and not linked:  # <a@b.c>, but also vector<std::string>
            opening, closing, address = "<", ">", ""
        elif token.meta and token.meta["label"] == normalizeReference(text):
            opening, closing = "![" if picture else "[", "]"
        elif not linked:
            title = token.attrs.get("title")
            address = clean(f'{address} "{title}"' if title else address)
        if opening:
            self._write(opening)
        self._links.append(_OpenLink(start, len(self._parts), address, linked, closing))

    def _close_link(self) -> None:
        """End a link. Shows the URL if the link text is empty or Telegram would refuse the link."""
        start, first, address, linked, closing = self._links.pop()
        words = "".join(self._parts[first:]).strip()
        if closing:
            self._write(closing)
        if not words and address:
            self._write(address)
        if linked and not any(link.linked for link in self._links):
            self._span(start, "text_link", address)
        if address and words and words != address and not closing and (self._in_table or not linked):
            self._write(f" ({address})")

    def _table(self, tokens: Sequence[Token], at: int, line: int) -> int:
        """Write the table at index `at`: as aligned columns if they fit, otherwise as one record per row."""
        self._in_table = True
        typed = self._typed(tokens[at])
        rows: list[list[str]] = []
        alignments: list[str] = []
        while (token := tokens[at]).type != "table_close":
            match token.type:
                case "tr_open":
                    rows.append([])
                    source = self._typed(token).strip(_BLANK)
                case "th_open":
                    alignments.append(str(token.attrs.get("style", "")).removeprefix("text-align:"))
                case "inline":
                    rows[-1].append(self._cell(token))
                case "tr_close":
                    rows[-1][-1] += _surplus(source, len(rows[-1]))
            at += 1
        self._in_table = False
        aligned = columns(rows, alignments)
        if aligned is None:
            self._padding_left -= len(rows) * sum(map(len, rows[0]))
        if aligned is not None or self._padding_left < 0:
            self._code(typed if aligned is None else aligned, "", line)
            return at + 1
        self._begin(line)
        for number, record in enumerate(records(rows)):
            self._write("\n\n" if number else "")
            start = self._length
            self._write(record[0])
            self._span(start, "bold")
            self._write("".join(f"\n{cell}" for cell in record[1:]))
        return at + 1

    def _cell(self, token: Token) -> str:
        """Return the text of a table cell on one line."""
        before = len(self._parts), self._length, len(self._spans)
        self._inline(token)
        cell = "".join(self._parts[before[0] :])
        del self._parts[before[0] :], self._spans[before[2] :]
        self._length = before[1]
        return " ".join(cell.replace(_CELL_BREAK, " ").split()) or cell.replace(_CELL_BREAK, "<br>").strip()


def _surplus(row: str, columns: int) -> str:
    """Return the text after a table row's last column, which the parser drops.

    Such text usually follows a `||` that the author wrote inside a cell and did not mean as a border.
    """
    cells = _BORDER.split(row.removeprefix("|"), columns)
    rest = cells[columns].removesuffix("|").rstrip() if len(cells) > columns else ""
    return f" |{rest}" if rest.strip("| ") else ""
