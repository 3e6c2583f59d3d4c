"""Parts of a page that browsers show although they are no ordinary elements.

These are shadow roots, frames, text for readers without scripts, and redirects. Scripts do not run here, so
an article that only a script would show is taken from the structured data of the page.
"""

import html
import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

from lxml import etree

from rumi.web.readers.pages.hrefs import Hrefs
from rumi.web.readers.pages.pruning import Element
from rumi.web.refresh import refresh_url, reloads

_MOST_FRAMES: Final = 30
_MOST_REFRESHES: Final = 10
_MOST_NODES: Final = 20_000
_LEAST_CHARS: Final = 80
"""Minimum length of a text for readers without scripts."""

_LEAST_ARTICLE_CHARS: Final = 20

_MESSAGE_CHARS: Final = 500
_MESSAGE: Final = re.compile(r"java\s?script|\bframes\b", re.IGNORECASE)
_SHADOW: Final = ("shadowrootmode", "shadowroot")
_KEPT: Final = ("class", "id", "style", "hidden", "aria-hidden", "role")
_DOCUMENT: Final = re.compile(r"application/pdf|text/(?:html|plain)|[^?#]*\.(?:pdf|html?|txt)(?:[?#].*)?")
_UNSEEN_SIZE: Final = re.compile(r"\s*[01](?:px)?\s*")
_TAG: Final = re.compile(r"<(?:/?[a-zA-Z]|!--)[^<>]{0,1000}>")
_AROUND_JSON: Final = re.compile(
    r"\A(?:\s|//(?=\s*<!)|/\*|\*/|<!--(?://)?|<!\[CDATA\[)++|(?:\s|;|//(?=\s*(?:\]\]>|-->))|/\*|\*/|\]\]>|-->)++\Z"
)
"""Marks around a script that hide it from old browsers and from XML parsers."""

_LAST_COMMA: Final = re.compile(r",(?=\s*+[\]}])")
_MOST_JSON_CHARS: Final = 2_000_000
_WORDS: Final = re.compile(r"\w+")


def refresh_of(root: Element, hrefs: Hrefs, url: str) -> tuple[str, bool]:
    """Return the URL to which a page redirects by itself, and True if only readers of nothing else follow.

    These are redirects for readers without scripts, and a page that loads itself again: with the cookies that
    it has set, its server may send its content.
    """
    metas = (meta for meta in root.iter("meta") if meta.get("http-equiv", "").strip().lower() == "refresh")
    for meta in islice(metas, _MOST_REFRESHES):
        again = reloads(meta.get("content", ""))
        to = url if again else hrefs.followed(refresh_url(meta.get("content", "")))
        above = {str(element.tag) for element in meta.iterancestors(etree.Element)}
        if to and "template" not in above:
            return to, again or "noscript" in above
    return "", False


def reveal(root: Element, hrefs: Hrefs, parse: Callable[[str], Element | None], *, everything: bool) -> None:
    """Turn these parts into ordinary elements. With `everything`, short texts without scripts stay too."""
    shadows: dict[Element | None, Element] = {}
    for template in root.iter("template"):
        if any(template.get(name) in ("open", "closed") for name in _SHADOW):
            shadows.setdefault(template.getparent(), template)  # a host has one shadow root: the first
    for template in reversed(shadows.values()):
        _open_shadow(template)
    for frameset in list(root.iter("frameset")):
        frameset.tag = "div"
    for frame in list(root.iter("iframe", "frame", "embed", "object"))[:_MOST_FRAMES]:
        _show_frame(frame, hrefs, parse)
    for element in list(root.iter("noscript", "noframes")):
        text = " ".join("".join(element.itertext(etree.Element)).split())
        message = len(text) < _MESSAGE_CHARS and _MESSAGE.search(text) is not None
        if everything or (len(text) >= _LEAST_CHARS and not message):
            element.tag = "div"


def article_of(root: Element) -> str:
    """Return the longest article in a page's structured data (schema.org in JSON-LD), as plain text."""
    longest = ""
    for script in root.iter("script"):
        if script.get("type", "").partition(";")[0].strip().lower() == "application/ld+json":
            longest = max(longest, *_articles(script.text or ""), "", key=len)
    text = html.unescape(longest)
    if _TAG.search(text):
        text = html.unescape(_TAG.sub("\n", text))
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n\n".join(filter(None, lines)) if len(text) >= _LEAST_ARTICLE_CHARS else ""


def has_words(shown: str, article: str) -> bool:
    """Return True if a page shows its article already: the beginning, the middle, and the end of it."""
    words, found = _WORDS.findall(article.lower()), " ".join(_WORDS.findall(shown.lower()))
    starts = (0, max(0, len(words) // 2 - 4), max(0, len(words) - 8))
    return all(" ".join(words[start : start + 8]) in found for start in starts)


def _articles(source: str) -> Iterator[str]:
    waiting: list[Any] = []
    source = _AROUND_JSON.sub("", source[:_MOST_JSON_CHARS])
    for text in (source, _LAST_COMMA.sub("", source)):
        try:
            waiting = [json.loads(text, strict=False)]
            break
        except (ValueError, RecursionError):
            continue
    for _ in range(_MOST_NODES):
        if not waiting:
            return
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
        elif isinstance(node, dict):
            body = node.get("articleBody")
            parts = body if isinstance(body, list) else [body]
            yield "\n".join(part for part in parts if isinstance(part, str))
            waiting.extend(value for value in node.values() if isinstance(value, dict | list))


def _open_shadow(template: Element) -> None:
    """Show a shadow root in place of its host's children, with these children in its slots."""
    host = template.getparent()
    template.tag = "div"
    template.attrib.clear()
    if host is None:
        return
    slots = {slot.get("name", ""): slot for slot in reversed(list(template.iter("slot")))}
    for child in list(host.iterchildren(etree.Element)):
        slot = slots.get(child.get("slot", "")) if child is not template else None
        if slot is None:
            continue
        if slot.get("filled") is None:  # what a slot has itself is shown only if nothing comes into it
            for own in list(slot):
                slot.remove(own)
            slot.text = None
            slot.set("filled", "")
        slot.append(child)


def _show_frame(frame: Element, hrefs: Hrefs, parse: Callable[[str], Element | None]) -> None:
    if any(_UNSEEN_SIZE.fullmatch(frame.get(side, "")) for side in ("width", "height")):
        return
    inner = parse(frame.get("srcdoc", "")) if frame.tag == "iframe" and frame.get("srcdoc") else None
    source = frame.get("data" if frame.tag == "object" else "src")
    if frame.tag in ("embed", "object") and not any(
        _DOCUMENT.fullmatch(text.lower()) for text in (frame.get("type", ""), source or "")
    ):
        return
    url = hrefs.absolute(source)
    if url is None and inner is None:
        return
    label = " ".join((frame.get("title") or frame.get("name") or "frame").split())[:100] or "frame"
    kept = {name: value for name in _KEPT if (value := frame.get(name)) is not None}
    tail = frame.tail
    frame.clear()
    frame.tag, frame.tail = "div", tail
    for name, value in kept.items():
        frame.set(name, value)
    if inner is not None:
        inner.tag = "div"
        frame.append(inner)
    elif url is not None:
        link = etree.SubElement(frame, "a", {"href": url})
        link.text = label
