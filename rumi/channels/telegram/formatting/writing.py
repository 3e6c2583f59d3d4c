"""Writing of a text and its spans from the tokens of a Markdown parser."""

import html
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from markdown_it.common.utils import normalizeReference, unescapeAll
from markdown_it.token import Token

from rumi.channels.telegram.formatting.parsing import linkable
from rumi.channels.telegram.formatting.spans import Kind, TextSpan, clean, ordered
from rumi.channels.telegram.formatting.tables import columns, records

_LANGUAGE: Final = re.compile(r"[ {.]*([\w+#.-]{1,32})(?=[\s,:}]|$)")
_TAB: Final = 4
_LINE_END: Final = re.compile(r"[ \t]*\n[ \t]*")
_BREAK: Final = re.compile(r"<br\s*/?>", re.IGNORECASE)
_CELL_BREAK: Final = "\x00"  # does not occur in a cleaned text
_BORDER: Final = re.compile(r"(?<!\\)\|")
_STYLES: Final[dict[str, Kind]] = {"strong_open": "bold", "em_open": "italic", "s_open": "strikethrough"}
_STYLE_ENDS: Final = ("strong_close", "em_close", "s_close")
_BLANK: Final = " \t>"


class _OpenLink(NamedTuple):
    """A link or picture whose end has not been written yet: where it and its words begin, and its address."""

    start: int
    words: int
    address: str
    linked: bool
    closing: str


class _OpenTable(NamedTuple):
    """A table whose end has not been written yet: its source, the text of its cells, and its alignments."""

    typed: str
    rows: list[list[str]]
    alignments: list[str]


class Writer:
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
        self._table: _OpenTable | None = None

    def written(self, tokens: Sequence[Token]) -> tuple[str, tuple[TextSpan, ...]]:
        """Return the text of block tokens, and its spans in order."""
        for at, token in enumerate(tokens):
            kind = token.type
            if kind == "inline":
                if self._table is None:
                    self._inline(token)
                else:
                    self._table.rows[-1].append(self._cell(token))
            elif kind == "list_item_open":
                self._start_item(token.info, tokens[at + 2 : at + 3])
            elif (write := _BLOCKS.get(kind)) is not None:
                write(self, token, token.map[0] if token.map else 0)
        text = "".join(self._parts).replace("\t", " ")
        return text, ordered(text, self._spans)

    def _start_paragraph(self, token: Token, line: int) -> None:
        self._begin(0 if self._lists else line)

    def _start_heading(self, token: Token, line: int) -> None:
        self._begin(line)
        self._start_style("bold")

    def _end_heading(self, token: Token, line: int) -> None:
        self._end_style()

    def _start_list(self, token: Token, line: int) -> None:
        if not self._lists:
            self._begin(line)
        self._lists += 1

    def _end_list(self, token: Token, line: int) -> None:
        self._lists -= 1

    def _start_item(self, number: str, content: Sequence[Token]) -> None:
        if self._length:
            self._end_line()
        task = bool(content) and content[0].content[:2] in ("☐ ", "☑ ")
        mark = f"{int(number)}. " if number else "" if task else "• "
        self._write("  " * (self._lists - 1) + mark)
        self._at_item = True

    def _end_item(self, token: Token, line: int) -> None:
        self._at_item = False
        self._end_line()

    def _start_quote(self, token: Token, line: int) -> None:
        self._begin(line)
        self._quotes.append(self._length)

    def _end_quote(self, token: Token, line: int) -> None:
        start = self._quotes.pop()
        if not self._quotes:
            self._span(start, "blockquote")

    def _rule(self, token: Token, line: int) -> None:
        self._begin(line)
        self._write("———")

    def _html(self, token: Token, line: int) -> None:
        self._begin(line)
        self._write(token.content.strip("\n"))

    def _definition(self, token: Token, line: int) -> None:
        self._begin(line)
        self._write(self._typed(token))

    def _code_block(self, token: Token, line: int) -> None:
        self._begin(line)
        info = clean(unescapeAll(token.info)).strip()
        found = _LANGUAGE.match(info)
        more = info[found.end() :].strip(" \t,:}") if found else info
        if more:  # usually a file's name
            self._write(more + "\n")
        self._code(token.content.removesuffix("\n"), found[1] if found else "")

    def _code(self, code: str, language: str = "") -> None:
        start = self._length
        self._write(code.expandtabs(_TAB))  # Telegram shows a tab as one space
        self._span(start, "pre", language)

    def _start_table(self, token: Token, line: int) -> None:
        self._begin(line)
        self._table = _OpenTable(self._typed(token), [], [])

    def _start_row(self, token: Token, line: int) -> None:
        assert self._table is not None
        self._table.rows.append([])

    def _start_header(self, token: Token, line: int) -> None:
        assert self._table is not None
        self._table.alignments.append(str(token.attrs.get("style", "")).removeprefix("text-align:"))

    def _end_table(self, token: Token, line: int) -> None:
        """Write the table: as aligned columns if they fit, otherwise as one record per row."""
        assert self._table is not None
        (typed, rows, alignments), self._table = self._table, None
        for row, source in zip(rows[1:], typed.split("\n")[2:], strict=False):
            row[-1] += _surplus(source.strip(_BLANK), len(row))
        aligned = columns(rows, alignments)
        if aligned is not None:
            self._code(aligned)
            return
        self._padding_left -= len(rows) * sum(map(len, rows[0]))
        if self._padding_left < 0:
            self._code(typed)
            return
        for number, record in enumerate(records(rows)):
            self._write("\n\n" if number else "")
            start = self._length
            self._write(record[0])
            self._span(start, "bold")
            self._write("".join(f"\n{cell}" for cell in record[1:]))

    def _cell(self, token: Token) -> str:
        """Return the text of a table cell on one line."""
        parts, length, spans = len(self._parts), self._length, len(self._spans)
        self._inline(token)
        cell = "".join(self._parts[parts:])
        del self._parts[parts:], self._spans[spans:]
        self._length = length
        return " ".join(cell.replace(_CELL_BREAK, " ").split()) or cell.replace(_CELL_BREAK, "<br>").strip()

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
        return "\n".join(self._lines[first:end]).strip("\n").lstrip(_BLANK)

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
                self._start_style(_STYLES[kind])
            elif kind in _STYLE_ENDS:
                self._end_style()
            elif kind == "link_open":
                behind = tokens[at + 2 : at + 3]
                only = tokens[at + 1].content if behind and behind[0].type == "link_close" else ""
                self._start_link(token, str(token.attrs["href"]), only)
            elif kind == "link_close":
                self._end_link()
            elif kind == "image":
                self._start_link(token, str(token.attrs["src"]), token.content)
                self._inline(token)
                self._end_link()
            elif kind == "text_special":  # a reference such as &amp;, which can produce any character
                self._write(clean(html.unescape(token.markup)))
            else:  # HTML; in a table, nothing else breaks a line
                line_break = self._table is not None and _BREAK.fullmatch(token.content)
                self._write(_CELL_BREAK if line_break else token.content)

    def _start_style(self, kind: Kind) -> None:
        within = any(kind == open_kind for open_kind, _ in self._styles)
        self._styles.append((kind, -1 if within else self._length))

    def _end_style(self) -> None:
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

    def _start_link(self, token: Token, address: str, text: str) -> None:
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

    def _end_link(self) -> None:
        """End a link. Shows the URL if the link text is empty or Telegram would refuse the link."""
        start, first, address, linked, closing = self._links.pop()
        words = "".join(self._parts[first:]).strip()
        if closing:
            self._write(closing)
        if not words and address:
            self._write(address)
        if linked and not any(link.linked for link in self._links):
            self._span(start, "text_link", address)
        if address and words and words != address and not closing and (self._table is not None or not linked):
            self._write(f" ({address})")


_BLOCKS: Final[dict[str, Callable[[Writer, Token, int], None]]] = {
    "paragraph_open": Writer._start_paragraph,
    "heading_open": Writer._start_heading,
    "heading_close": Writer._end_heading,
    "bullet_list_open": Writer._start_list,
    "bullet_list_close": Writer._end_list,
    "ordered_list_open": Writer._start_list,
    "ordered_list_close": Writer._end_list,
    "list_item_close": Writer._end_item,
    "blockquote_open": Writer._start_quote,
    "blockquote_close": Writer._end_quote,
    "fence": Writer._code_block,
    "code_block": Writer._code_block,
    "table_open": Writer._start_table,
    "tr_open": Writer._start_row,
    "th_open": Writer._start_header,
    "table_close": Writer._end_table,
    "hr": Writer._rule,
    "html_block": Writer._html,
    "definition": Writer._definition,
}


def _surplus(row: str, columns: int) -> str:
    """Return the text after a table row's last column, which the parser drops.

    Such text usually follows a `||` that the author wrote inside a cell and did not mean as a border.
    """
    cells = _BORDER.split(row.removeprefix("|"), columns)
    rest = cells[columns].removesuffix("|").rstrip() if len(cells) > columns else ""
    return f" |{rest}" if rest.strip("| ") else ""
