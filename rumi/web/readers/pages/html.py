"""Converts HTML to Markdown: the text that a person would read on the page."""

from typing import Final

from lxml import etree

from rumi.web.readers.pages.cleaning import clean_references, one_line
from rumi.web.readers.pages.hrefs import Hrefs
from rumi.web.readers.pages.markdown import render
from rumi.web.readers.pages.names import CONTAINERS
from rumi.web.readers.pages.pruning import Element, count_chars, remove_frame, remove_unshown

# The main element, where a page names one, is believed if it has this share of what there is to read.
_BELIEVED_SHARE: Final = 0.5
# Where it names none, links around all the prose are left out, if they are no more than this share.
_LOST_SHARE: Final = 0.1


def to_markdown(source: str, url: str) -> tuple[str, str, bool]:
    """Return the title and the text of a page from `url`, and True if it is nested too deeply."""
    root, deeper = _parse(source)
    if root is None:
        return "", "", deeper
    base = next((found.get("href") for found in root.iter("base") if found.get("href")), None)
    title = _title(root)
    remove_unshown(root)
    everything = count_chars(root)[root]
    remove_frame(root)
    shown = count_chars(root)
    main = _main(root, shown)
    text = render(main, Hrefs(url, base))
    heading = next(root.iter("h1"), None)
    if heading is not None and next(main.iter("h1"), None) is None:
        text = f"# {one_line(''.join(heading.itertext()))}\n\n{text}"
    if not title and heading is not None:
        title = one_line("".join(heading.itertext()))
    if everything and not text.strip():
        # All of it had the names of noise.
        text = render(_shown_again(source), Hrefs(url, base))
    return title, text, deeper


def _parse(source: str) -> tuple[Element | None, bool]:
    """Return the page, and True if libxml2 stopped in the middle: it reads at most 2,048 levels."""
    source = clean_references(source)
    # Time and memory are bounded by the process.
    parser = etree.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True, huge_tree=True
    )
    try:
        root = etree.fromstring(source.encode("utf-8", "ignore") or b" ", parser)
    except (etree.ParserError, etree.XMLSyntaxError):  # nothing in it
        root = None
    return root, any(error.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for error in parser.error_log)


def _shown_again(source: str) -> Element:
    root, _ = _parse(source)
    assert root is not None
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
    """Return the part of the page to read: the main part that it names, or the part with all of its prose."""
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
