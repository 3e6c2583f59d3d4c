"""Tool descriptions from servers: sanitizes them for models, and compares them with accepted descriptions."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from rumi.agent.mcp.messages import RemoteTool
from rumi.agent.permissions.destinations import is_destination
from rumi.models.schemas import Normalised, normalised
from rumi.platform.texts.questions import Value
from rumi.platform.untrusted_text import harmless

MOST_DEPTH: Final = 40


def harmless_schema(schema: Mapping[str, object]) -> Mapping[str, object]:
    """Return a JSON schema with all its texts sanitized, at any depth.

    Names with unsafe characters are left out, because the server would not recognize a changed name. Values
    that are nested deeper than `MOST_DEPTH` are left out too.
    """
    return {name: _harmless(value, 1) for name, value in schema.items() if harmless(name) == name}


def schema_for_models(parameters: Mapping[str, object]) -> Normalised:
    """Return the schema of a tool as models get it: sanitized, and normalised for all providers.

    Raises:
        SchemaError: No provider would accept the schema.
    """
    return _for_models(json.dumps(parameters, default=dict))


@lru_cache(2048)
def _for_models(parameters: str) -> Normalised:
    return normalised(harmless_schema(json.loads(parameters)))


def _harmless(value: object, depth: int) -> object:
    if isinstance(value, str):
        return harmless(value)
    if isinstance(value, Mapping) and depth < MOST_DEPTH:
        harmless_items = {name: item for name, item in value.items() if harmless(str(name)) == str(name)}
        return {name: _harmless(item, depth + 1) for name, item in harmless_items.items()}
    if isinstance(value, list | tuple) and depth < MOST_DEPTH:
        return [_harmless(item, depth + 1) for item in value]
    return {} if isinstance(value, Mapping | list | tuple) else value


@dataclass(frozen=True, slots=True)
class DescriptionChange:
    """A changed value in a tool's description: its path, and the old and the new value as JSON or None."""

    path: str
    before: str | None
    now: str | None


def said_of(tool: RemoteTool) -> dict[str, object]:
    """Return the parts of a tool's description that need the user's acceptance, as JSON types."""
    return {
        "description": tool.description,
        "read_only": tool.read_only,
        "open_world": tool.open_world,
        "destructive": tool.destructive,
        "parameters": tool.parameters,
    }


def changes_of(
    before: Mapping[str, object] | None, now: Mapping[str, object] | None
) -> tuple[DescriptionChange, ...]:
    """Return the differences between a tool's accepted and its current description."""
    old, new = _by_path(before), _by_path(now)
    paths = [*new, *(path for path in old if path not in new)]
    return tuple(
        DescriptionChange(path, old.get(path), new.get(path))
        for path in paths
        if old.get(path) != new.get(path)
    )


def _by_path(said: Mapping[str, object] | None) -> dict[str, str]:
    return {value.path: value.text for value in values_of(said or {}, {})}


_PLAIN_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")


def values_of(arguments: Mapping[str, object], schema: Mapping[str, object]) -> tuple[Value, ...]:
    """Return each argument value, at any depth, with its path.

    Destinations, which determine what the call acts on, come first; otherwise, the schema's order applies.

    Values that are not destinations are content; a question to the user may shorten content.
    """
    return tuple(sorted(_values(arguments, schema), key=lambda value: value.content))


def _values(arguments: Mapping[str, object], schema: Mapping[str, object]) -> Iterator[Value]:
    """Yield each argument value, at any depth, with its path.

    The function is not recursive, because the model decides how deeply the arguments are nested.
    """
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
    """Return an object's members in reverse order, each with path, name, value and part of the schema.

    The caller pushes the members on a stack and takes them from the end, so they come out in order.
    """
    properties = _as_schema(schema.get("properties"))
    order = {name: number for number, name in enumerate(properties)}
    names = sorted(values, key=lambda name: order.get(name, len(order)), reverse=True)
    return [(f"{path}{_name(name)}", name, values[name], _as_schema(properties.get(name))) for name in names]


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _as_schema(schema: object) -> Mapping[str, object]:
    return schema if isinstance(schema, Mapping) else {}
