"""The keywords of a foreign JSON schema, each read from any form that servers send it in."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, TypeAlias

Schema: TypeAlias = dict[str, Any]

MOST_NODES: Final = 3000
"""Maximum number of subschemas of one tool; references may expand to more than the server sent."""

MOST_ENUM: Final = 250
"""Maximum number of values in an `enum`, and of branches in a union."""

_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""Anthropic's pattern of property names, the strictest of all providers."""

_TYPES: Final = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_ALIASES: Final = {
    **dict.fromkeys(("str", "text", "date", "datetime", "date-time", "time", "uuid", "uri", "url"), "string"),
    **dict.fromkeys(("email", "file", "path", "password", "char", "enum", "bytes"), "string"),
    **dict.fromkeys(("int", "int32", "int64", "long", "short", "uint", "uint32", "uint64"), "integer"),
    **dict.fromkeys(("float", "double", "decimal", "float32", "float64", "numeric"), "number"),
    **dict.fromkeys(("bool",), "boolean"),
    **dict.fromkeys(("list", "tuple", "set", "sequence"), "array"),
    **dict.fromkeys(("dict", "map", "record", "struct"), "object"),
    **dict.fromkeys(("none", "nil", "nonetype"), "null"),
}
FORMATS: Final = frozenset(
    {"date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
"""The formats that OpenAI documents; with another one, such as `uri`, some of its models refuse the tool."""

COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems")
BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_MOST_COUNT: Final = 2**31 - 1
_MOST_NUMBER: Final = 2.0**63


def properties_of(schema: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return an object's properties and the names of those that are required, from any form of the two."""
    given = schema.get("properties")
    if isinstance(given, list):  # a list of named schemas, or PHP's empty object
        named = [one for one in given if isinstance(one, Mapping) and isinstance(one.get("name"), str)]
        given = {one["name"]: {key: one[key] for key in one if key != "name"} for one in named}
    known = dict(given) if isinstance(given, Mapping) else {}
    required = _strings(schema.get("required"))
    found: dict[str, Any] = {}
    for name, value in known.items():
        if isinstance(value, Mapping) or value is None or isinstance(value, bool):
            found[str(name)] = {} if value is None else value
            if isinstance(value, Mapping) and value.get("required") is True:  # as in drafts before 4
                required.append(str(name))
        elif isinstance(value, str) and kinds_of(value) and name != "type":
            found[str(name)] = {"type": value}
        elif name == "required":  # one level too deep
            required += _strings(value)
    return found, list(dict.fromkeys(required))


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def kinds_of(given: object) -> list[str]:
    """Return the types that a `type` names, without the unknown ones."""
    words: list[object] = list(given) if isinstance(given, list) else [given]
    if isinstance(given, str) and "|" in given:
        words = [*given.split("|")]
    found = (word.strip().lower() for word in words if isinstance(word, str))
    known = (word if word in _TYPES else _ALIASES.get(word, "") for word in found)
    return [kind for kind in dict.fromkeys(known) if kind]


def enum_of(schema: Mapping[str, Any]) -> list[Any] | None:
    """Return the allowed values; None if the schema does not list any that can be listed."""
    given = schema.get("enum")
    values = list(given) if isinstance(given, list | tuple) else []
    if not values and "const" in schema:
        values = [schema["const"]]
    plain = [value for value in values if value is None or isinstance(value, str | bool | int | float)]
    plain = [value for value in plain if not isinstance(value, float) or math.isfinite(value)]
    found: list[Any] = []
    for value in plain:  # 1 and True are equal, and different values
        if not any(value == other and type(value) is type(other) for other in found):
            found.append(value)
    return found if found and len(plain) == len(values) else None


def kinds_of_enum(enum: list[Any], kinds: list[str]) -> list[str]:
    """Return the types of the values: the named types if they fit all values, otherwise the values' own."""
    own = list(dict.fromkeys(kinds_of_value(value)[0] for value in enum))
    if kinds and all(any(kind in kinds for kind in kinds_of_value(value)) for value in enum):
        return [kind for kind in kinds if any(kind in kinds_of_value(value) for value in enum)]
    return own


def kinds_of_value(value: object) -> tuple[str, ...]:
    """Return the types that a value has; an integer is a number too."""
    if value is None:
        return ("null",)
    if isinstance(value, bool):
        return ("boolean",)
    if isinstance(value, str):
        return ("string",)
    return ("integer", "number") if isinstance(value, int) or float(str(value)).is_integer() else ("number",)


def is_object(schema: Mapping[str, Any]) -> bool:
    """Return True if a schema describes an object, with or without saying so."""
    return "object" in kinds_of(schema.get("type")) or isinstance(schema.get("properties"), Mapping)


def guessed(schema: Mapping[str, Any]) -> str:
    """Return the type of a schema without a known `type`; empty if nothing in it tells."""
    if is_object(schema) or isinstance(schema.get("additionalProperties"), Mapping):
        return "object"
    for kind, words in (("array", ("items", "prefixItems")), ("string", ("pattern", "format", "minLength"))):
        if any(word in schema for word in words):
            return kind
    return "number" if any(_is_number(schema.get(word)) for word in BOUNDS) else ""


def bounds_of(schema: Mapping[str, Any]) -> Schema:
    """Return the valid bounds of a number, in the form of draft 6 and later."""
    found = {name: schema[name] for name in BOUNDS if _is_number(schema.get(name))}
    for word, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if schema.get(exclusive) is True and word in found:  # as in draft 4
            found[exclusive] = found.pop(word)
    if found.get("multipleOf", 1) <= 0:
        del found["multipleOf"]
    return found


def _is_number(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and abs(value) < _MOST_NUMBER
    )


def is_count(value: object) -> bool:
    """Return True for a length or a number of items that providers accept."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_COUNT


def is_pattern(value: object) -> bool:
    """Return True for a regular expression that every provider's engine can compile."""
    if not isinstance(value, str) or len(value) > 1000 or re.search(r"\(\?[=!<]|\\[pPkZA1-9]", value):
        return False
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def is_short_json(value: object) -> bool:
    """Return True for a value that is valid JSON and short enough for a prompt."""
    try:
        return len(json.dumps(value, allow_nan=False)) <= 1000
    except (ValueError, TypeError, RecursionError):
        return False


def definitions_of(schema: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield all named definitions, also those of inner schemas, which some generators refer to by name."""
    for place in _mappings(schema):
        for word in ("$defs", "definitions", "schemas"):
            if isinstance(known := place.get(word), Mapping):
                yield from ((str(name), value) for name, value in known.items())


def renamed_in(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the property names that providers refuse, each with the name that is sent instead."""
    for place in _mappings(schema):
        known, required = properties_of(place)
        for name in (*known, *required):
            if not _KEY.fullmatch(name):
                plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_")[:50]
                yield name, f"{plain}_{sha256(name.encode('utf-8', 'replace')).hexdigest()[:6]}".lstrip("_")


def _mappings(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield all mappings of a schema, at most `MOST_NODES` of them."""
    left: list[object] = [schema]
    seen = 0
    while left and seen < 4 * MOST_NODES:
        place = left.pop()
        if isinstance(place, Mapping):
            seen += 1
            yield place
            left += place.values()
        elif isinstance(place, list):
            left += place[:MOST_NODES]
