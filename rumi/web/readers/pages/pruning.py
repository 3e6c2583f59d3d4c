"""Removal of the parts of a page that are not content: hidden elements, and the site's menus and banners."""

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from lxml import etree

from rumi.web.readers.pages.names import (
    CONTENT_NAMES,
    FOLDED,
    FOOTER_NAMES,
    FRAME,
    FRAME_NAMES,
    FRAME_ROLES,
    HEADED,
    MAIN_IDS,
    NAMEABLE,
    NEVER_TEXT,
    NOISE_NAMES,
    NOISE_ROLES,
    NOTES,
    UNSHOWN_CLASS,
    WHOLE,
)

Element: TypeAlias = etree._Element

_UNSHOWN_STYLE: Final = re.compile(
    r"display:none|visibility:(?:hidden|collapse)|opacity:0(?:\.0*)?(?![.\d])"
    r"|font-size:0(?:\.0*)?(?:px|em|rem|pt|%)?(?![.\d\w])|content-visibility:hidden"
    r"|(?:^|;)(?:max-)?(?:width|height):[01](?:px)?(?![.\d\w%])|(?:left|top|text-indent|right):-\d{3,}"
    r"|clip:rect\((?:0|1px)|clip-path:inset\((?:50|100)%|transform:scale\(0"
)
_SIMPLE_SELECTOR: Final = re.compile(r"(?:[a-z][a-z0-9]*)?([.#])(-?[_a-z][\w-]*)", re.IGNORECASE)
_MOST_RULES: Final = 20_000


def remove_unshown(root: Element) -> None:
    """Remove elements that a browser would not show as text: scripts, hidden elements, form controls.

    Rules in the page's style elements are applied only if their selector is one class or one id. External
    style sheets are not fetched.
    """
    classes, ids = _hidden_by_style_sheets(root)
    for element in list(root.iter(etree.Element)):
        if (element.tag in NEVER_TEXT and not _folds(element)) or _unshown(element, classes, ids):
            take_away(element)


def remove_frame(root: Element) -> None:
    """Remove navigation, banners, forms for cookies and newsletters, and similar elements.

    A text removed by mistake is lost, but a reader can skip noise. So an element stays if it has more than
    half of the page's text, or contains the main element or the heading. An element that is only named like a
    part of the frame also stays if it is in the main part, or does not consist mostly of links.
    """
    chars = count_chars(root)
    prose = count_chars(root, without_links=True)
    in_main = _in_main(root)
    bound = chars[root] // 2
    for element in list(root.iter(etree.Element)):
        if element.tag in WHOLE or chars[element] > bound:
            continue
        inside = element in in_main
        mostly_links = prose[element] * 2 <= chars[element]
        if not _is_noise(element, inside) and (inside or not _is_frame(element, mostly_links)):
            continue
        if next(element.iter("main", "article", "h1"), None) is None:
            take_away(element)


def count_chars(root: Element, *, without_links: bool = False) -> dict[Element, int]:
    """Return the number of text characters in every element, including its children."""
    elements = list(root.iter(etree.Element))
    counts = dict.fromkeys(elements, 0)
    for element in reversed(elements):
        counts[element] += _length(element.text)
        if without_links and element.tag == "a":
            counts[element] = 0
        parent = element.getparent()
        if parent is not None and parent in counts:
            counts[parent] += counts[element] + _length(element.tail)
    return counts


def take_away(element: Element) -> None:
    """Remove an element's content; the text after the element stays.

    An empty span replaces the element, because joining thousands of texts one by one would take quadratic
    time.
    """
    element.clear(keep_tail=True)
    element.tag = "span"


def names_of(element: Element) -> str:
    """Return an element's class and id in lower case."""
    return f"{element.get('class', '')} {element.get('id', '')}".lower()


def _length(text: str | None) -> int:
    return len(text.strip()) if text else 0


def _folds(element: Element) -> bool:
    return element.tag == "button" and next(element.iterancestors(*FOLDED), None) is not None


def _unshown(element: Element, classes: set[str], ids: set[str]) -> bool:
    attributes = element.attrib
    if element.tag == "dialog" and "open" not in attributes:
        return True
    if not attributes:
        return False
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        # An image with aria-hidden is visible all the same: the formulas of many wikis are such images.
        return element.tag not in WHOLE and ("hidden" in attributes or element.tag != "img")
    style = attributes.get("style")
    if style and element.tag not in WHOLE and _UNSHOWN_STYLE.search("".join(style.lower().split())):
        return True
    own = set(str(attributes.get("class", "")).split())
    if element.tag in WHOLE:
        return False
    return bool(own & UNSHOWN_CLASS or own & classes or attributes.get("id") in ids)


def _is_noise(element: Element, inside: bool) -> bool:
    if element.get("role") in NOISE_ROLES or element.get("aria-modal") == "true":
        return True
    return element.tag in NAMEABLE and _named(element, NOISE_NAMES, inside)


def _is_frame(element: Element, mostly_links: bool) -> bool:
    if element.get("role") == "note":
        return False
    if element.tag in FRAME or element.get("role") in FRAME_ROLES or element.tag == "header":
        return True
    if element.tag == "aside":
        return not NOTES.search(names_of(element))
    if element.tag not in NAMEABLE:
        return False
    return _named(element, FRAME_NAMES if mostly_links else FOOTER_NAMES, inside=False)


def _named(element: Element, names: re.Pattern[str], inside: bool) -> bool:
    # Sites derive the ids of sections from their headings, and a text may be about cookies.
    class_names = element.get("class", "") if inside or element.tag in HEADED else names_of(element)
    return any(
        names.search(name) and not CONTENT_NAMES.fullmatch(name) for name in class_names.lower().split()
    )


def _in_main(root: Element) -> set[Element]:
    """Return all elements inside the element that the page marks as its main part."""
    found: set[Element] = set()
    for element in root.iter(etree.Element):
        named = element.tag in ("main", "article") or element.get("role") == "main"
        if named or element in found or element.get("id", "").lower() in MAIN_IDS:
            found.update(element.iterchildren(etree.Element))
    return found


def _hidden_by_style_sheets(root: Element) -> tuple[set[str], set[str]]:
    classes: set[str] = set()
    ids: set[str] = set()
    for selector in _hiding_selectors(root):
        found = _SIMPLE_SELECTOR.fullmatch(selector)
        if found:
            (classes if found[1] == "." else ids).add(found[2])
    return classes, ids


def _hiding_selectors(root: Element) -> Iterator[str]:
    for sheet in root.iter("style"):
        if "print" in sheet.get("media", ""):
            continue
        for rule in (sheet.text or "").split("}")[:_MOST_RULES]:
            before, brace, declarations = rule.rpartition("{")
            # Another brace before this one opens a block around the rule, such as a media query.
            if not brace or "{" in before or "@" in before:
                continue
            if _UNSHOWN_STYLE.search("".join(declarations.lower().split())):
                yield from (selector.strip() for selector in before.split(","))
