"""The text of a mail in HTML, line by line, with `>` before what it quotes."""

import re
from html.parser import HTMLParser
from typing import Final

from typing_extensions import override

_SKIPPED: Final = frozenset({"script", "style", "head", "title", "template", "noscript"})
_VOID: Final = frozenset({"br", "hr", "img", "input", "meta", "link", "wbr", "col", "area", "base", "embed"})
_BLOCKS: Final = frozenset(
    {
        *("p", "div", "li", "ul", "ol", "tr", "table", "section", "article", "header", "footer", "pre"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "dl", "dt", "dd", "blockquote", "hr", "br"),
    }
)
_QUOTES: Final = re.compile(r"\b(?:gmail_quote(?:_container)?|moz-cite-prefix|yahoo_quoted|divRplyFwdMsg)\b")
_HIDDEN: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d])", re.I)
_MOST_DEPTH: Final = 500


def text_of(html: str) -> str:
    """Return the text of HTML. What is hidden is left out, and each line of a quotation begins with `>`.

    Blocks; takes a time that is linear in the length.
    """
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.text()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[tuple[str, bool, bool]] = []  # each element: its name, if it hides, if it quotes
        self._lines: list[tuple[bool, list[str]]] = [(False, [])]
        self._hidden = 0
        self._quoting = 0

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _BLOCKS:
            self._new_line()
        if tag in _VOID or len(self._open) >= _MOST_DEPTH:
            return
        given = {name: value or "" for name, value in attrs}
        hides = tag in _SKIPPED or "hidden" in given or bool(_HIDDEN.search(given.get("style", "")[:2000]))
        named = f"{given.get('class', '')} {given.get('id', '')}"[:500]
        quotes = tag == "blockquote" or bool(_QUOTES.search(named))
        self._open.append((tag, hides, quotes))
        self._hidden += hides
        self._quoting += quotes
        if quotes:
            self._new_line()

    @override
    def handle_endtag(self, tag: str) -> None:
        at = next((n for n in range(len(self._open) - 1, -1, -1) if self._open[n][0] == tag), None)
        if at is not None:
            for _, hides, quotes in self._open[at:]:
                self._hidden -= hides
                self._quoting -= quotes
            del self._open[at:]
        if tag in _BLOCKS:
            self._new_line()

    @override
    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._lines[-1][1].append(data)

    def _new_line(self) -> None:
        quoted, parts = self._lines[-1]
        if parts or quoted != bool(self._quoting):
            self._lines.append((bool(self._quoting), []))

    def text(self) -> str:
        lines = [(quoted, " ".join("".join(parts).split())) for quoted, parts in self._lines]
        return "\n".join(f"> {line}" if quoted else line for quoted, line in lines if line)
