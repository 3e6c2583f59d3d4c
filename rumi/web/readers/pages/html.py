"""Conversion of HTML to Markdown. The Markdown contains the text that a person would read on the page."""

from typing import Final, NamedTuple

from lxml import etree

from rumi.web.readers.pages.cleaning import clean_references, one_line
from rumi.web.readers.pages.hrefs import Hrefs
from rumi.web.readers.pages.markdown import render
from rumi.web.readers.pages.names import CONTAINERS
from rumi.web.readers.pages.pruning import Element, count_chars, remove_frame, remove_unshown
from rumi.web.readers.pages.unscripted import article_of, has_words, refresh_of, reveal

# Minimum share of the visible text that the page's main element must have to be believed.
_BELIEVED_SHARE: Final = 0.5
# Without a main element: maximum share of the visible text that may be lost with the links around the prose.
_LOST_SHARE: Final = 0.1


# Maximum number of characters of a page that redirects readers without scripts, because it has no content.
_EMPTY_CHARS: Final = 300


class Markdown(NamedTuple):
    """A page as Markdown. `deeper` means that it is nested too deeply to be parsed completely.

    `refresh` is the URL to which the page redirects by itself, or empty.
    """

    title: str
    text: str
    deeper: bool
    refresh: str = ""


def to_markdown(source: str, url: str, *, whole: bool = False) -> Markdown:
    """Convert a page to Markdown. Links are relative to `url`, or to the URL in the page's <base>.

    With `whole`, the source is a document rather than a page of a site, so nothing in it counts as a menu or
    a banner.
    """
    root, deeper = _parse(source)
    if root is None:
        return Markdown("", "", deeper)
    base = next((found.get("href") for found in root.iter("base") if found.get("href")), None)
    hrefs = Hrefs(url, base)
    title, article = _title(root), article_of(root)
    refresh, unscripted = refresh_of(root, hrefs, url)
    reveal(root, hrefs, _parsed, everything=False)
    remove_unshown(root)
    if whole:
        return Markdown(title, render(root, hrefs), deeper)
    everything = count_chars(root)[root]
    if unscripted and everything > _EMPTY_CHARS:
        refresh = ""
    if article and has_words("".join(root.itertext(etree.Element)), article):
        article = ""
    remove_frame(root)
    shown = count_chars(root)
    main = _main(root, shown)
    text = render(main, hrefs)
    heading = next(root.iter("h1"), None)
    if heading is not None and next(main.iter("h1"), None) is None:
        text = f"# {one_line(''.join(heading.itertext()))}\n\n{text}"
    if not title and heading is not None:
        title = one_line("".join(heading.itertext()))
    if not text.strip():
        # All elements have names of noise, or are for readers without scripts: keep them.
        text = render(_shown_again(source, hrefs), hrefs)
    return Markdown(title, f"{text}\n\n{article}".strip("\n"), deeper, refresh)


def _parse(source: str) -> tuple[Element | None, bool]:
    """Parse a page. Also return True if libxml2 stopped in the middle, after 2,048 levels of nesting."""
    source = clean_references(source)
    # `huge_tree` removes libxml2's own limits: the process limits time and memory.
    parser = etree.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True, huge_tree=True
    )
    try:
        root = etree.fromstring(source.encode("utf-8", "ignore") or b" ", parser)
    except (etree.ParserError, etree.XMLSyntaxError):  # nothing in it
        root = None
    return root, any(error.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for error in parser.error_log)


def _parsed(source: str) -> Element | None:
    return _parse(source)[0]


def _shown_again(source: str, hrefs: Hrefs) -> Element:
    root, _ = _parse(source)
    assert root is not None
    reveal(root, hrefs, _parsed, everything=True)
    remove_unshown(root)
    return root


def _title(root: Element) -> str:
    for found in root.iter("title"):
        if next(found.iterancestors("svg"), None) is None:
            title = one_line("".join(found.itertext()))
            if title:
                return title
    for found in root.iter("meta"):
        if found.get("property") == "og:title" and found.get("content"):
            return one_line(found.get("content", ""))
    return ""


def _main(body: Element, shown: dict[Element, int]) -> Element:
    """Return the element to convert: the main element, or the smallest element that contains all prose."""
    named = [
        found for found in body.iter(etree.Element) if found.tag == "main" or found.get("role") == "main"
    ]
    if len(named) == 1 and shown[named[0]] >= _BELIEVED_SHARE * shown[body]:
        return named[0]
    prose = count_chars(body, without_links=True)
    chosen = body
    while True:
        heaviest = max(chosen.iterchildren(etree.Element), key=prose.__getitem__, default=None)
        if heaviest is None or heaviest.tag not in CONTAINERS or chosen.tag == "article":
            return chosen
        if prose[heaviest] < prose[body] or shown[heaviest] < (1 - _LOST_SHARE) * shown[body]:
            return chosen
        chosen = heaviest
