"""Link definitions of Markdown, which a parser removes from the text: `[1]: https://example.org`.

Models list their sources as definitions, and a log line such as `[note]: done` is parsed as a definition too.
This module keeps definitions in the text so that people can read them; references such as `[1]` still become
links.
"""

import re
from collections.abc import Callable
from typing import Final

import pyromark
from pyromark.event import BrokenLink

_ROUNDS: Final = 8
_ADDRESS: Final = re.compile(
    r"https?://(?:[^\s/?#@]*@)?([^\s/?#:@\[\]]+)(?::\d{1,5})?(?:[/?#]\S*)?", re.IGNORECASE
)
_ADDRESS_CHARS: Final = 2000


class Overgrown(Exception):
    """The formatted result would be far larger than the text, or formatting would take far too long."""


Answer = Callable[[BrokenLink], tuple[str, str] | None]


def linkable(address: str) -> bool:
    """Return True if Telegram accepts `address` as a link: a web URL whose host name contains a dot."""
    if len(address) > _ADDRESS_CHARS or not address.isprintable():
        return False
    found = _ADDRESS.fullmatch(address)
    return found is not None and "." in found[1].strip(".")


def as_plain_text(source: str, options: pyromark.Options) -> tuple[str, Answer]:
    """Return the source with its definitions as plain text, and a callback that maps references to URLs."""
    targets: dict[str, str] = {}
    # Several rounds: of several definitions with the same name, the parser reports only the first.
    for _ in range(_ROUNDS):
        found = pyromark.reference_definitions(source, options=options)
        if not found:
            break
        raw = source.encode()
        pieces, at = [], 0
        for label, definition in sorted(found.items(), key=lambda item: item[1]["span"]["start"]):
            start = raw.index(b"[", definition["span"]["start"])
            pieces += [raw[at:start], b"&#91;"]
            at = start + 1
            if linkable(definition["dest"]):
                targets.setdefault(_same(label), definition["dest"])
        source = b"".join([*pieces, raw[at:]]).decode()
    else:
        raise Overgrown

    def answer(link: BrokenLink) -> tuple[str, str] | None:
        target = targets.get(_same(link["reference"]))
        return None if target is None else (target, "")

    return source, answer


def _same(label: str) -> str:
    return " ".join(label.split()).casefold()
