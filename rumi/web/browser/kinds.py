"""What an element of a page is, and its label and value, from its accessibility node and its DOM node."""

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from rumi.platform.untrusted_text import one_line
from rumi.web.browser.dom import DomNode
from rumi.web.browser.snapshot import Kind

MOST_NAME_CHARS: Final = 200
MOST_VALUE_CHARS: Final = 4000

AxNode: TypeAlias = Mapping[str, Any]
"""A node of `Accessibility.getFullAXTree`."""

_FIELD_ROLES: Final[Mapping[str, Kind]] = {
    "textbox": "field", "searchbox": "field", "spinbutton": "field", "textfieldwithcombobox": "field",
    "date": "field", "datetime": "field", "inputtime": "field", "colorwell": "field", "slider": "field",
    "checkbox": "check", "radio": "check", "switch": "check",
}  # fmt: skip
_CONTROL_ROLES: Final = frozenset({
    "button", "link", "menuitem", "menuitemcheckbox", "menuitemradio", "option", "tab", "treeitem",
    "popupbutton", "togglebutton", "combobox", "listbox", "comboboxgrouping", "comboboxmenubutton",
    "comboboxselect", "disclosuretriangle", "disclosuretrianglegrouped", "doclink",
})  # fmt: skip
_SUBMITS: Final = frozenset({"submit", "image"})
_NO_TEXT: Final = frozenset({"button", "submit", "reset", "image", "hidden", "file"})
_EXPANDS: Final = ("aria-expanded", "aria-haspopup")


def kind_of(ax: AxNode, node: DomNode, *, in_form: bool) -> Kind | None:
    """Return what an element is; None if it cannot be used. `in_form` means that it belongs to a form."""
    role = str(ax.get("role", {}).get("value", "")).lower()
    if node.tag == "input" and node.type == "password":
        return "password"
    if node.tag == "select":
        return "select"
    if node.tag in ("input", "button") and node.type in _SUBMITS and in_form:
        return "submit"
    if node.tag == "input" and node.type in ("checkbox", "radio"):
        return "check"
    if node.tag == "textarea" or (node.tag == "input" and node.type not in _NO_TEXT):
        return "field"
    if (kind := _FIELD_ROLES.get(role)) is not None:
        return kind if node.tag != "input" or node.type not in _NO_TEXT else "control"
    if node.tag in ("a", "area") and node.attributes.get("href", "").strip():
        return "link" if _is_web(node) else "control"
    if node.tag == "summary" or role == "tab" or any(name in node.attributes for name in _EXPANDS):
        return "expander" if role in _CONTROL_ROLES or node.tag == "summary" else None
    return "control" if role in _CONTROL_ROLES else None


def name_of(ax: AxNode, node: DomNode) -> str:
    """Return an element's label: its accessible name, or else what its attributes say."""
    name = text_of_node(ax)
    if not name.strip():
        named = (node.attributes.get(one, "") for one in ("placeholder", "name", "title", "id"))
        name = next((one for one in named if one.strip()), "")
    return one_line(name, MOST_NAME_CHARS)


def value_of(ax: AxNode, node: DomNode, kind: Kind) -> str:
    """Return the value of a field as people see it; that of a password is dots."""
    if kind == "password":
        return "•" * 8 if node.value else ""
    if kind == "check":
        return "on" if node.checked or property_of(ax, "checked") in (True, "true", "mixed") else "off"
    if kind == "select":
        return one_line(node.value or str(ax.get("value", {}).get("value", "")), MOST_VALUE_CHARS)
    if kind == "field":
        return one_line(node.value or str(ax.get("value", {}).get("value", "")), MOST_VALUE_CHARS)
    return ""


def text_of_node(ax: AxNode) -> str:
    """Return the accessible name of a node, as the page has it."""
    return str(ax.get("name", {}).get("value", ""))


def property_of(ax: AxNode, name: str) -> object:
    """Return a property of a node; None if it does not have it."""
    for one in ax.get("properties", ()):
        if one.get("name") == name:
            return one.get("value", {}).get("value")
    return None


def _is_web(node: DomNode) -> bool:
    # A link that has a scheme of its own must be one of the web: `javascript:` runs a script.
    href = node.attributes["href"].strip().lower()
    scheme = re.match(r"[a-z][a-z0-9+.-]*:", "".join(href.split()))
    return scheme is None or scheme[0] in ("http:", "https:")
