"""Conversion of a response body to text, depending on its kind."""

import re
from typing import Final
from urllib.parse import urlsplit

from rumi.web.links import links_in
from rumi.web.messages import PageText
from rumi.web.readers.pages.charset import decode
from rumi.web.readers.pages.cleaning import clean, cut_to, one_line
from rumi.web.readers.pages.kinds import SNIFFED_BYTES, kind_of, looks_like

_TOO_DEEP: Final = "it is nested too deeply, and all from there on is missing"
_BLANK_LINES: Final = re.compile(r"\n(?:[ \t]*\n){3,}")


def read_page(body: bytes, *, media_type: str, charset: str, url: str, max_chars: int) -> PageText:
    """Convert a page to text. This function does not limit time and memory; `Readers` does."""
    match kind_of(media_type, body[:SNIFFED_BYTES]):
        case "binary":
            return PageText(described=describe(body, media_type))
        case "document":
            return _read_document(body, url, max_chars)
        case "html":
            return _read_html(decode(body, charset, markup=True), url, max_chars)
        case "xml":
            return _read_xml(decode(body, charset, markup=True), url, max_chars)
        case "text":
            return _shown("", decode(body, charset), max_chars)


def describe(body: bytes, media_type: str) -> str:
    """Return one line that describes an unreadable body."""
    seems = looks_like(body[:SNIFFED_BYTES])
    named = one_line(media_type, 100) or "no type"
    return f"Not a text: {named}, {len(body):,} bytes{f', looks like {seems}' if seems else ''}."


def _read_document(body: bytes, url: str, max_chars: int) -> PageText:
    """Convert a document with the readers that also read files which users send."""
    from rumi.web.readers.pages.documents.document import read_document
    from rumi.web.readers.pages.documents.lines import NoDocumentError

    try:
        read = read_document(body, urlsplit(url).path, max_chars)
    except NoDocumentError as error:
        return PageText(described=f"A document, {len(body):,} bytes, that cannot be read: {error}.")
    lost = "; ".join(filter(None, (read.lost, read.cut)))
    return _shown(read.title, read.text, max_chars, lost=lost)


def _read_html(source: str, url: str, max_chars: int) -> PageText:
    from rumi.web.readers.pages.html import to_markdown

    title, text, deeper = to_markdown(clean(source), url)
    if text.strip():
        return _shown(title, text, max_chars, lost=_TOO_DEEP if deeper else "")
    why = _TOO_DEEP if deeper else "scripts may make it when it is shown"
    return PageText(one_line(title), described=f"A page without text; {why}.")


def _read_xml(source: str, url: str, max_chars: int) -> PageText:
    from rumi.web.readers.pages.feeds import read_feed

    feed = read_feed(clean(source), url)
    if feed is None or not feed[1]:
        return _shown("", source, max_chars)
    return _shown(*feed, max_chars)


def _shown(title: str, text: str, max_chars: int, *, lost: str = "") -> PageText:
    """Return the text cleaned and cut. `lost` describes parts that were left out before this call."""
    whole = _BLANK_LINES.sub("\n\n\n", clean(text)).strip("\n")
    kept, cut = cut_to(whole, max_chars)
    return PageText(one_line(title), kept, links_in(kept), "; ".join(filter(None, (lost, cut))))
