"""The arguments of a call as people judge them: a line for each value, destinations first."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from rumi.agent.permissions.destinations import is_destination
from rumi.platform.texts.questions import Value

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")


def values_of(arguments: Mapping[str, object], schema: Mapping[str, object]) -> tuple[Value, ...]:
    """Return each value at any depth with its path: destinations first, otherwise as the schema orders them.

    Only what is no destination counts as content, which a question may shorten.
    """
    return tuple(sorted(_values(arguments, schema), key=lambda value: value.content))


def _values(arguments: Mapping[str, object], schema: Mapping[str, object]) -> Iterator[Value]:
    """Yield each value. Nothing recurses, because the model chooses how deep its arguments are."""
    left = _members("", arguments, schema)
    while left:
        path, name, value, schema_part = left.pop()
        if isinstance(value, Mapping) and value:
            left += _members(f"{path}.", value, schema_part)
        elif isinstance(value, list | tuple) and value:
            items = _as_schema(schema_part.get("items"))
            numbered = [(f"{path}[{number}]", name, item, items) for number, item in enumerate(value, 1)]
            left += reversed(numbered)
        else:
            text = json.dumps(value, ensure_ascii=False, default=str)
            yield Value(path, text, content=not is_destination(name, schema_part, value))


def _members(
    path: str, values: Mapping[str, object], schema: Mapping[str, object]
) -> list[tuple[str, str, object, Mapping[str, object]]]:
    """Return what is in an object, the last one first: path, name, value, and its part of the schema."""
    properties = _as_schema(schema.get("properties"))
    order = {name: number for number, name in enumerate(properties)}
    names = sorted(values, key=lambda name: order.get(name, len(order)), reverse=True)
    return [(f"{path}{_name(name)}", name, values[name], _as_schema(properties.get(name))) for name in names]


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _as_schema(schema: object) -> Mapping[str, object]:
    return schema if isinstance(schema, Mapping) else {}
