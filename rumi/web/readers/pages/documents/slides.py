"""Conversion of PowerPoint presentations (`pptx`, `pptm`, `ppsx`, `ppsm`, `potx`, `potm`) to text."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from rumi.web.readers.pages.documents.drawings import (
    chart_lines,
    chosen,
    diagram_lines,
    paragraphs,
    picture_name,
)
from rumi.web.readers.pages.documents.lines import Lines, NoDocumentError, Reading, row
from rumi.web.readers.pages.documents.package import (
    Element,
    Package,
    all_named,
    attribute,
    child,
    children,
    local,
    words_in,
)

_MOST_DEPTH: Final = 40
_MERGED: Final = ("1", "true", "on")


def slide_lines(package: Package, main: str, reading: Reading) -> Lines:
    """Yield the texts, tables, charts, notes and comments of each slide."""
    root = package.xml(main, reading.losses)
    related = package.related(main, reading.losses)
    listed = [] if root is None else list(all_named(root, "sldId"))
    slides = [related.get(_relation(slide), ("", ""))[1] for slide in listed]
    if not any(slide in package for slide in slides):
        slides = [name for name in package.names if re.search(r"slides/[^/]+\.xml$", name)]
        slides.sort(key=lambda name: (len(name), name))
    if not slides and root is None:
        raise NoDocumentError("its main part is broken")
    for number, name in enumerate(slides, 1):
        yield from _Slide(package, name, reading).lines(number)


def _relation(element: Element) -> str:
    """Return the id of a relation: the attribute `id` with a namespace. The other one is a number."""
    return next((str(value) for key, value in element.attrib.items() if key.endswith("}id")), "")


class _Slide:
    def __init__(self, package: Package, name: str, reading: Reading) -> None:
        self._package = package
        self._name = name
        self._losses = reading.losses
        self._related: Mapping[str, tuple[str, str]] = package.related(name, reading.losses)

    def lines(self, number: int) -> Lines:
        root = self._package.xml(self._name, self._losses)
        hidden = root is not None and attribute(root, "show", "1") in ("0", "false")
        yield f"## Slide {number}{' (hidden)' if hidden else ''}"
        if root is not None:
            for tree in all_named(root, "spTree"):
                yield from self._shapes(tree, 0)
        for kind, target in self._related.values():
            if kind == "notesSlide":
                yield from self._notes(target)
            elif kind == "comments":
                yield from self._comments(target)
        yield None

    def _shapes(self, parent: Element, depth: int) -> Iterator[str]:
        if depth > _MOST_DEPTH:
            self._losses.add("shape nested too deeply", "shapes nested too deeply")
            return
        for shape in parent:
            match local(shape):
                case "sp" | "cxnSp":
                    yield from self._text(shape)
                case "graphicFrame":
                    yield from self._frame(shape)
                case "pic":
                    if said := picture_name(shape, self._losses):
                        yield said
                case "AlternateContent":
                    for choice in chosen(shape):
                        if lines := list(self._shapes(choice, depth + 1)):
                            yield from lines
                            break
                case "nvGrpSpPr" | "grpSpPr" | "extLst":
                    pass
                case _ if len(shape):
                    yield from self._shapes(shape, depth + 1)

    def _text(self, shape: Element) -> Iterator[str]:
        for body in children(shape, "txBody"):
            if text := "\n".join(paragraphs(body)):
                yield text

    def _frame(self, frame: Element) -> Iterator[str]:
        data = next(all_named(frame, "graphicData"), frame)
        for element in data:
            match local(element):
                case "tbl":
                    yield from _rows(element)
                case "chart":
                    target = self._related.get(attribute(element, "id"), ("", ""))[1]
                    yield from chart_lines(self._package, target, self._losses)
                case "relIds":
                    target = self._related.get(attribute(element, "dm"), ("", ""))[1]
                    yield from diagram_lines(self._package, target, self._losses)
                case _:
                    self._losses.add("embedded object")

    def _notes(self, name: str) -> Iterator[str]:
        root = self._package.xml(name, self._losses)
        for shape in () if root is None else all_named(root, "sp"):
            place = next(all_named(shape, "ph"), None)
            if place is not None and attribute(place, "type") in ("sldImg", "sldNum", "hdr", "ftr", "dt"):
                continue
            if text := "\n".join(self._text(shape)):
                yield f"Notes: {text}"

    def _comments(self, name: str) -> Iterator[str]:
        root = self._package.xml(name, self._losses)
        for comment in () if root is None else all_named(root, "cm", "reply"):
            own = child(comment, "txBody")
            text = words_in(comment, "text") if own is None else " ".join(paragraphs(own))
            if text.strip():
                yield f"Comment: {' '.join(text.split())}"


def _rows(table: Element) -> Iterator[str]:
    for line in children(table, "tr"):
        cells = []
        for cell in children(line, "tc"):
            # A cell that a merged cell covers stays in the file; only the text of the merged one is shown.
            covered = attribute(cell, "hMerge") in _MERGED or attribute(cell, "vMerge") in _MERGED
            cells.append("" if covered else " ".join(paragraphs(cell)))
        yield row(cells)
