"""A page as the model and a person see it: lines of text, and the elements that can be used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["link", "expander", "control", "submit", "field", "password", "select", "check"]
"""What an element is: a link to a web address; a control that only opens a part of the page; any other
control; a control that submits its form; a field for text, a password, one of several options, or a state."""

FIELDS: Final[frozenset[Kind]] = frozenset({"field", "password", "select", "check"})

MOST_CHARS: Final = 12_000
"""Maximum number of characters of one part of a page."""


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A field of a form, as a person sees it. The value of a password is never read; it is `hidden`."""

    node: int
    label: str
    value: str
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class ElementEffect:
    """What using an element means, as far as the page says so. Two equal effects ask the same question.

    `host` is the host of the document that the element is in. `sends_to` is the address without its query
    to which the element's form is sent; empty if there is no form. `fields` are the form's visible fields;
    without a form, all fields of the document that have a value.
    """

    kind: Kind
    role: str
    name: str
    host: str
    origin: str
    secure: bool = False
    href: str = ""
    sends_to: str = ""
    method: str = ""
    fields: tuple[FieldValue, ...] = ()


@dataclass(frozen=True, slots=True)
class Element:
    """An element that can be used.

    `node` is the browser's id of its DOM node, as long as the node exists, and `frame` that of its frame.

    `ref` stands for this element with this effect: an element whose effect has changed gets another
    reference. So an approval that names a reference can never apply to something else.
    """

    ref: str
    node: int
    frame: str
    effect: ElementEffect
    value: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True)
class PageSnapshot:
    """A page at one moment. The texts are the page's own words. `url` is the address of the main frame."""

    url: str
    title: str
    lines: Sequence[str] = ()
    elements: Mapping[str, Element] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def links(self) -> tuple[str, ...]:
        """The page's address, and those of its links."""
        hrefs = (one.effect.href for one in self.elements.values() if one.effect.href)
        return tuple(dict.fromkeys((self.url, *hrefs)))

    def part(self, start: int = 1) -> tuple[str, int]:
        """Return the lines from number `start` on, up to `MOST_CHARS`, and the number of the next line.

        The next line is 0 at the end of the page.
        """
        chosen: list[str] = []
        size = 0
        for number, line in enumerate(self.lines[start - 1 :], start):
            size += len(line) + 1
            if chosen and size > MOST_CHARS:
                return "\n".join(chosen), number
            chosen.append(line)
        return "\n".join(chosen), 0
