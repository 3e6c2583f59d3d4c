"""Unions of a foreign JSON schema: what providers accept of `allOf`, `anyOf`, `oneOf` and `if`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rumi.models.schema_keywords import (
    BOUNDS,
    COUNTS,
    MOST_ENUM,
    Schema,
    enum_of,
    kinds_of,
    properties_of,
)

SHARED: Final = frozenset({"type", "items", "properties", "required", *COUNTS, *BOUNDS, "pattern"})
"""Keywords beside a union that hold for each of its branches."""


def merged(schema: Mapping[str, Any], resolved: Callable[[object], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return a schema with the branches of its `allOf`, `then` and `else` merged into it."""
    branches: list[object] = []
    given = schema.get("allOf")
    branches += given if isinstance(given, list) else []
    optional = [schema[word] for word in ("then", "else") if isinstance(schema.get(word), Mapping)]
    if not branches and not optional:
        return schema
    found = {name: value for name, value in schema.items() if name not in ("allOf", "if", "then", "else")}
    pending = [(branch, True) for branch in branches] + [(branch, False) for branch in optional]
    for _ in range(MOST_ENUM):
        if not pending:
            break
        branch, needed = pending.pop(0)
        part = dict(resolved(branch))
        inner = part.pop("allOf", None)
        pending += [(deeper, needed) for deeper in inner] if isinstance(inner, list) else []
        properties, required = properties_of(found)
        more, also = properties_of(part)
        if more or properties:
            found["properties"] = {**more, **properties}
        if needed and (also or required):
            found["required"] = list(dict.fromkeys([*required, *also]))
        for name, value in part.items():
            if name not in ("properties", "required"):
                found.setdefault(name, value)
    return found


def with_choices(schema: Schema, branches: Sequence[Mapping[str, Any]]) -> Schema:
    """Return an object schema that has the properties of all branches, and requires what each requires."""
    own, required = properties_of(schema)
    properties: dict[str, list[Any]] = {}
    needs: list[list[str]] = []
    for branch in branches:
        more, also = properties_of(branch)
        needs.append(also)
        for name, value in more.items():
            if value not in properties.setdefault(name, []):
                properties[name].append(value)
        for name in also:  # so that the model can give it, although no place describes it
            if name not in own:
                properties.setdefault(name, [])
    found = dict(schema)
    found["properties"] = {
        **own,
        **{name: _one_of(said) for name, said in properties.items() if name not in own},
    }
    shared = [name for name in needs[0] if all(name in names for names in needs)]
    found["required"] = list(dict.fromkeys([*required, *shared]))
    choices = [" and ".join(name for name in names if name not in shared) for names in needs]
    if len(set(choices)) > 1 and any(choices):
        words = "; or ".join(choice or "none of these" for choice in dict.fromkeys(choices))
        said = found.get("description")
        found["description"] = f"{said if isinstance(said, str) else ''} Give: {words}.".strip()
    return found


def _one_of(said: list[Any]) -> object:
    if len(said) > 1 and all(isinstance(one, Mapping) and enum_of(one) is not None for one in said):
        values = [value for one in said for value in enum_of(one) or ()]
        return {**said[0], "const": None, "enum": values}
    return said[0] if len(said) == 1 else {"anyOf": said} if said else {}


def joined(branches: list[Schema]) -> list[Schema]:
    """Return the branches of a union; branches that only list values of one type become one list."""
    found: list[Schema] = []
    for branch in branches:
        for other in found:
            if branch.keys() == other.keys() == {"type", "enum"} and branch["type"] == other["type"]:
                other["enum"] = list(dict.fromkeys([*other["enum"], *branch["enum"]]))
                break
        else:
            found.append(branch)
    return found


_SAYS: Final = frozenset(
    {
        "type",
        "properties",
        "required",
        "anyOf",
        "oneOf",
        "allOf",
        "$ref",
        "enum",
        "const",
        "items",
        "if",
        "then",
    }
)


def unwrapped(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a tool whose server sent only its properties, or the schema itself."""
    said = {name: value for name, value in schema.items() if not name.startswith("$")}
    bare = said and all(isinstance(value, Mapping) and not _SAYS.isdisjoint(value) for value in said.values())
    known = any(name in schema and not isinstance(schema[name], Mapping) for name in _SAYS)
    words = "properties" in said or "definitions" in said
    return {"type": "object", "properties": said} if bare and not known and not words else schema


def only_requires(schema: Mapping[str, Any]) -> bool:
    """Return True if the branches of a union, if there is one, describe no properties of their own."""
    branches = [
        branch
        for word in ("anyOf", "oneOf")
        if isinstance(given := schema.get(word), list)
        for branch in given
    ]
    own = ("properties", "$ref", "allOf", "type")
    return not any(isinstance(branch, Mapping) and any(word in branch for word in own) for branch in branches)


def may_be_object(schema: Mapping[str, Any]) -> bool:
    """Return True unless a branch of a union says that it is no object."""
    kinds = kinds_of(schema.get("type"))
    return enum_of(schema) is None and (not kinds or "object" in kinds)
