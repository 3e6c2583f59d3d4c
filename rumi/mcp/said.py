"""Whether the arguments of a call say no more than what the user wrote."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from rumi.marked import opened
from rumi.models import Message

SMALL: Final = 1000
"""A whole number below this carries too little to matter in a question to a server."""


def own_words(messages: Sequence[Message]) -> str:
    """Return what the user wrote: no words of others, and no notes of the program."""
    said = (each.content for each in messages if each.role == "user")
    return "\n".join(text for text in said if not text.startswith("[") and opened(text) is None)


def all_said(
    arguments: Mapping[str, object],
    schema: Mapping[str, object],
    words: str,
    given: Collection[str],
    *,
    strict: bool,
) -> bool:
    """Return True if each value stands word for word in `words`, is a given address, or is the schema's own.

    `strict`: small numbers and yes or no count as values too.
    """
    text = _plain(words)
    return all(_is_said(value, allowed, text, given, strict) for value, allowed in _values(arguments, schema))


def _values(
    arguments: Mapping[str, object], schema: Mapping[str, object]
) -> Iterator[tuple[object, set[str]]]:
    """Yield each value at any depth, with the values that its place in the schema lists."""
    known = schema.get("properties")
    properties: Mapping[str, object] = known if isinstance(known, Mapping) else {}
    for name, value in arguments.items():
        place = properties.get(name)
        if not isinstance(place, Mapping):
            yield name, set()  # a name that the schema does not have may say something too
        yield from _inside(value, place if isinstance(place, Mapping) else {})


def _inside(value: object, place: Mapping[str, object]) -> Iterator[tuple[object, set[str]]]:
    if isinstance(value, Mapping):
        yield from _values(value, place)
    elif isinstance(value, list | tuple):
        items = place.get("items")
        for each in value:
            yield from _inside(each, items if isinstance(items, Mapping) else {})
    else:
        listed = place.get("enum")
        allowed = [*listed] if isinstance(listed, list | tuple) else []
        allowed += [place[name] for name in ("const", "default") if name in place]
        yield value, {json.dumps(each, default=str) for each in allowed}


def _is_said(
    value: object, allowed: Collection[str], text: str, given: Collection[str], strict: bool
) -> bool:
    if value is None or value == "" or json.dumps(value, default=str) in allowed:
        return True
    if isinstance(value, bool):
        return not strict
    if isinstance(value, int) and not strict and abs(value) < SMALL:
        return True
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and value in given:
        return True
    return _stands_in(_plain(str(value)), text)


def _stands_in(value: str, text: str) -> bool:
    """Return True if the value stands in the text, not inside of a longer word or number."""
    at = text.find(value)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(value) : at + len(value) + 1]
        inside = (before.isalnum() and value[0].isalnum()) or (after.isalnum() and value[-1].isalnum())
        if not inside:
            return True
        at = text.find(value, at + 1)
    return False


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
