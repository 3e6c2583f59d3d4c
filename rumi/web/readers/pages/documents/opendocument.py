"""Conversion of OpenDocument files (`odt`, `ods`, `odp`, their templates and flat forms) to text."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from lxml import etree

from rumi.web.readers.pages.documents.drawings import picture_name
from rumi.web.readers.pages.documents.lines import (
    MOST_CELL_CHARS,
    MOST_COLUMNS,
    Lines,
    NoDocumentError,
    Reading,
    column_name,
    in_cell,
    names,
    row,
    trimmed,
)
from rumi.web.readers.pages.documents.package import (
    LOCKED,
    Element,
    Package,
    all_named,
    attribute,
    child,
    children,
    local,
    whole_number,
)

_MOST_DEPTH: Final = 60
_MOST_SPACES: Final = 100
_MOST_REPEATED_ROWS: Final = 20
_BETWEEN_CHECKS: Final = 500
_SHAPES: Final = names("frame custom-shape rect g")
_NO_TEXT: Final = names(
    "tracked-changes sequence-decls variable-decls user-field-decls event-listeners table-source"
    " forms scripts settings soft-page-break bookmark bookmark-start bookmark-end shapes alphabetical-"
    " index-mark toc-mark named-expressions database-ranges content-validations calculation-settings"
    " label-ranges data-pilot-tables table-columns table-column"
)


def open_document_lines(package: Package, reading: Reading) -> Lines:
    """Yield the headings, paragraphs, tables, slides and sheets of an OpenDocument file.

    Raises:
        NoDocumentError: The content is encrypted or cannot be read.
    """
    if b"encryption-data" in (package.read("META-INF/manifest.xml") or b""):
        raise NoDocumentError(LOCKED)
    root = package.xml("content.xml", reading.losses)
    if root is None:
        raise NoDocumentError("its main part is broken")
    styles = package.xml("styles.xml", reading.losses) if "styles.xml" in package else None
    yield from _Document(package, reading, [root] if styles is None else [root, styles]).lines(root)


def flat_open_document_lines(root: Element, reading: Reading) -> Lines:
    """Yield the same of a document that is one XML file."""
    yield from _Document(Package({}), reading, [root]).lines(root)


class _Document:
    def __init__(self, package: Package, reading: Reading, roots: list[Element]) -> None:
        self._package = package
        self._losses = reading.losses
        self._roots = roots
        self._notes: list[str] = []
        self._unseen = {
            attribute(style, "name")
            for root in roots
            for style in all_named(root, "style")
            if any(attribute(found, "display") == "none" for found in children(style, "text-properties"))
        }
        self._hidden = {
            attribute(style, "name")
            for root in roots
            for style in all_named(root, "style")
            for properties in style
            if attribute(properties, "display") == "false" or attribute(properties, "visibility") == "hidden"
        }

    def lines(self, root: Element) -> Lines:
        body = next(all_named(root, "body"), None)
        if body is None:
            raise NoDocumentError("it has no text that can be read")
        _remove_deleted(body)
        yield from self._around("header")
        yield from self._blocks(body, 0)
        yield from self._notes
        yield from self._around("footer")

    def _around(self, kind: str) -> Iterator[str]:
        """Yield the headers or the footers of the pages, each text once."""
        said = set[str]()
        for root in self._roots:
            for place in all_named(root, kind, f"{kind}-left", f"{kind}-first"):
                if attribute(place, "display") == "false" or local(place.getparent()) != "master-page":
                    continue
                text = "\n".join(line for line in self._blocks(place, 0) if line and line.strip())
                if text and text not in said:
                    said.add(text)
                    yield f"{kind.title()}: {text}"

    def _blocks(self, parent: Element, depth: int) -> Lines:
        if depth > _MOST_DEPTH:
            self._losses.add("part nested too deeply", "parts nested too deeply")
            return
        slides = 0
        for element in parent:
            match local(element):
                case "h":
                    level = max(1, min(6, whole_number(attribute(element, "outline-level"), 1)))
                    yield from self._paragraph(element, f"{'#' * level} ")
                case "p":
                    yield from self._paragraph(element, "")
                case "table":
                    yield from self._table(element, depth)
                case "page":
                    slides += 1
                    hidden = " (hidden)" if attribute(element, "style-name") in self._hidden else ""
                    yield f"## Slide {slides}{hidden}"
                    yield from self._blocks(element, depth + 1)
                case "notes":
                    text = "\n".join(
                        line for line in self._blocks(element, depth + 1) if line and line.strip()
                    )
                    if text:
                        yield f"Notes: {text}"
                case "tracked-changes":
                    for _ in all_named(element, "deletion"):
                        self._losses.add("tracked deletion")
                case "forms":
                    yield from _fields(element)
                case "frame":
                    yield from self._frame(element, depth)
                case "annotation":
                    yield self._annotation(element, "")
                case "page-thumbnail":
                    pass
                case name if name not in _NO_TEXT and len(element):
                    yield from self._blocks(element, depth + 1)

    def _paragraph(self, element: Element, prefix: str) -> Iterator[str]:
        beside: list[str] = []
        text = "".join(self._inline(element, beside, 0))
        if text.strip() or not beside:
            yield f"{prefix}{text}"
        yield from beside

    def _inline(self, element: Element, beside: list[str], depth: int) -> Iterator[str]:
        """Yield the pieces of a paragraph's text; add what stands beside the paragraph to `beside`."""
        if depth > _MOST_DEPTH:
            self._losses.add("part nested too deeply", "parts nested too deeply")
            return
        yield _collapsed(element.text)
        for inner in element:
            match local(inner):
                case "s":
                    yield " " * min(_MOST_SPACES, whole_number(attribute(inner, "c"), 1))
                case "tab":
                    yield "\t"
                case "line-break":
                    yield "\n"
                case "note":
                    yield self._footnote(inner)
                case "annotation":
                    self._notes.append(self._annotation(inner, f"[comment {len(self._notes) + 1}]"))
                    yield f"[comment {len(self._notes)}]"
                case "span" if attribute(inner, "style-name") in self._unseen:
                    text = "".join(self._inline(inner, beside, depth + 1))
                    yield f"[hidden: {text}]" if text.strip() else ""
                case "a":
                    yield self._link(inner, beside, depth)
                case "ruby-text":
                    yield f"({''.join(inner.itertext())})"
                case name if name in _SHAPES:
                    beside += [line for line in self._frame(inner, depth + 1) if line]
                case name if name not in _NO_TEXT:
                    yield from self._inline(inner, beside, depth + 1)
            yield _collapsed(inner.tail)

    def _link(self, element: Element, beside: list[str], depth: int) -> str:
        text, address = "".join(self._inline(element, beside, depth + 1)), attribute(element, "href")
        known = (
            not address.startswith(("http:", "https:", "mailto:"))
            or not text.strip()
            or text.strip() in address
        )
        return text if known else f"[{text}]({address})"

    def _footnote(self, note: Element) -> str:
        label = child(note, "note-citation")
        body = child(note, "note-body")
        name = (label.text if label is not None else None) or str(len(self._notes) + 1)
        text = " ".join(line for line in self._blocks([] if body is None else body, 0) if line)
        self._notes.append(f"[^{name}]: {text}")
        return f"[^{name}]"

    def _annotation(self, element: Element, label: str) -> str:
        author = child(element, "creator")
        by = f" {author.text}" if author is not None and author.text else ""
        text = " ".join("".join(found.itertext()) for found in all_named(element, "p"))
        return f"{label or '[comment]'}{by}: {' '.join(text.split())}"

    def _frame(self, frame: Element, depth: int) -> Lines:
        """Yield what a frame shows: a text, a table, the description of a picture, or a chart."""
        if local(frame) not in ("frame",):
            yield from self._blocks(frame, depth + 1)
            return
        objects = [*children(frame, "object"), *children(frame, "object-ole")]
        if objects:
            yield from self._object(objects[0], depth)
            return
        lines = [line for line in self._blocks(frame, depth + 1) if line and line.strip()]
        if lines:
            beside = child(frame, "text-box") is not None and local(frame.getparent()) not in (
                "page",
                "notes",
                "g",
            )
            yield from ([f"[text box] {lines[0]}", *lines[1:]] if beside else lines)
        elif child(frame, "image") is not None:
            title = child(frame, "desc")
            title = child(frame, "title") if title is None else title
            picture_name(frame, self._losses)
            if title is not None and title.text:
                yield f"[picture: {' '.join(title.text.split())[:300]}]"

    def _object(self, element: Element, depth: int) -> Lines:
        """Yield the table of a chart's values, or the text of another object."""
        name = attribute(element, "href").removeprefix("./").rstrip("/")
        part = f"{name}/content.xml"
        inner = child(element, "document")
        if inner is None and name and part in self._package:
            inner = self._package.xml(part, self._losses)
        # The innermost one: the body of such a document has the same name.
        chart = None if inner is None else next(reversed([*all_named(inner, "chart")]), None)
        if inner is None or depth > _MOST_DEPTH:
            self._losses.add("embedded object")
        elif chart is not None:
            title = child(chart, "title")
            yield f"[chart] {'' if title is None else ' '.join(''.join(title.itertext()).split())}".rstrip()
            for table in children(chart, "table"):
                yield from self._table(table, depth + 1, named=False)
        else:
            body = next(all_named(inner, "body"), inner)
            yield from self._blocks(body, depth + 1)

    def _table(self, table: Element, depth: int, *, named: bool = True) -> Lines:
        """Yield the rows; those of a sheet have a heading, and comments behind them."""
        is_sheet = named and local(table.getparent()) == "spreadsheet"
        if is_sheet:
            hidden = " (hidden)" if attribute(table, "style-name") in self._hidden else ""
            yield f"## Sheet {attribute(table, 'name')}{hidden}"
            yield from _hidden_columns(table)
        comments: list[str] = []
        number = 0
        for line in _through(table, "table-row", 0):
            repeated = max(1, whole_number(attribute(line, "number-rows-repeated"), 1))
            cells = self._cells(line, number, comments, depth)
            shown = trimmed(cells) if is_sheet else cells
            if any(shown) or (not is_sheet and shown):
                text = row(shown)
                if attribute(line, "visibility") in ("collapse", "filter"):
                    text += " (hidden row)"
                yield from [text] * min(repeated, _MOST_REPEATED_ROWS)
                if repeated > _MOST_REPEATED_ROWS:
                    yield f"(the same in {repeated - _MOST_REPEATED_ROWS:,} more rows)"
            number += repeated
            if number % _BETWEEN_CHECKS == 0:
                yield None
        yield from comments
        for shapes in children(table, "shapes"):
            yield from self._blocks(shapes, depth + 1)

    def _cells(self, line: Element, number: int, comments: list[str], depth: int) -> list[str]:
        cells: list[str] = []
        beyond = 0
        for cell in _through(line, "table-cell", 0, "covered-table-cell"):
            repeated = max(1, whole_number(attribute(cell, "number-columns-repeated"), 1))
            text = "" if local(cell) == "covered-table-cell" else self._cell(cell, depth)
            for note in children(cell, "annotation"):
                place = f"{column_name(min(len(cells), 20_000))}{number + 1}"
                comments.append(self._annotation(note, f"Comment on {place}"))
            for shape in cell:
                if local(shape) in _SHAPES:  # it lies over the cells of a sheet
                    comments += filter(None, self._blocks([shape], depth + 1))
            room = max(0, MOST_COLUMNS - len(cells))
            beyond += bool(text) * max(0, repeated - room)
            cells += [text] * min(repeated, room)
        if beyond:
            self._losses.add("cell in a distant column", "cells in distant columns", beyond)
        return cells

    def _cell(self, cell: Element, depth: int) -> str:
        content = [element for element in cell if local(element) not in ("annotation", *_SHAPES)]
        if text := in_cell(islice(self._blocks(content, depth + 1), 10_000)):
            return text
        for name in ("string-value", "value", "date-value", "time-value", "boolean-value"):
            if value := attribute(cell, name):
                return value[:MOST_CELL_CHARS]
        formula = attribute(cell, "formula")
        return f"={formula.partition('=')[2]}"[:MOST_CELL_CHARS] if formula else ""


def _remove_deleted(body: Element) -> None:
    """Remove the texts between the marks of tracked deletions, which flat files leave in their place."""
    deleted = {
        attribute(region, "id")
        for region in all_named(body, "changed-region")
        if child(region, "deletion") is not None and attribute(region, "id")
    }
    if not deleted:
        return
    inside = set[str]()
    for event, element in etree.iterwalk(body, events=("start", "end")):
        match event, local(element):
            case "end", "change-start" if (change := attribute(element, "change-id")) in deleted:
                inside.add(change)
            case "end", "change-end":
                inside.discard(attribute(element, "change-id"))
            case "start", _ if inside:
                element.text = None
        if inside and event == "end":
            element.tail = None


def _through(parent: Element, name: str, depth: int, other: str = "") -> Iterator[Element]:
    """Yield the rows or the cells, also those within groups and headers."""
    for element in parent:
        found = local(element)
        if found in (name, other):
            yield element
        elif found not in ("table-cell", "covered-table-cell", "shapes") and depth < _MOST_DEPTH:
            yield from _through(element, name, depth + 1, other)


def _hidden_columns(table: Element) -> Iterator[str]:
    at, hidden = 0, list[str]()
    for column in _through(table, "table-column", 0):
        repeated = max(1, whole_number(attribute(column, "number-columns-repeated"), 1, most=20_000))
        if attribute(column, "visibility") in ("collapse", "filter") and len(hidden) < 50:
            first, last = column_name(at), column_name(at + repeated - 1)
            hidden.append(first if repeated == 1 else f"{first}-{last}")
        at = min(at + repeated, 20_000)
    if hidden:
        yield f"(hidden columns: {', '.join(hidden)})"


def _fields(forms: Element) -> Iterator[str]:
    """Yield the values in the fields of a form."""
    for control in all_named(forms, "text", "textarea", "checkbox", "radio", "combobox", "listbox", "date"):
        name = attribute(control, "label") or attribute(control, "name")
        value = attribute(control, "current-value") or attribute(control, "current-state")
        if value:
            yield f"[form field] {name}: {value[:MOST_CELL_CHARS]}"


def _collapsed(text: str | None) -> str:
    """Return a text as OpenDocument defines it: several white spaces are one."""
    if not text:
        return ""
    words = " ".join(text.split())
    return f"{' ' if text[0].isspace() else ''}{words}{' ' if words and text[-1].isspace() else ''}"
