"""Repair of the Markdown parser's events before they are written as text, so that no word is lost or changed.

The writer (telegramify-markdown) drops HTML, decorates headings, renumbers lists, and loses links in tables.
In list items, it also loses the line breaks around blocks. This module restores all of these as events that
the writer understands.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal

import pyromark
from pyromark.event import Event, Range

from rumi.channels.telegram.formatting.definitions import Overgrown, as_plain_text
from rumi.channels.telegram.formatting.inline import Inline, Pair, cell_of
from rumi.channels.telegram.formatting.spans import clean
from rumi.channels.telegram.formatting.tables import columns, records

_OPTIONS: Final = (
    pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH | pyromark.Options.ENABLE_TASKLISTS
)
_NUMBER: Final = re.compile(rb"\s*(\d{1,9})[.)]")
_LANGUAGE: Final = re.compile(r"[ {.]*([\w+#.-]{1,32})(?=[\s,:}]|$)")
_TAB: Final = 4


def repaired(source: str) -> tuple[str, Iterator[Pair]]:
    """Return the source text that the parser gets, and the repaired events for the writer.

    Iterating raises `Overgrown` for a text whose result would be far too large, such as a table whose header
    has a thousand columns.
    """
    source, answer = as_plain_text(source, _OPTIONS)
    events = pyromark.events_with_range(source, options=_OPTIONS, broken_link_callback=answer)
    return source, _Repair(source).repair(events)


class _OpenTable:
    """A table whose end has not been parsed yet: rows of cells; each cell is a list of text pieces."""

    __slots__ = ("alignments", "rows")

    def __init__(self, alignments: tuple[str, ...]) -> None:
        self.alignments = alignments
        self.rows: list[list[list[str]]] = []

    def cell(self) -> list[str]:
        """Return the last cell, creating it if needed.

        If a table is too large for the parser, text may arrive before any cell has begun.
        """
        self.rows = self.rows or [[]]
        if not self.rows[-1]:
            self.rows[-1].append([])
        return self.rows[-1][-1]


class _Repair:
    def __init__(self, source: str) -> None:
        self._source = source.encode()
        self._inline = Inline(self._source)
        self._events = 50_000 + 3 * len(self._source)  # only tables with many empty cells exceed this
        self._padding_left = 1000 + 4 * len(self._source)  # limit of indentation and repeated headers
        self._lists: list[int | None] = []  # the next number, None without numbers
        self._behind: Literal["line end", "words", "block"] = (
            "line end"  # what the writer wrote last, within lists
        )
        self._info = ""  # the text after a code block's fence
        self._verbatim: list[str] | None = None  # the open code or HTML
        self._table: _OpenTable | None = None
        self._cell_end = 0

    def repair(self, events: Iterator[Pair]) -> Iterator[Pair]:
        for count, (event, where) in enumerate(events):
            if count > self._events:
                raise Overgrown
            if isinstance(event, str):
                yield from self._break(event, where)
            elif "Start" in event:
                tag = event["Start"]
                if tag == "Emphasis" or tag == "Strong" or tag == "Strikethrough":
                    yield from self._within(self._inline.emphasis(tag, event, where))
                elif isinstance(tag, str):
                    yield from self._start(tag, event, where)
                else:
                    yield from self._start_with(tag, event, where)  # type: ignore[arg-type]
            elif "End" in event:
                end = event["End"]
                if end == "Emphasis" or end == "Strong" or end == "Strikethrough":
                    yield from self._within(self._inline.emphasis(end, event, where))
                else:
                    yield from self._end(end if isinstance(end, str) else next(iter(end)), event, where)
            else:
                yield from self._leaf(event, where)

    def _leaf(self, event: Event, where: Range) -> Iterator[Pair]:
        match event:
            case {"Text": str(text)} | {"Html": str(text)} if self._verbatim is not None:
                self._verbatim.append(text)
            case {"Text": str(text)}:
                yield from self._within(self._inline.text(text, where))
            case {"Code": str(code)}:
                yield from self._within(self._inline.code(code, where))
            case {"InlineHtml": str(tag)}:
                yield from self._within(self._inline.html(tag, where))
            case {"TaskListMarker": bool(done)} if self._lists and self._lists[-1] is not None:
                yield {"Text": "☑ " if done else "☐ "}, where  # the writer would replace the number with it
            case _:
                yield event, where

    def _within(self, pairs: Iterator[Pair]) -> Iterator[Pair]:
        """Yield events of a paragraph; if a table is open, collect their text instead.

        Text after a block starts on a new line.
        """
        for event, where in pairs:
            words = event.get("Text") or event.get("Code") if isinstance(event, dict) else None
            if self._table is not None:
                if isinstance(words, str):
                    self._table.cell().append(words)
                continue
            if words is not None:
                yield from self._after_block(where)
                self._behind = "words"
            yield event, where

    def _break(self, event: Event, where: Range) -> Iterator[Pair]:
        if event == "Rule":
            yield from self._before_block(where)
            yield event, where
            self._behind = "block"
        else:
            yield from self._within(self._inline.line_end(where))

    def _start(self, tag: str, event: Event, where: Range) -> Iterator[Pair]:
        if self._table is not None:
            if tag == "TableCell":
                self._table.rows[-1].append([])
            else:
                self._table.rows.append([])
        elif tag == "HtmlBlock":
            self._verbatim = []
        elif tag == "Item":
            self._padding_left -= 2 * len(self._lists)
            if self._padding_left < 0:
                raise Overgrown
            yield from self._number(where)
            yield event, where
            self._behind = "line end"
        else:
            yield from self._after_block(where)
            yield event, where

    def _start_with(self, tag: dict[str, object], event: Event, where: Range) -> Iterator[Pair]:
        match tag:
            case {"Heading": _}:
                yield from self._before_block(where)
                yield {"Start": "Paragraph"}, where
                yield {"Start": "Strong"}, where
            case {"CodeBlock": kind}:
                self._verbatim = []
                self._info = clean(str(kind["Fenced"])) if isinstance(kind, dict) else ""
            case {"List": first}:
                self._lists.append(first if isinstance(first, int) else None)
                yield event, where
            case {"Table": tuple(alignments)}:
                self._table = _OpenTable(alignments)
                self._inline.in_table = True
            case {"Link": dict(data)} | {"Image": dict(data)}:
                yield from self._within(self._inline.open_link(data, "Image" in tag, where))
            case _:
                yield from self._before_block(where)
                yield event, where

    def _end(self, tag: str, event: Event, where: Range) -> Iterator[Pair]:
        match tag:
            case "Link" | "Image":
                yield from self._within(self._inline.close(where))
            case "TableCell":
                self._cell_end = where["end"]
            case "TableRow" | "TableHead":
                self._surplus(where)
            case "Table":
                yield from self._end_table(where)
            case "CodeBlock":
                yield from self._code(clean("".join(self._verbatim or ())), where)
            case "HtmlBlock":
                text, self._verbatim = "".join(self._verbatim or ()).strip("\n"), None
                yield from self._paragraph([(text.replace("\t", " "), False)], where)
            case "Heading":
                yield {"End": "Strong"}, where
                yield {"End": "Paragraph"}, where
                self._behind = "line end"
            case "List":
                self._lists.pop()
                yield event, where
            case "Paragraph" | "Item":
                yield event, where
                self._behind = "line end"  # within lists, the writer writes a line end
            case _:
                yield event, where

    def _number(self, where: Range) -> Iterator[Pair]:
        """Yield a list item's number as the author wrote it, because the writer would renumber the items."""
        expected = self._lists[-1]
        if expected is None:
            return
        typed = _NUMBER.match(self._source, where["start"], where["end"])
        number = int(typed[1]) if typed else expected
        if number != expected:
            yield from self._before_block(where)
            # A new list is the only way to give the writer another number.
            yield {"End": {"List": True}}, where
            yield {"Start": {"List": number}}, where
        self._lists[-1] = number + 1

    def _before_block(self, where: Range) -> Iterator[Pair]:
        """Begin a new line before a block in a list item, because the writer would continue the line."""
        if self._lists and self._behind == "words":
            yield "SoftBreak", where
            self._behind = "line end"
        yield from self._after_block(where)

    def _after_block(self, where: Range) -> Iterator[Pair]:
        if self._lists and self._behind == "block":
            yield "SoftBreak", where
            self._behind = "line end"

    def _paragraph(self, lines: list[tuple[str, bool]], where: Range) -> Iterator[Pair]:
        """Yield a paragraph of the given lines. Each line has a flag that is True if the line is bold."""
        yield from self._before_block(where)
        yield {"Start": "Paragraph"}, where
        for number, (line, bold) in enumerate(lines):
            if number:
                yield "SoftBreak", where
            if bold:
                yield {"Start": "Strong"}, where
            yield {"Text": line}, where
            if bold:
                yield {"End": "Strong"}, where
        yield {"End": "Paragraph"}, where
        self._behind = "line end"

    def _code(self, code: str, where: Range) -> Iterator[Pair]:
        found = _LANGUAGE.match(self._info)
        language = found[1] if found else ""
        more = self._info[found.end() :].strip(" \t,:}") if found else self._info
        self._info = ""
        self._verbatim = None
        if more:  # usually a file's name
            yield from self._paragraph([(more.replace("\t", " "), False)], where)
        yield from self._before_block(where)
        yield {"Start": {"CodeBlock": {"Fenced": language}}}, where
        yield {"Text": code.expandtabs(_TAB)}, where  # Telegram shows a tab as one space
        yield {"End": "CodeBlock"}, where
        self._behind = "block"

    def _surplus(self, where: Range) -> None:
        """Restore the text after a table row's last column, which the parser drops.

        Such text usually follows a `||` that the author wrote inside a cell and did not mean as a border.
        """
        assert self._table is not None
        rest = self._source[self._cell_end : where["end"]].decode(errors="replace").rstrip()
        if rest.strip(" \t|"):
            self._table.cell().append(" " + rest.removesuffix("|"))

    def _end_table(self, where: Range) -> Iterator[Pair]:
        assert self._table is not None
        rows = [[cell_of(pieces) for pieces in row] for row in self._table.rows]
        aligned = columns(rows, self._table.alignments)
        self._table = None
        self._inline.in_table = False
        typed = self._source[where["start"] : where["end"]].decode(errors="replace").strip("\n")
        if aligned is None:
            self._padding_left -= len(rows) * sum(map(len, rows[0]))
        if aligned is not None or self._padding_left < 0:
            yield from self._code(typed if aligned is None else aligned, where)
            return
        lines: list[tuple[str, bool]] = []
        for record in records(rows):
            if lines:
                lines.append(("", False))
            lines += [(line, not number) for number, line in enumerate(record)]
        yield from self._paragraph(lines, where)
