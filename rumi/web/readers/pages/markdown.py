"""Conversion of elements to Markdown. This module simplifies the elements; html-to-markdown converts them."""

import re
from collections.abc import Callable
from typing import Any, Final

import html_to_markdown
from lxml import etree

from rumi.web.readers.pages.hrefs import Hrefs
from rumi.web.readers.pages.names import GUTTER, LANGUAGE, NO_LANGUAGE
from rumi.web.readers.pages.pruning import Element, take_away

_TICKS: Final = re.compile("`{50,}")
_DEEPEST: Final = 200
_MOST_COLUMNS: Final = 50
_NOT_IN_CELLS: Final = ("table", "pre", "h1", "h2", "h3", "article", "section", "form", "blockquote")
_BESIDE_HEADINGS: Final = ("¶", "#", "§", "🔗")
_OPTIONS: Final = html_to_markdown.ConversionOptions(
    bullets="-",
    compact_tables=True,
    expand_abbreviations=False,
    extract_metadata=False,
    hidden_content="all",  # hidden elements were removed before
    highlight_style="none",
    include_blockquote_citations=False,
    preprocessing=html_to_markdown.PreprocessingOptions(enabled=False),
)


def render(element: Element, hrefs: Hrefs) -> str:
    """Convert an element and its content to Markdown. Modifies the element."""
    _flatten(element)
    # From the innermost elements outwards, so that each function sees its children in their final form.
    for part in reversed(list(element.iter(etree.Element))):
        if part.tag == "a":
            _settle_link(part, hrefs)
        elif part.tag in _SETTLED:
            _SETTLED[part.tag](part)
    source = etree.tostring(element, method="html", encoding="unicode", with_tail=False)
    return (html_to_markdown.convert(source, _OPTIONS).content or "").strip("\n")


def _flatten(element: Element) -> None:
    """Replace each element that is nested too deeply with its text."""
    level = [element]
    for _ in range(_DEEPEST):
        level = [child for parent in level for child in parent.iterchildren(etree.Element)]
    for deepest in level:
        _become(deepest, " ".join(deepest.itertext()))


def _become(element: Element, text: str) -> None:
    """Replace an element with a span that contains the text.

    The span avoids joining many texts one by one, which would take quadratic time.
    """
    element.clear(keep_tail=True)
    element.tag, element.text = "span", text


def _unwrap(element: Element) -> None:
    element.tag = "span"
    element.attrib.clear()


def _settle_link(element: Element, hrefs: Hrefs) -> None:
    label = "".join(element.itertext()).strip()
    href = hrefs.absolute(element.get("href"))
    if label in _BESIDE_HEADINGS:
        take_away(element)
    elif href is None or not label:
        _unwrap(element)
    else:
        element.attrib.clear()
        element.set("href", href)
        for part in element.iter(etree.Element):
            part.text = _without_brackets(part.text)
            if part is not element:
                part.tail = _without_brackets(part.tail)


def _without_brackets(text: str | None) -> str | None:
    return text.replace("[", "(").replace("]", ")") if text else text


def _settle_picture(element: Element) -> None:
    words = " ".join(element.get("alt", "").split())
    _become(element, f" {words[:300]} " if words else "")


def _settle_formula(element: Element) -> None:
    """Replace a formula with its TeX source if the page contains it, otherwise with its text."""
    notes = (note for note in element.iter("annotation") if "tex" in note.get("encoding", ""))
    written = element.get("alttext") or next((note.text for note in notes), None)
    _become(element, written or "".join(element.itertext()))


def _settle_superscript(element: Element) -> None:
    words = "".join(element.itertext()).strip()
    if words.isalnum() and len(words) < 4 and element.find(".//a") is None:
        _become(element, f"^{words}")


def _settle_quotation(element: Element) -> None:
    element.text = f"“{(element.text or '').lstrip()}"
    if len(element):
        element[-1].tail = f"{(element[-1].tail or '').rstrip()}”"
    else:
        element.text = f"{element.text.rstrip()}”"
    _unwrap(element)


def _settle_code(element: Element) -> None:
    if next(element.iterancestors("pre"), None) is not None:
        return
    text = "".join(element.itertext())
    tail = element.tail
    element.clear()
    element.tag, element.text, element.tail = "code", text, tail


def _settle_listing(element: Element) -> None:
    for part in list(element.iter(etree.Element)):
        if part is element:
            continue
        if part.tag == "br":
            part.tail = "\n" + (part.tail or "")
        elif GUTTER.search(f"{part.get('class', '')} {part.get('id', '')}") and not part.get("data-line"):
            _become(part, "")
    language = _language(element)
    text = _TICKS.sub("`" * 50, "".join(element.itertext()).strip("\n").rstrip())
    tail = element.tail
    element.clear()
    element.tail = tail
    code = etree.SubElement(element, "code", {"class": f"language-{language}"} if language else {})
    code.text = text


def _language(element: Element) -> str:
    for part in (element, *element.iterchildren("code"), *list(element.iterancestors())[:2]):
        found = LANGUAGE.search(part.get("class", ""))
        if found and found[1].lower() not in NO_LANGUAGE:
            return str(found[1].lower())
        if part.get("data-lang"):
            return re.sub(r"[^a-z0-9+#_-]", "", part.get("data-lang", "").lower())[:20]
    return ""


def _settle_term(element: Element) -> None:
    element.tag = "p"
    if next(element.iter("b", "strong", "code"), None) is None and "".join(element.itertext()).strip():
        bold = etree.Element("b")
        bold.text, element.text = element.text, None
        bold.extend(list(element))
        element.append(bold)


def _settle_block(element: Element) -> None:
    element.tag = "div"


def _settle_table(element: Element) -> None:
    """Replace a layout table with its content; simplify a data table for Markdown."""
    rows = [row for row in element.iter("tr") if next(row.iterancestors("table"), None) is element]
    if not _is_data(element, rows):
        parts = list(element.iter("thead", "tbody", "tfoot", "tr", "td", "th", "caption"))
        for part in [part for part in parts if next(part.iterancestors("table"), None) is element]:
            part.tag = "div"
        element.tag = "div"
        return
    for cell in element.iter("td", "th"):
        for span in ("colspan", "rowspan"):
            cell.set(span, str(min(_number(cell.get(span)), _MOST_COLUMNS)))
        for item in list(cell.iter("li"))[:-1]:
            item.append(etree.Element("span"))
            item[-1].tail = ";"


def _is_data(element: Element, rows: list[Element]) -> bool:
    """Return True for a data table, False for a layout table."""
    if element.get("role") in ("presentation", "none"):
        return False
    if any(part is not element for part in element.iter(*_NOT_IN_CELLS)):
        return False
    if next(element.iter("th", "caption"), None) is not None:
        return True
    return sum(1 for row in rows[:50] if len(row) > 1) >= 2


def _number(text: str | None) -> int:
    return int(text[:6]) if text and text.isascii() and text.isdigit() and int(text[:6]) > 0 else 1


_SETTLED: Final[dict[Any, Callable[[Element], None]]] = {
    "code": _settle_code,
    "dd": _settle_block,
    "dl": _settle_block,
    "dt": _settle_term,
    "img": _settle_picture,
    "kbd": _settle_code,
    "math": _settle_formula,
    "pre": _settle_listing,
    "q": _settle_quotation,
    "samp": _settle_code,
    "sup": _settle_superscript,
    "table": _settle_table,
    "tt": _settle_code,
}
