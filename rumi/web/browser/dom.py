"""The DOM of a page, from the browser's `DOMSnapshot.captureSnapshot`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urljoin

_MOST_ANCESTORS: Final = 500


@dataclass(frozen=True, slots=True)
class DomNode:
    """An element. `id` is the browser's id of it, `document` the number of its document.

    `type` is the type of an `input` or `button`, with its default. `value` is what a field contains, also a
    password: it must never be shown.
    """

    id: int
    document: int
    index: int
    tag: str
    attributes: Mapping[str, str]
    type: str = ""
    value: str = field(default="", repr=False)
    checked: bool = False


class Dom:
    """All elements of a page and its frames, by the browser's id."""

    def __init__(self, captured: Mapping[str, Any]) -> None:
        self._strings: Sequence[str] = captured.get("strings", ())
        self._documents: Sequence[Mapping[str, Any]] = captured.get("documents", ())
        self._places = {
            id_: (number, index)
            for number, document in enumerate(self._documents)
            for index, id_ in enumerate(document["nodes"]["backendNodeId"])
        }
        self._values = [
            {
                **self._rare(document["nodes"].get("textValue", {})),
                **self._rare(document["nodes"].get("inputValue", {})),
            }
            for document in self._documents
        ]
        self._checked = [
            frozenset(document["nodes"].get("inputChecked", {}).get("index", ()))
            for document in self._documents
        ]
        self._selected = [
            frozenset(document["nodes"].get("optionSelected", {}).get("index", ()))
            for document in self._documents
        ]
        self._children: list[dict[int, list[int]]] = []
        self._forms: dict[tuple[int, str], DomNode] = {}
        for number, document in enumerate(self._documents):
            children: dict[int, list[int]] = {}
            for index, parent in enumerate(document["nodes"]["parentIndex"]):
                children.setdefault(parent, []).append(index)
            self._children.append(children)
            for index, name in enumerate(document["nodes"]["nodeName"]):
                if self._string(name).lower() == "form":
                    form = self._node(number, index)
                    self._forms.setdefault((number, form.attributes.get("id", "")), form)

    def get(self, id_: int) -> DomNode | None:
        """Return an element by the browser's id; None if it is not there."""
        place = self._places.get(id_)
        return None if place is None else self._node(*place)

    def form_of(self, node: DomNode) -> DomNode | None:
        """Return the form that an element belongs to, or None."""
        if owner := node.attributes.get("form"):
            return self._forms.get((node.document, owner))
        nodes = self._documents[node.document]["nodes"]
        index = node.index
        for _ in range(_MOST_ANCESTORS):
            index = nodes["parentIndex"][index]
            if index < 0:
                return None
            if self._string(nodes["nodeName"][index]).lower() == "form":
                return self._node(node.document, index)
        return None

    def options(self, node: DomNode) -> list[str]:
        """Return the texts of a list's options, the selected ones with a star."""
        return self._options_of(node.document, node.index) if node.tag == "select" else []

    def url_of(self, node: DomNode) -> str:
        """Return the address of the document that an element is in."""
        return self._string(self._documents[node.document].get("documentURL", -1))

    def frame_of(self, node: DomNode) -> str:
        """Return the browser's id of the frame that an element is in."""
        return self._string(self._documents[node.document].get("frameId", -1))

    def joined(self, node: DomNode, url: str) -> str:
        """Return an address as the document of an element means it."""
        base = self._string(self._documents[node.document].get("baseURL", -1)) or self.url_of(node)
        return urljoin(base, url)

    def _node(self, document: int, index: int) -> DomNode:
        nodes = self._documents[document]["nodes"]
        pairs = nodes["attributes"][index] if index < len(nodes["attributes"]) else ()
        names = [self._string(one) for one in pairs]
        attributes = {name.lower(): value for name, value in zip(names[::2], names[1::2], strict=False)}
        tag = self._string(nodes["nodeName"][index]).lower()
        default = {"input": "text", "button": "submit"}.get(tag, "")
        value = self._values[document].get(index, "")
        if tag == "select":
            chosen = [text[1:] for text in self._options_of(document, index) if text.startswith("*")]
            value = ", ".join(chosen)
        return DomNode(
            nodes["backendNodeId"][index],
            document,
            index,
            tag,
            attributes,
            attributes.get("type", "").strip().lower() or default if default else "",
            value,
            index in self._checked[document],
        )

    def _options_of(self, document: int, index: int) -> list[str]:
        return [
            f"{'*' if one in self._selected[document] else ''}{self._inner(document, one)}"
            for one in self._inside(document, index)
            if self._string(self._documents[document]["nodes"]["nodeName"][one]).lower() == "option"
        ]

    def _inside(self, document: int, index: int) -> list[int]:
        found, waiting = [], [index]
        while waiting:
            for child in self._children[document].get(waiting.pop(0), ()):
                found.append(child)
                waiting.append(child)
        return found

    def _inner(self, document: int, index: int) -> str:
        """Return the text inside of an element."""
        values = self._documents[document]["nodes"].get("nodeValue", ())
        texts = (self._string(values[one]) for one in self._inside(document, index) if one < len(values))
        return " ".join("".join(texts).split())

    def _string(self, index: int) -> str:
        return self._strings[index] if 0 <= index < len(self._strings) else ""

    def _rare(self, data: Mapping[str, Any]) -> dict[int, str]:
        texts = map(self._string, data.get("value", ()))
        return dict(zip(data.get("index", ()), texts, strict=False))
