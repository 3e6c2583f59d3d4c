"""Repair of a paragraph's inline content (text, emphasis, links), so that readers see the intended text.

The Markdown parser drops backslashes and reads `2*3*4` as emphasis. The Markdown writer drops HTML and adds a
symbol to pictures. Telegram refuses a message with a link that is not a web URL. This module repairs all of
this.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from pyromark.event import Event, Range

from rumi.channels.telegram.formatting.definitions import linkable
from rumi.channels.telegram.formatting.spans import clean

Pair: TypeAlias = tuple[Event, Range]
Emphasis: TypeAlias = Literal["Emphasis", "Strong", "Strikethrough"]

_MARKUP: Final = "`*_#~|<>+-.!$&"
"""Characters that a backslash escapes in Markdown.

Before other characters a backslash is text: `\\(a\\)`, `\\\\server`.
"""

_BREAK: Final = re.compile(r"<br\s*/?>", re.IGNORECASE)
_WITHIN_ADDRESS: Final = re.compile(rb"https?://[^\s<>()\[\]`]*$")
_WITHIN_WINDOWS_PATH: Final = re.compile(
    rb"(?:^|[\s\"'(`*_])(?:(?:[A-Za-z]:|\.{1,2}|%\w{1,32}%)\\|\\[A-Za-z0-9\\])[^\s*?\"<>|]*$"
)
_NAME_GOES_ON: Final = re.compile(rb"[./\\]\w|\(")
_LOOK_BACK: Final = 300
_CELL_BREAK: Final = "\x00"  # does not occur in a cleaned text


def cell_of(pieces: Iterable[str]) -> str:
    """Return the text of a table cell on one line."""
    cell = "".join(pieces)
    return " ".join(cell.replace(_CELL_BREAK, " ").split()) or cell.replace(_CELL_BREAK, "<br>").strip()


class _OpenLink:
    """A link or picture whose end has not been parsed yet."""

    __slots__ = ("address", "closing", "linked", "words")

    def __init__(self, address: str, linked: bool, closing: str = "") -> None:
        self.address = address
        self.linked = linked
        self.closing = closing
        self.words: list[str] = []


def _link_to(address: str) -> Event:
    return {"Start": {"Link": {"link_type": "Inline", "dest_url": address, "title": "", "id": ""}}}


class Inline:
    """Repairs the parser's events inside paragraphs, headings and table cells of one source text.

    `in_table` is True inside a table. A table shows only plain text, so links there must show their URL.
    """

    def __init__(self, source: bytes) -> None:
        self.in_table = False
        self._source = source
        self._ended = -1  # source index at which the last piece of text ended
        self._links: list[_OpenLink] = []

    def text(self, text: str, where: Range) -> Iterator[Pair]:
        """Yield a piece of text. Restores a dropped backslash, unless the backslash was Markdown syntax."""
        start = where["start"]
        if self._source[start : start + 1] == b"&":
            text = clean(text)  # a numeric reference can produce any character
        escaped = 0 < start != self._ended and self._source[start - 1 : start] == b"\\"
        if escaped and (text[:1] not in _MARKUP or self._looks_back(_WITHIN_WINDOWS_PATH, start)):
            text = "\\" + text
        return self._words(text, where)

    def code(self, code: str, where: Range) -> Iterator[Pair]:
        """Yield a piece of code."""
        self._add_link_text(code)
        self._ended = where["end"]
        yield {"Code": code.replace("\t", " ")}, where

    def html(self, tag: str, where: Range) -> Iterator[Pair]:
        """Yield an HTML tag as text.

        In a table, `<br>` becomes a line break, because table cells have no other way to write one.
        """
        if self.in_table and _BREAK.fullmatch(tag):
            tag = _CELL_BREAK
        return self._words(tag, where)

    def line_end(self, where: Range) -> Iterator[Pair]:
        """Yield a line end. It is still a line end in the message."""
        return self._words("\n", where)

    def emphasis(self, tag: Emphasis, event: Event, where: Range) -> Iterator[Pair]:
        """Yield the start or end of an emphasis, or the plain characters that the parser mistook for one."""
        mark = self._plain_mark(tag, where["start"], where["end"])
        if mark is None:
            yield event, where
        else:
            at_start = isinstance(event, dict) and "Start" in event
            yield from self._words(mark, where)
            self._ended = where["start"] + len(mark) if at_start else where["end"]

    def open_link(self, data: Mapping[str, object], picture: bool, where: Range) -> Iterator[Pair]:
        """Begin a link or a picture. In a message, a picture becomes a link."""
        kind, address, title = data["link_type"], str(data["dest_url"]), clean(str(data["title"]))
        linked = linkable(address)
        if kind == "Email" or (kind == "Autolink" and not linked):  # <a@b.c>, but also vector<std::string>
            self._links.append(_OpenLink("", False, ">"))
            return self._words("<", where)
        if kind == "ShortcutUnknown":  # [1]: its definition has the same brackets
            self._links.append(_OpenLink(address, linked, "]"))
            return self._opened("![" if picture else "[", where)
        if not linked:
            address = clean(f'{address} "{title}"' if title else address)
        self._links.append(_OpenLink(address, linked))
        return self._opened("", where)

    def close(self, where: Range) -> Iterator[Pair]:
        """End a link or picture.

        Shows the URL if the link text is empty or Telegram would refuse the link.
        """
        link = self._links.pop()
        words = "".join(link.words).strip()
        if link.closing:
            yield from self._words(link.closing, where)
        if not words and link.address:
            yield from self._words(link.address, where)
        if link.linked:
            yield {"End": "Link"}, where
        address_shown = not words or words == link.address or link.closing
        if link.address and not address_shown and (self.in_table or not link.linked):
            yield from self._words(f" ({link.address})", where)
        elif self._links:
            self._links[-1].words.append(words)
        self._ended = where["end"]

    def _opened(self, bracket: str, where: Range) -> Iterator[Pair]:
        link = self._links[-1]
        if link.linked:
            yield _link_to(link.address), where
        if bracket:
            yield from self._words(bracket, where)
            link.words.clear()

    def _words(self, words: str, where: Range) -> Iterator[Pair]:
        self._add_link_text(words)
        self._ended = where["end"]
        yield {"Text": words.replace("\t", " ")}, where

    def _add_link_text(self, words: str) -> None:
        if self._links:
            self._links[-1].words.append(words)

    def _plain_mark(self, tag: Emphasis, start: int, end: int) -> str | None:
        """Return a mark such as `*` if it is part of a URL, formula or name; None if it marks emphasis."""
        source = self._source
        width = 1 if tag == "Emphasis" or source[start + 1 : start + 2] != source[start : start + 1] else 2
        mark = source[start : start + width]
        before, after = source[max(0, start - 1) : start], source[end : end + 1]
        joined = before.isalnum() or before in (b")", b"]")
        plain = (
            mark == b"~"
            or (mark == b"*" and joined and after.isalnum())
            or (mark == b"**" and joined and source[start + 2 : start + 3].isdigit())
            or (mark == b"__" and (before in (b".", b"/", b"\\") or _NAME_GOES_ON.match(source, end)))
            or self._looks_back(_WITHIN_ADDRESS, start)
        )
        return mark.decode() if plain else None

    def _looks_back(self, pattern: re.Pattern[bytes], at: int) -> bool:
        # Bounded: searching from the start of the text at every mark would take quadratic time.
        return pattern.search(self._source[max(0, at - _LOOK_BACK) : at]) is not None
