"""Makes a snapshot of a page from the browser's accessibility tree and its DOM."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rumi.platform.untrusted_text import one_line
from rumi.web.browser.dom import Dom, DomNode
from rumi.web.browser.kinds import (
    MOST_NAME_CHARS,
    AxNode,
    kind_of,
    name_of,
    property_of,
    text_of_node,
    value_of,
)
from rumi.web.browser.snapshot import FIELDS, Element, ElementEffect, FieldValue, Kind
from rumi.web.messages import FetchError
from rumi.web.url import parse_target

MOST_LINE_CHARS: Final = 1000
MOST_OPTIONS: Final = 30
MOST_FIELDS: Final = 60

_SHOWN_ROLES: Final = frozenset({"image", "img", "progressbar", "meter", "video", "audio"})
_BLOCKS: Final = frozenset({
    "paragraph", "listitem", "row", "heading", "article", "section", "region", "main", "navigation",
    "banner", "contentinfo", "form", "list", "table", "dialog", "alert", "alertdialog", "blockquote",
    "caption", "figure", "group", "complementary", "search", "status", "definition", "term",
    "descriptionlist", "details", "code", "labeltext", "generic", "gridcell", "rootwebarea",
})  # fmt: skip
_BLANK: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class FoundElement:
    """An element of the page, before it has a reference. `lines` gets a placeholder for it."""

    node: int
    frame: str
    effect: ElementEffect
    value: str = ""
    type: str = ""
    states: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(slots=True)
class PageReading:
    """What was read of a page so far. A line is a text, or an element."""

    dom: Dom
    lines: list[str | FoundElement] = field(default_factory=list)
    _text: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Add text to the current line."""
        self._text.append(text)

    def end_line(self, prefix: str = "") -> None:
        """End the current line, if it has text."""
        text = _BLANK.sub(" ", "".join(self._text)).strip()
        self._text.clear()
        if text:
            self.lines.append(prefix + text[:MOST_LINE_CHARS] + ("…" if len(text) > MOST_LINE_CHARS else ""))


def read(
    trees: Mapping[str, Sequence[AxNode]], main: str, owners: Mapping[int, str], dom: Dom
) -> PageReading:
    """Return what is on a page. `trees` are the accessibility trees of its frames, by the frames' ids.

    `main` is the main frame; `owners` maps the DOM nodes of `iframe` elements to the frames in them.
    """
    reading = PageReading(dom)
    forms = _Forms(dom, [node for tree in trees.values() for node in tree])
    _TreeWalk(reading, forms, trees, owners).frame(main)
    reading.end_line()
    return reading


class _Forms:
    """The fields of the page's forms, as people see them."""

    def __init__(self, dom: Dom, nodes: Sequence[AxNode]) -> None:
        self._by_form: dict[int, list[FieldValue]] = {}
        self._by_document: dict[int, list[FieldValue]] = {}
        for ax in nodes:
            node = dom.get(ax.get("backendDOMNodeId", 0))
            if node is None or ax.get("ignored"):
                continue
            form = dom.form_of(node)
            kind = kind_of(ax, node, in_form=form is not None)
            if kind not in FIELDS:
                continue
            value = value_of(ax, node, kind)
            shown = FieldValue(
                node.id, name_of(ax, node), "" if kind == "password" else value, kind == "password"
            )
            if node.type == "radio" and value == "off":
                continue
            if form is not None:
                self._by_form.setdefault(form.id, []).append(shown)
            if value:
                self._by_document.setdefault(node.document, []).append(shown)

    def of(self, form: DomNode | None, document: int) -> tuple[FieldValue, ...]:
        """Return the fields of a form; without a form, those of the document that have a value."""
        found = self._by_document.get(document, []) if form is None else self._by_form.get(form.id, [])
        return tuple(found[:MOST_FIELDS])


class _TreeWalk:
    def __init__(
        self,
        reading: PageReading,
        forms: _Forms,
        trees: Mapping[str, Sequence[AxNode]],
        owners: Mapping[int, str],
    ) -> None:
        self._reading = reading
        self._forms = forms
        self._trees = trees
        self._owners = owners
        self._seen: set[str] = set()

    def frame(self, frame: str) -> None:
        tree = self._trees.get(frame, ())
        if frame in self._seen or not tree:
            return
        self._seen.add(frame)
        by_id = {node["nodeId"]: node for node in tree}
        # A stack and no recursion: pages nest as deeply as they like. None ends a line after the children.
        stack: list[AxNode | str | None] = [tree[0]]
        while stack:
            item = stack.pop()
            if item is None or isinstance(item, str):
                self._reading.end_line(item or "")
                continue
            children = [by_id[id_] for id_ in item.get("childIds", ()) if id_ in by_id]
            enters, end = self._enter(item)
            if end is not None:
                stack.append(end)
            if enters:
                stack.extend(reversed(children))

    def _enter(self, ax: AxNode) -> tuple[bool, str | None]:
        """Read a node; return True if its children are to be read, and the prefix of the line it ends."""
        role = str(ax.get("role", {}).get("value", "")).lower()
        if ax.get("ignored"):
            return True, None
        node = self._reading.dom.get(ax.get("backendDOMNodeId", 0))
        if role in ("statictext", "linebreak", "listmarker"):
            self._reading.add(text_of_node(ax) if role != "linebreak" else " ")
            return False, None
        if role == "inlinetextbox":
            return False, None
        if node is not None and (frame := self._owners.get(node.id)) is not None:
            self._reading.end_line()
            self.frame(frame)
            self._reading.end_line()
            return False, None
        form = None if node is None else self._reading.dom.form_of(node)
        kind = None if node is None else kind_of(ax, node, in_form=form is not None)
        if node is not None and kind is not None:
            self._reading.end_line()
            self._reading.lines.append(self._found(ax, node, kind, role))
            return kind not in FIELDS and kind != "submit" and role not in ("link", "button", "option"), ""
        if role in _SHOWN_ROLES:
            if name := text_of_node(ax):
                self._reading.add(f" ({role}: {name}) ")
            return False, None
        if role == "heading":
            self._reading.end_line()
            return True, f"{'#' * _level(ax)} "
        if role in ("cell", "gridcell", "columnheader", "rowheader"):
            self._reading.add(" | ")
            return True, None
        if role in _BLOCKS:
            self._reading.end_line()
            return True, "- " if role == "listitem" else ""
        return True, None

    def _found(self, ax: AxNode, node: DomNode, kind: Kind, role: str) -> FoundElement:
        dom = self._reading.dom
        form = dom.form_of(node) if kind == "submit" else None
        url = dom.url_of(node)
        href = _href(node, dom) if kind == "link" else ""
        pressed = kind in ("submit", "control")
        sends_to, method = _target(node, form, dom) if form is not None else ("", "")
        effect = ElementEffect(
            kind,
            role,
            name_of(ax, node),
            *_place(url),
            href,
            sends_to,
            method,
            self._forms.of(form, node.document) if pressed else (),
        )
        options = tuple(one_line(text, MOST_NAME_CHARS) for text in dom.options(node)[:MOST_OPTIONS])
        return FoundElement(
            node.id,
            dom.frame_of(node),
            effect,
            value_of(ax, node, kind),
            node.type,
            tuple(_states(ax)),
            options,
        )


def _states(ax: AxNode) -> Iterator[str]:
    if property_of(ax, "disabled") is True:
        yield "disabled"
    if property_of(ax, "required") is True:
        yield "required"
    if property_of(ax, "invalid") not in (None, "false", False):
        yield "invalid"
    expanded = property_of(ax, "expanded")
    if expanded is not None:
        yield "expanded" if expanded is True else "collapsed"


def _level(ax: AxNode) -> int:
    level = property_of(ax, "level")
    return min(level, 6) if isinstance(level, int) and level > 0 else 2


def _href(node: DomNode, dom: Dom) -> str:
    try:
        return parse_target(dom.joined(node, node.attributes["href"].strip())).href
    except (FetchError, ValueError):
        return ""


def _target(node: DomNode, form: DomNode, dom: Dom) -> tuple[str, str]:
    """Return the address that a form is sent to, without its query, and the method in capitals."""
    action = node.attributes.get("formaction") or form.attributes.get("action") or dom.url_of(node)
    method = (node.attributes.get("formmethod") or form.attributes.get("method") or "get").upper()
    try:
        target = parse_target(dom.joined(node, action.strip()))
    except (FetchError, ValueError):
        return one_line(action, MOST_NAME_CHARS), method
    return target.page.partition("?")[0], method


def _place(url: str) -> tuple[str, str, bool]:
    """Return the host and the origin of a document, and True if it came over TLS."""
    try:
        target = parse_target(url)
    except FetchError:
        return "", "", False
    return target.authority, target.origin, target.scheme == "https"


def line_of(element: Element, found: FoundElement) -> str:
    """Return the line that shows an element."""
    effect = element.effect
    role = {"link": "link", "submit": "button", "password": "password field"}.get(effect.kind, effect.role)
    words = [f'[{element.ref}] {role} "{effect.name}"']
    if element.value:
        words.append(f'= "{element.value}"')
    if found.options:
        words.append(f"options: {' / '.join(found.options)}")
    if effect.kind == "submit":
        words.append("(submits)")
    words += [f"({state})" for state in found.states]
    return " ".join(words)
