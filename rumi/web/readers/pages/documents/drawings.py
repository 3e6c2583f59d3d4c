"""What Open XML documents of all kinds draw: alternatives, charts, diagrams, and pictures."""

from collections.abc import Iterator
from typing import Final

from rumi.web.readers.pages.documents.lines import Losses, row
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

_MOST_POINTS: Final = 500
_MOST_SERIES: Final = 50
_NAME_CHARS: Final = 300


def chosen(alternatives: Element) -> Iterator[Element]:
    """Yield the alternatives of the same content, the best first (ECMA-376 part 3): read only one of them."""
    yield from children(alternatives, "Choice")
    yield from children(alternatives, "Fallback")


def picture_name(drawing: Element, losses: Losses) -> str:
    """Count a picture as left out; return its description, if its author gave one."""
    losses.add("picture")
    for found in all_named(drawing, "docPr", "cNvPr", "shape"):
        said = attribute(found, "descr") or attribute(found, "alt")
        if said.strip():
            return f"[picture: {' '.join(said.split())[:_NAME_CHARS]}]"
    return ""


def paragraphs(body: Element) -> Iterator[str]:
    """Yield the paragraphs of a text in DrawingML."""
    for paragraph in all_named(body, "p"):
        pieces: list[str] = []
        for element in paragraph.iter():
            match local(element):
                case "t":
                    pieces.append(element.text or "")
                case "br":
                    pieces.append("\n")
                case "tab" if local(element.getparent()) != "tabLst":
                    pieces.append("\t")
        if text := "".join(pieces).strip():
            yield text


def chart_lines(package: Package, name: str, losses: Losses) -> list[str]:
    """Return a chart's title, and its values as a table; count it as left out if it has none stored."""
    root = package.xml(name, losses) if name in package else None
    if root is None:
        losses.add("chart")
        return []
    title = next(all_named(root, "title"), None)
    words = "" if title is None else " ".join(words_in(title, "t", "v").split())
    series = [*all_named(root, "ser", "series")][:_MOST_SERIES]
    columns = [_points(found, "val", "yVal", "numDim") for found in series]
    categories = next(filter(None, (_points(found, "cat", "xVal", "strDim") for found in series)), {})
    names = [_series_name(found) for found in series]
    lines = [f"[chart] {words}".rstrip()]
    if not any(columns):
        losses.add("chart without stored values", "charts without stored values")
        return lines if words else []
    lines.append(row(["", *names]))
    places = sorted({*categories, *(place for column in columns for place in column)})
    lines += [
        row([categories.get(place, ""), *(column.get(place, "") for column in columns)])
        for place in places[:_MOST_POINTS]
    ]
    if len(places) > _MOST_POINTS:
        losses.add("point of a chart", "points of charts", len(places) - _MOST_POINTS)
    return [*lines, ""]


def _series_name(series: Element) -> str:
    name = child(series, "tx")
    return "" if name is None else " ".join(words_in(name, "v", "t").split())


def _points(series: Element, *names: str) -> dict[int, str]:
    """Return the stored values of a series by their place."""
    found = next((element for element in series if local(element) in names), None)
    if found is None:
        found = next(all_named(series, *names), None)
    points: dict[int, str] = {}
    for number, point in enumerate([] if found is None else all_named(found, "pt")):
        place = attribute(point, "idx", str(number))
        value = child(point, "v")
        text = (point.text if value is None else value.text) or ""
        points[int(place) if place.isdecimal() and len(place) < 8 else number] = text.strip()
        if len(points) > 4 * _MOST_POINTS:
            break
    return points


def diagram_lines(package: Package, name: str, losses: Losses) -> list[str]:
    """Return the texts of a diagram (SmartArt); count it as left out if it has none."""
    root = package.xml(name, losses) if name in package else None
    lines = []
    for point in () if root is None else all_named(root, "pt"):
        if attribute(point, "type", "node") in ("node", "asst") and (text := child(point, "t")) is not None:
            lines += [f"- {line}" for line in paragraphs(text)]
    if not lines:
        losses.add("diagram")
        return []
    return ["[diagram]", *lines]
