"""Conversion of Word documents (`docx`, `docm`, `dotx`, `dotm`, and the XML of Word 2003) to text.

The walk goes through all elements but those that it knows to be no text, so that the text in a wrapper that
it does not know (content controls, smart tags, fields, tracked insertions, whatever comes next) is kept.
"""

import re
from collections.abc import Iterator
from typing import Final

from rumi.web.readers.pages.documents.drawings import (
    chart_lines,
    chosen,
    diagram_lines,
    picture_name,
)
from rumi.web.readers.pages.documents.lines import (
    Lines,
    NoDocumentError,
    Reading,
    in_cell,
    names,
    row,
)
from rumi.web.readers.pages.documents.package import (
    Element,
    Package,
    all_named,
    attribute,
    child,
    children,
    local,
    whole_number,
    words_in,
)

_MOST_DEPTH: Final = 60
_MOST_SPAN: Final = 100
_OFF: Final = ("0", "false", "off", "none")
_NO_TEXT: Final = names(
    "pPr rPr sectPr tblPr tblGrid trPr tcPr sdtPr sdtEndPr customXmlPr smartTagPr fldData instrText"
    " delInstrText proofErr bookmarkStart bookmarkEnd permStart permEnd lastRenderedPageBreak"
    " annotationRef footnoteRef endnoteRef separator continuationSeparator softHyphen binData docPr"
    " styles fonts lists tblPrEx commentRangeStart commentRangeEnd DocumentProperties"
)
_REMOVED: Final = ("del", "moveFrom")
_SYMBOLS: Final = {
    "F0FE": "☒", "F0FD": "☒", "F053": "☒", "F054": "☒", "F051": "☒", "F078": "☒",
    "F0A8": "☐", "F06F": "☐", "F0A3": "☐", "F071": "☐", "F072": "☐",
    "F0FC": "✓", "F050": "✓", "F052": "☑", "F0FB": "✗",
    "F0B7": "•", "F0A7": "▪", "F0E0": "→", "F0E8": "→", "F0DF": "←", "F04A": "☺",
}  # fmt: skip
"""Characters of Microsoft's symbol fonts that stand for something: boxes of forms, bullets, arrows."""

_HEADING: Final = re.compile(r"heading ([1-6])", re.IGNORECASE)


def word_lines(package: Package, main: str, reading: Reading) -> Lines:
    """Yield the paragraphs, tables and notes of a Word document in order."""
    root = package.xml(main, reading.losses)
    if root is None:
        raise NoDocumentError("its main part is broken")
    yield from _Story(package, main, reading).whole(root)


def plain_word_lines(root: Element, reading: Reading) -> Lines:
    """Yield the text of a document in the XML of Word 2003, which is one part."""
    yield from _Story(Package({}), "", reading).whole(root)


class _Story:
    """One part of a document: its main text, or its headers, notes or comments."""

    def __init__(
        self, package: Package, name: str, reading: Reading, levels: dict[str, int] | None = None
    ) -> None:
        self._package = package
        self._name = name
        self._reading = reading
        self._losses = reading.losses
        self._related = package.related(name, reading.losses)
        self._levels = self._heading_levels() if levels is None else levels

    def whole(self, root: Element) -> Lines:
        """Yield the text of the main part, and of the parts around it."""
        body = next(all_named(root, "body"), root)
        places = {
            attribute(reference, "id"): attribute(reference, "type")
            for reference in all_named(body, "headerReference", "footerReference")
            if attribute(reference, "id") in self._related
        }
        yield from self._around("header", places)
        yield from self._blocks(body, 0)
        for kind, mark in (("footnotes", ""), ("endnotes", "e")):
            yield from self._notes(kind, f"[^{mark}%s]: ")
        yield from self._notes("comments", "[comment %s]")
        yield from self._around("footer", places)

    def _around(self, kind: str, places: dict[str, str]) -> Iterator[str]:
        """Yield the headers or the footers, each text once."""
        said = set[str]()
        for key, (found, target) in self._related.items():
            if found != kind or (places and key not in places):
                continue
            root = self._package.xml(target, self._losses)
            if root is None:
                continue
            story = _Story(self._package, target, self._reading, self._levels)
            text = "\n".join(line for line in story._blocks(root, 0) if line.strip())
            place = {"first": " (first page)", "even": " (even pages)"}.get(places.get(key, ""), "")
            if text and text not in said:
                said.add(text)
                yield f"{kind.title()}{place}: {text}"

    def _notes(self, kind: str, label: str) -> Iterator[str]:
        """Yield the footnotes, endnotes or comments."""
        for found, target in self._related.values():
            if found != kind or (root := self._package.xml(target, self._losses)) is None:
                continue
            story = _Story(self._package, target, self._reading, self._levels)
            for note in root:
                if attribute(note, "type") in ("separator", "continuationSeparator", "continuationNotice"):
                    continue
                text = " ".join(line.strip() for line in story._blocks(note, 0) if line.strip())
                author = attribute(note, "author")
                by = f" {author}: " if kind == "comments" and author else ": " if kind == "comments" else ""
                if text:
                    yield f"{label % attribute(note, 'id')}{by}{text}"

    def _heading_levels(self) -> dict[str, int]:
        """Return the level of the headings' styles by the style's id."""
        levels: dict[str, int] = {}
        for found, target in self._related.values():
            if found != "styles" or (root := self._package.xml(target, self._losses)) is None:
                continue
            for style in children(root, "style"):
                name = child(style, "name")
                if name is not None and (heading := _HEADING.fullmatch(attribute(name, "val"))):
                    levels[attribute(style, "styleId")] = int(heading[1])
        return levels

    def _blocks(self, parent: Element, depth: int) -> Iterator[str]:
        if depth > _MOST_DEPTH:
            self._losses.add("part nested too deeply", "parts nested too deeply")
            return
        for element in parent:
            name = local(element)
            if name == "p":
                yield from self._paragraph(element, depth)
            elif name == "tbl":
                yield from ("", *self._rows(element, depth), "")
            elif name == "altChunk":
                yield from self._chunk(element)
            elif name == "AlternateContent":
                yield from self._blocks_chosen(element, depth)
            elif name in _REMOVED:
                self._losses.add("tracked deletion")
            elif name not in _NO_TEXT and len(element):
                yield from self._blocks(element, depth + 1)
            elif name == "t" and element.text:  # text outside of a paragraph, which Word would not write
                yield element.text

    def _blocks_chosen(self, element: Element, depth: int) -> Iterator[str]:
        for choice in chosen(element):
            if lines := list(self._blocks(choice, depth + 1)):
                yield from lines
                return

    def _paragraph(self, element: Element, depth: int) -> Iterator[str]:
        beside: list[str] = []
        text = "".join(self._inline(element, beside, depth))
        if text.strip():
            style = child(element, "pPr", "pStyle")
            outline = child(element, "pPr", "outlineLvl")
            level = self._levels.get("" if style is None else attribute(style, "val"), 0)
            if not level and outline is not None:
                level = whole_number(attribute(outline, "val"), 9) + 1
            yield f"{'#' * level} {text.strip()}" if 0 < level <= 6 else text
        yield from beside

    def _inline(self, parent: Element, beside: list[str], depth: int) -> Iterator[str]:
        """Yield the pieces of a paragraph's text; add what stands beside the paragraph to `beside`."""
        if depth > _MOST_DEPTH:
            self._losses.add("part nested too deeply", "parts nested too deeply")
            return
        for element in parent:
            name = local(element)
            match name:
                case "t":
                    yield element.text or ""
                case "r":
                    yield from self._run(element, beside, depth)
                case "tab" | "ptab":
                    yield "\t"
                case "br" | "cr":
                    yield "\n"
                case "noBreakHyphen":
                    yield "-"
                case "sym":
                    yield self._symbol(attribute(element, "char").upper())
                case "del" | "moveFrom" | "delText":
                    self._losses.add("tracked deletion")
                case "hyperlink":
                    yield from self._hyperlink(element, beside, depth)
                case "fldChar":
                    yield from _field_of_form(element)
                case "oMath" | "oMathPara":
                    yield words_in(element, "t")
                case "rt":
                    yield f"({''.join(self._inline(element, beside, depth + 1))})"
                case "footnoteReference" | "endnoteReference":
                    yield f"[^{'e' * (name == 'endnoteReference')}{attribute(element, 'id')}]"
                case "commentReference":
                    yield f"[comment {attribute(element, 'id')}]"
                case "AlternateContent":
                    yield from self._inline_chosen(element, beside, depth)
                case "drawing" | "pict" | "object":
                    yield from self._drawing(element, beside, depth)
                case "p" | "tbl":
                    beside += self._blocks([element], depth + 1)
                case _ if name not in _NO_TEXT and len(element):
                    yield from self._inline(element, beside, depth + 1)

    def _run(self, element: Element, beside: list[str], depth: int) -> Iterator[str]:
        pieces = self._inline(element, beside, depth + 1)
        hidden = child(element, "rPr", "vanish")
        if hidden is None or attribute(hidden, "val", "1") in _OFF:
            yield from pieces
        elif (text := "".join(pieces)).strip():
            yield f"[hidden: {text}]"

    def _inline_chosen(self, element: Element, beside: list[str], depth: int) -> Iterator[str]:
        for choice in chosen(element):
            more: list[str] = []
            if (text := "".join(self._inline(choice, more, depth + 1))) or more:
                beside += more
                yield text
                return

    def _hyperlink(self, element: Element, beside: list[str], depth: int) -> Iterator[str]:
        text = "".join(self._inline(element, beside, depth + 1))
        kind, address = self._related.get(attribute(element, "id"), ("", ""))
        if kind == "hyperlink" and text.strip() and address and text.strip() not in address:
            yield f"[{text}]({address})"
        else:
            yield text

    def _symbol(self, code: str) -> str:
        number = int(code, 16) if re.fullmatch(r"[0-9A-F]{1,4}", code) else 0
        if code in _SYMBOLS:
            return _SYMBOLS[code]
        if 32 <= number < 0xD800:
            return chr(number)
        self._losses.add("character of a symbol font", "characters of symbol fonts")
        return "□"

    def _drawing(self, element: Element, beside: list[str], depth: int) -> Iterator[str]:
        """Add text boxes, charts and diagrams to `beside`; yield the description of a picture."""
        boxes = list(_outermost(element, "txbxContent"))
        for box in boxes:
            lines = [line for line in self._blocks(box, depth + 1) if line.strip()]
            beside += [f"[text box] {lines[0]}", *lines[1:]] if lines else []
        # The letters of old WordArt, such as a watermark, are an attribute.
        for path in () if boxes else all_named(element, "textpath"):
            if (text := attribute(path, "string")).strip():
                boxes.append(path)
                beside.append(f"[text box] {text}")
        found = bool(boxes)
        for frame in all_named(element, "chart", "relIds"):
            found = True
            key = attribute(frame, "dm" if local(frame) == "relIds" else "id")
            target = self._related.get(key, ("", ""))[1]
            read = diagram_lines if local(frame) == "relIds" else chart_lines
            beside += read(self._package, target, self._losses)
        if next(all_named(element, "OLEObject"), None) is not None:
            self._losses.add("embedded object")
        elif not found and next(all_named(element, "blip", "imagedata"), None) is not None:
            yield picture_name(element, self._losses)

    def _chunk(self, element: Element) -> Iterator[str]:
        """Yield the text of a document within this one, which Word would merge when it opens the file."""
        target = self._related.get(attribute(element, "id"), ("", ""))[1]
        data = self._package.read(target)
        if not data:
            self._losses.add("inserted document")
            return
        try:
            yield from (line for line in self._reading.nested(data, target) if line is not None)
        except NoDocumentError:
            self._losses.add("inserted document")

    def _rows(self, table: Element, depth: int) -> Iterator[str]:
        for line in _through(table, "tr"):
            if child(line, "trPr", "del") is not None:
                self._losses.add("tracked deletion")
                continue
            cells: list[str] = [""] * self._grid(line, "gridBefore")
            for cell in _through(line, "tc"):
                # The cells that a merged cell covers are there, and empty.
                text = in_cell(self._blocks(cell, depth + 1))
                cells += [text, *[""] * (self._grid(cell, "gridSpan", "tcPr") - 1)]
            yield row(cells)

    def _grid(self, element: Element, name: str, properties: str = "trPr") -> int:
        found = child(element, properties, name)
        return 0 if found is None else max(0, min(_MOST_SPAN, whole_number(attribute(found, "val"))))


def _through(parent: Element, name: str, depth: int = 0) -> Iterator[Element]:
    """Yield the rows of a table or the cells of a row, also those within content controls and the like."""
    for element in parent:
        found = local(element)
        if found == name:
            yield element
        elif found not in _NO_TEXT and found not in ("p", "tbl", "tc", *_REMOVED) and depth < _MOST_DEPTH:
            yield from _through(element, name, depth + 1)


def _outermost(element: Element, name: str) -> Iterator[Element]:
    """Yield the descendants with a name that are not within another one; of alternatives, the first."""
    for found in element:
        if local(found) == name:
            yield found
        elif local(found) == "AlternateContent":
            yield from next(filter(None, ([*_outermost(choice, name)] for choice in chosen(found))), [])
        else:
            yield from _outermost(found, name)


def _field_of_form(element: Element) -> Iterator[str]:
    """Yield the state of a check box or a list, which have no text; that of a text field follows as text."""
    data = child(element, "ffData")
    if data is None:
        return
    if (box := child(data, "checkBox")) is not None:
        state = child(box, "checked")
        state = child(box, "default") if state is None else state
        yield "☒" if state is not None and attribute(state, "val", "1") not in _OFF else "☐"
    elif (choices := child(data, "ddList")) is not None:
        entries = [attribute(entry, "val") for entry in children(choices, "listEntry")]
        result = child(choices, "result")
        number = 0 if result is None else whole_number(attribute(result, "val"))
        yield entries[number] if 0 <= number < len(entries) else ""
