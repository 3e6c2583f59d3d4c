"""Conversion of Excel workbooks (`xlsx`, `xlsm`, `xltx`, `xltm`) to text.

Only what shows values is read, so that a broken style, view, filter or name takes nothing else with it.
Sheets are read row by row, because the tree of a large sheet takes ten times its size.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Final

from lxml import etree

from rumi.web.readers.pages.documents.drawings import chart_lines, paragraphs, picture_name
from rumi.web.readers.pages.documents.lines import (
    MOST_CELL_CHARS,
    MOST_COLUMNS,
    Lines,
    Losses,
    NoDocumentError,
    Reading,
    column_name,
    row,
    trimmed,
)
from rumi.web.readers.pages.documents.number_formats import BUILT_IN, plain, shown
from rumi.web.readers.pages.documents.package import (
    Element,
    Package,
    all_named,
    attribute,
    child,
    children,
    local,
    shown_part,
    whole_number,
)

_MOST_SHEETS: Final = 1000
_MOST_STRING_CHARS: Final = 64_000_000
_MOST_COVERED: Final = 100_000
_MOST_COMMENTS: Final = 2000
_ROWS_BETWEEN_CHECKS: Final = 500
_CELL: Final = re.compile(r"\$?([A-Za-z]{1,3})\$?([0-9]{1,7})")
_MERGED: Final = re.compile(rb"<(?:\w+:)?mergeCell\s[^>]{0,100}?ref=[\"']([A-Z]+[0-9]+):([A-Z]+[0-9]+)[\"']")
_ESCAPED: Final = re.compile(r"_x([0-9A-Fa-f]{4})_")
_CODES: Final = re.compile(r"&(?:(&)|\"[^\"]*\"|K[0-9A-Fa-f]{6}|K\d\d[+-]\d{3}|\d{1,3}|[A-Za-z+-])")
_LAST_COLUMN: Final = f"column {column_name(MOST_COLUMNS - 1)}"
_SEEN: Final = ("", "1", "true", "on")


@dataclass(slots=True)
class _Book:
    package: Package
    losses: Losses
    strings: list[str] = field(default_factory=list)
    formats: list[str] = field(default_factory=list)
    since_1904: bool = False


def sheet_lines(package: Package, main: str, reading: Reading) -> Lines:
    """Yield the non-empty rows of each sheet as the sheet shows them, and its comments, texts and charts.

    A cell with a formula yields the formula's stored result, or the formula if it has none.
    """
    losses = reading.losses
    root = package.xml(main, losses)
    related = package.related(main, losses)
    sheets = _sheets(package, root, related)
    if not sheets:
        raise NoDocumentError("it has no sheets that can be read")
    book = _Book(package, losses)
    properties = None if root is None else child(root, "workbookPr")
    book.since_1904 = properties is not None and attribute(properties, "date1904") in _SEEN[1:]
    for kind, target in related.values():
        if kind == "sharedStrings":
            book.strings = _strings(package, target, losses)
        elif kind == "styles":
            book.formats = _formats(package, target, losses)
    for name, target, state in sheets[:_MOST_SHEETS]:
        yield f"## Sheet {name}{' (hidden)' if state.lower() in ('hidden', 'veryhidden') else ''}"
        yield from _sheet(book, target)
    if len(sheets) > _MOST_SHEETS:
        losses.add("sheet", count=len(sheets) - _MOST_SHEETS)


def plain_sheet_lines(root: Element) -> Lines:
    """Yield the non-empty rows of a workbook in the XML of Excel 2003, which is one part."""
    for sheet in all_named(root, "Worksheet"):
        yield f"## Sheet {attribute(sheet, 'Name')}"
        for line in all_named(sheet, "Row"):
            cells: list[str] = []
            for cell in children(line, "Cell"):
                at = whole_number(attribute(cell, "Index"), len(cells) + 1, most=MOST_COLUMNS)
                data = child(cell, "Data")
                cells += [""] * (at - 1 - len(cells))
                cells.append("" if data is None else "".join(data.itertext()))
            if cells := trimmed(cells):
                yield row(cells)


def _sheets(
    package: Package, root: Element | None, related: Mapping[str, tuple[str, str]]
) -> list[tuple[str, str, str]]:
    """Return the names, parts and states of the sheets. If the workbook lists none, return the parts."""
    listed = [] if root is None else list(all_named(root, "sheet"))
    sheets = [
        (
            attribute(sheet, "name"),
            related.get(attribute(sheet, "id"), ("", ""))[1],
            attribute(sheet, "state"),
        )
        for sheet in listed
    ]
    if any(target in package for _, target, _ in sheets):
        return sheets
    parts = [name for name in package.names if re.search(r"worksheets/[^/]+\.xml$", name)]
    parts.sort(key=lambda name: (len(name), name))
    names = [(name, state) for name, _, state in sheets] if len(sheets) == len(parts) else []
    names = names or [(str(number), "") for number in range(1, len(parts) + 1)]
    return [(name, part, state) for (name, state), part in zip(names, parts, strict=True)]


def _strings(package: Package, name: str, losses: Losses) -> list[str]:
    data, strings, left = package.xml_bytes(name, losses), list[str](), _MOST_STRING_CHARS
    for element in () if data is None else _elements(data, ("si",), losses, name):
        text = _text(element)
        left -= len(text)
        strings.append(text if left > 0 else "")
    return strings


def _text(element: Element) -> str:
    """Return the text of a string with runs, without the hints on how to pronounce it."""
    pieces = [
        found.text or ""
        for found in all_named(element, "t")
        if not any(local(above) == "rPh" for above in found.iterancestors())
    ]
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), "".join(pieces))[:MOST_CELL_CHARS]


def _elements(data: bytes, names: tuple[str, ...], losses: Losses, part: str) -> Iterator[Element]:
    """Yield the elements with these names one by one; each is cleared when the next one is asked for."""
    parser = etree.iterparse(
        BytesIO(data),
        events=("end",),
        tag=[f"{{*}}{name}" for name in names],
        recover=True,
        huge_tree=True,
        no_network=True,
        load_dtd=False,
        resolve_entities=False,
    )
    try:
        for _, element in parser:
            yield element
            element.clear()
            while (before := element.getprevious()) is not None:
                element.getparent().remove(before)
    except etree.XMLSyntaxError:
        losses.note(f"{shown_part(part)} is damaged, and was read in part")
        return
    if any(error.level == etree.ErrorLevels.FATAL for error in parser.error_log):
        losses.note(f"{shown_part(part)} is damaged, and was read in part")


def _formats(package: Package, name: str, losses: Losses) -> list[str]:
    """Return the code of the number format of each style of cells."""
    root = package.xml(name, losses)
    codes = dict(BUILT_IN)
    found = [] if root is None else list(root)
    for element in (code for group in found if local(group) == "numFmts" for code in group):
        codes[whole_number(attribute(element, "numFmtId"), -1)] = attribute(element, "formatCode")
    cells = (style for group in found if local(group) == "cellXfs" for style in children(group, "xf"))
    return [codes.get(whole_number(attribute(style, "numFmtId")), "") for style in cells]


def _sheet(book: _Book, name: str) -> Lines:
    data = book.package.xml_bytes(name, book.losses)
    if data is None:
        return
    covered = _covered(data)
    tops = set(covered.values())
    first: dict[tuple[int, int], str] = {}
    hidden: list[str] = []
    around: list[str] = []
    number, beyond, unread = 0, 0, 0
    for element in _elements(data, ("col", "row", "headerFooter"), book.losses, name):
        if local(element) == "col":
            if attribute(element, "hidden") in _SEEN[1:]:
                hidden.append(_span(element))
            continue
        if local(element) == "headerFooter":
            around += filter(None, map(_header, element))
            continue
        if hidden:
            yield f"(hidden columns: {', '.join(hidden[:50])})"
            hidden = []
        number = whole_number(attribute(element, "r"), number + 1)
        cells: list[str] = []
        for cell in children(element, "c"):
            place = _CELL.match(cell.get("r", ""))
            column = _column(place[1]) if place else len(cells)
            text, missing = _value(book, cell)
            unread += missing
            if column >= MOST_COLUMNS:
                beyond += bool(text)
                continue
            if (number, column) in tops:
                first[number, column] = text
            elif (over := covered.get((number, column))) is not None and first.get(over) == text:
                text = ""
            cells += [""] * (column + 1 - len(cells))
            cells[column] = text
        if cells := trimmed(cells):
            is_hidden = attribute(element, "hidden") in _SEEN[1:]
            yield row(cells) + (" (hidden row)" if is_hidden else "")
        elif number % _ROWS_BETWEEN_CHECKS == 0:
            yield None
    if beyond:
        book.losses.add(f"cell right of {_LAST_COLUMN}", f"cells right of {_LAST_COLUMN}", beyond)
    if unread:
        book.losses.note("formulas without a stored result are shown as formulas")
    yield from dict.fromkeys(around)
    yield from _beside(book, name)


def _header(element: Element) -> str:
    """Return the text of a sheet's header or footer without the codes of its fields and fonts."""
    text = " ".join(_CODES.sub(lambda found: found[1] or " ", element.text or "").split())
    kind = "Header" if local(element).lower().endswith("header") else "Footer"
    return f"{kind}: {text[:MOST_CELL_CHARS]}" if text else ""


def _span(element: Element) -> str:
    begin, end = (min(16_384, max(1, whole_number(attribute(element, side), 1))) for side in ("min", "max"))
    return column_name(begin - 1) if begin == end else f"{column_name(begin - 1)}-{column_name(end - 1)}"


def _column(letters: str) -> int:
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    return number - 1


def _place(reference: str) -> tuple[int, int]:
    found = _CELL.match(reference)
    return (int(found[2]), _column(found[1])) if found else (0, 0)


def _covered(data: bytes) -> dict[tuple[int, int], tuple[int, int]]:
    """Map each cell that a merged cell covers to the merged cell; some programs repeat its value in them."""
    covered: dict[tuple[int, int], tuple[int, int]] = {}
    for found in _MERGED.finditer(data):
        (top, left), (bottom, right) = (_place(found[side].decode()) for side in (1, 2))
        if (bottom - top + 1) * (right - left + 1) > _MOST_COVERED - len(covered):
            continue
        for line in range(top, bottom + 1):
            for column in range(left, right + 1):
                covered[line, column] = top, left
    for place in {*covered.values()}:
        covered.pop(place, None)
    return covered


def _value(book: _Book, cell: Element) -> tuple[str, bool]:
    """Return a cell's text, and True if it has a formula without a stored result."""
    kind = cell.get("t", "n")
    formula, raw = None, ""
    for part in cell:
        match local(part):
            case "v":
                raw = part.text or ""
            case "f":
                formula = part
            case "is" if text := _text(part):
                return text, False
    if not raw.strip() and kind != "str":
        if formula is None:
            return "", False
        return (f"={formula.text}"[:MOST_CELL_CHARS] if formula.text else "(a formula)"), True
    match kind:
        case "s":
            place = whole_number(raw, -1)
            if 0 <= place < len(book.strings):
                return book.strings[place], False
            book.losses.add("text whose part is missing", "texts whose part is missing")
            return "", False
        case "b":
            return ("TRUE" if raw.strip() in ("1", "true") else "FALSE"), False
        case "n":
            return _number(book, raw, cell.get("s", "")), False
        case _:
            return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), raw)[:MOST_CELL_CHARS], False


def _number(book: _Book, raw: str, style: str) -> str:
    try:
        number = float(raw)
    except ValueError:
        return raw[:MOST_CELL_CHARS]
    if not math.isfinite(number):
        return raw.strip()
    place = whole_number(style)
    code = book.formats[place] if 0 <= place < len(book.formats) else ""
    return shown(number, code, since_1904=book.since_1904) if code else plain(number)


def _beside(book: _Book, name: str) -> Lines:
    """Yield what a sheet has beside its cells: comments, and texts and charts of its drawings."""
    related = book.package.related(name, book.losses)
    kinds = {kind for kind, _ in related.values()}
    for kind, target in related.values():
        if kind == "threadedComment" or (kind == "comments" and "threadedComment" not in kinds):
            yield from _comments(book, target)
        elif kind == "drawing":
            yield from _drawing(book, target)
        elif kind == "oleObject":
            book.losses.add("embedded object")


def _comments(book: _Book, name: str) -> Iterator[str]:
    root = book.package.xml(name, book.losses)
    if root is None:
        return
    authors = [found.text or "" for found in all_named(root, "author")]
    for number, comment in enumerate(all_named(root, "comment", "threadedComment")):
        if number >= _MOST_COMMENTS:
            book.losses.add("comment")
            continue
        text = child(comment, "text")
        words = " ".join(("" if text is None else text.text or _text(text)).split())
        author = whole_number(attribute(comment, "authorId"), -1)
        by = f" ({authors[author]})" if 0 <= author < len(authors) and authors[author] else ""
        if words:
            yield f"Comment on {attribute(comment, 'ref')}{by}: {words}"


def _drawing(book: _Book, name: str) -> Iterator[str]:
    root = book.package.xml(name, book.losses)
    if root is None:
        return
    related = book.package.related(name, book.losses)
    for element in all_named(root, "chart", "txBody", "pic"):
        if any(local(above) == "Fallback" for above in element.iterancestors()):
            continue
        match local(element):
            case "chart":
                target = related.get(attribute(element, "id"), ("", ""))[1]
                yield from chart_lines(book.package, target, book.losses)
            case "txBody":
                if text := "\n".join(paragraphs(element)):
                    yield f"[text box] {text}"
            case _:
                if said := picture_name(element, book.losses):
                    yield said
