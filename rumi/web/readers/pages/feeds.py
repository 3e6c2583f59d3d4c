"""Conversion of RSS, Atom and site maps to Markdown."""

import re
from collections.abc import Iterator
from html.entities import html5
from typing import Any, Final

from lxml import etree

from rumi.web.readers.pages.cleaning import clean_references, cut_to, one_line
from rumi.web.readers.pages.hrefs import Hrefs

_ENTRIES: Final = frozenset(("item", "entry"))
_DATES: Final = ("pubDate", "published", "updated", "date")
_SUMMARIES: Final = ("encoded", "content", "description", "summary")
_MOST_ENTRIES: Final = 1000
_AMPERSAND: Final = re.compile(
    r"<!\[CDATA\[.*?(?:\]\]>|\Z)|&(?!(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9a-fA-F]+);)([a-zA-Z][a-zA-Z0-9]{1,30};)?",
    re.DOTALL,
)
"""What no XML parser reads: ampersands that begin no reference, and references of HTML."""

_MOST_SUMMARY_CHARS: Final = 3000


def read_feed(source: str, url: str) -> tuple[str, str] | None:
    """Return a feed's title, and its entries as Markdown; None for other XML.

    XML entities are not expanded.
    """
    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        recover=True,
        remove_pis=True,
    )
    try:
        markup = _AMPERSAND.sub(_escaped, clean_references(source).strip())
        root = etree.fromstring(markup.encode("utf-8", "ignore"), parser)
    except etree.XMLSyntaxError:
        return None
    if root is None:
        return None
    hrefs = Hrefs(url)
    kind = _name(root)
    if kind in ("urlset", "sitemapindex"):
        addresses = [_words(element) for element in root.iter("{*}loc")]
        shown = [f"- {hrefs.absolute(element) or element}" for element in addresses[:_MOST_ENTRIES]]
        return "", "\n".join([*shown, *_left_out(len(addresses))])
    if kind not in ("rss", "feed", "RDF"):
        return None
    channel = next((child for child in root.iterchildren(etree.Element) if _name(child) == "channel"), root)
    entries = [child for child in root.iter(etree.Element) if _name(child) in _ENTRIES]
    title = _first(channel, ("title",))
    about = _first(channel, ("description", "subtitle"))
    shown = [_entry(entry, hrefs, url) for entry in entries[:_MOST_ENTRIES]]
    return title, "\n\n".join(filter(None, [about, *shown, *_left_out(len(entries))]))


def _escaped(found: re.Match[str]) -> str:
    if found[0].startswith("<"):
        return found[0]
    character = html5.get(found[1] or "", "")
    return character if character and character not in "<>&" else f"&amp;{found[1] or ''}"


def _left_out(entries: int) -> list[str]:
    return [f"… ({entries - _MOST_ENTRIES:,} more were left out)"] if entries > _MOST_ENTRIES else []


def _entry(entry: Any, hrefs: Hrefs, url: str) -> str:
    title = _first(entry, ("title",)) or "(no title)"
    href = next((href for href in map(hrefs.absolute, _links(entry)) if href), None)
    heading = f"## [{title.replace('[', '(').replace(']', ')')}]({href})" if href else f"## {title}"
    lines = [heading, _first(entry, _DATES), _summary(entry, url)]
    return "\n\n".join(line for line in lines if line)


def _links(entry: Any) -> Iterator[str]:
    for child in entry.iterchildren(etree.Element):
        if _name(child) == "link" and child.get("rel", "alternate") == "alternate":
            yield child.get("href") or _words(child)
    for child in entry.iterchildren(etree.Element):
        if _name(child) == "guid":
            yield _words(child)


def _summary(entry: Any, url: str) -> str:
    from rumi.web.readers.pages.html import to_markdown

    for name in _SUMMARIES:
        for child in entry.iterchildren(etree.Element):
            if _name(child) == name:
                inner = (
                    "".join(etree.tostring(part, encoding="unicode") for part in child) if len(child) else ""
                )
                text = to_markdown(f"<div>{child.text or ''}{inner}</div>", url)[1]
                if text:
                    kept, cut = cut_to(text, _MOST_SUMMARY_CHARS)
                    return f"{kept}\n\n… ({cut})" if cut else kept
    return ""


def _first(element: Any, names: tuple[str, ...]) -> str:
    for name in names:
        for child in element.iterchildren(etree.Element):
            if _name(child) == name:
                return one_line(_words(child))
    return ""


def _words(element: Any) -> str:
    return "".join(part for part in element.itertext(etree.Element)).strip()


def _name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2].rpartition(":")[2]
