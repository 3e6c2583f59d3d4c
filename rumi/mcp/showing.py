"""The arguments of a call as people judge them: a line for each value, destinations first."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from rumi.texts import Value

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")


def values_of(arguments: Mapping[str, object], schema: Mapping[str, object]) -> tuple[Value, ...]:
    """Return each value at any depth with its path: destinations first, then as the schema orders them.

    Only a text that is no destination counts as content, which a question may shorten.
    """
    known = schema.get("properties")
    order = {name: place for place, name in enumerate(known)} if isinstance(known, Mapping) else {}
    names = sorted(arguments, key=lambda name: order.get(name, len(order)))
    found = [each for name in names for each in _inside(_name(name), name, arguments[name])]
    return tuple(sorted(found, key=lambda each: each.content))


def _inside(path: str, name: str, value: object) -> Iterator[Value]:
    """Yield what is in a value. Nothing recurses: a model chooses how deep it is."""
    left = [(path, is_destination(name), value)]
    while left:
        path, goes, value = left.pop()
        if isinstance(value, Mapping) and value:
            inner = [
                (f"{path}.{_name(key)}", goes or is_destination(key), each) for key, each in value.items()
            ]
            left.extend(reversed(inner))
        elif isinstance(value, list | tuple) and value:
            items = [(f"{path}[{number}]", goes, each) for number, each in enumerate(value, 1)]
            left.extend(reversed(items))
        else:
            yield Value(path, json.dumps(value, ensure_ascii=False, default=str), content=not goes)


def is_destination(name: str) -> bool:
    """Return True for an argument that says where something goes."""
    return bool(re.search("to|cc|recipient|address|url|account|path|amount|id", name))


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)
