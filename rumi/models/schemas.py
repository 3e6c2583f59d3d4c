"""Normalisation of foreign JSON schemas to the form that all model providers accept for a tool's arguments.

Providers refuse a whole request if one of its tools has a schema outside of their dialect, and each has a
dialect of its own. The form made here is the part that all of them share: an object with `properties`; one
type per value; unions only as `anyOf` below the top; no references; `items` in every array; valid keywords.
`rumi.models.schema_rules` removes what single providers refuse besides.

Sources of the rules: OpenAI, "Function calling" and "Structured outputs"; Anthropic, "Tool use"; Google,
"Gemini API: Schema"; Ollama's `api.ToolFunction`; llama.cpp's `json-schema-to-grammar`; reports of refused
requests.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rumi.errors import RumiError
from rumi.models.schema_keywords import (
    COUNTS,
    FORMATS,
    MOST_ENUM,
    MOST_NODES,
    Schema,
    bounds_of,
    definitions_of,
    enum_of,
    guessed,
    is_count,
    is_object,
    is_pattern,
    is_short_json,
    kinds_of,
    kinds_of_enum,
    kinds_of_value,
    properties_of,
    renamed_in,
)
from rumi.models.schema_unions import (
    SHARED,
    joined,
    may_be_object,
    merged,
    only_requires,
    unwrapped,
    with_choices,
)

MOST_CHARS: Final = 20_000
"""Maximum length of a normalised schema as JSON. A longer one loses details; then its tool is refused."""

_MOST_LEVELS: Final = 3
_DETAIL: Final = ((16, 4000, True), (8, 300, False), (4, 80, False), (3, 0, False))
"""Attempts to fit `MOST_CHARS`: maximum depth, longest description, and whether examples and titles stay."""

_COUNTS_OF: Final = {"string": COUNTS[:2], "array": COUNTS[2:]}


class SchemaError(RumiError):
    """A schema cannot be normalised. The message names the reason, without the schema's own text."""

    code = "schema"


@dataclass(frozen=True, slots=True)
class Normalised:
    """A normalised schema.

    `renamed` maps the names in `schema` of properties whose original names providers refuse, such as
    `filter[id]`, to these original names.
    """

    schema: Schema
    renamed: Mapping[str, str] = field(default_factory=dict)

    def original(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Return a model's arguments with the property names of the server's own schema, at any depth."""
        return {self.renamed.get(name, name): self._original(value) for name, value in arguments.items()}

    def renaming(self, schema: Mapping[str, object]) -> Mapping[str, object]:
        """Return the server's own schema with the names that models see."""
        back = {original: name for name, original in self.renamed.items()}
        return Normalised({}, back).original(schema) if back else schema

    def _original(self, value: object) -> object:
        if not self.renamed:
            return value
        if isinstance(value, Mapping):
            return self.original(value)
        return [self._original(item) for item in value] if isinstance(value, list) else value


def normalised(schema: object) -> Normalised:
    """Return a tool's schema in the form that all providers accept.

    A missing schema is one without arguments. What one place of the schema says and no provider would accept
    is left out there; a broken reference becomes a value of any kind.

    Raises:
        SchemaError: The schema is not one of an object, or it is too long.
    """
    if schema is None or isinstance(schema, bool):
        schema = {}
    if not isinstance(schema, Mapping):
        raise SchemaError("Its schema is not an object.")
    length = 0
    for depth, chars, examples in _DETAIL:
        walk = _Walk(schema, depth, chars, examples)
        found = _typed(walk.root())
        length = len(json.dumps(found))
        if length <= MOST_CHARS:
            return Normalised(found, walk.renamed)
    raise SchemaError("Its schema is too long: {length} characters.", length=length)


_SIMPLE: Final = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
_OBJECT: Final = {"type": "object", "properties": {}}
_ANYTHING: Final = [*_SIMPLE, _OBJECT, {"type": "array", "items": {"anyOf": [*_SIMPLE, _OBJECT]}}]


def _typed(schema: Schema) -> Schema:
    """Return a normalised schema in which values of any kind name the kinds, as some providers require."""
    found = dict(schema)
    if "properties" in found:
        found["properties"] = {name: _typed(value) for name, value in found["properties"].items()}
    for word in ("items", "additionalProperties"):
        if isinstance(found.get(word), dict):
            found[word] = _typed(found[word])
    if "anyOf" in found:
        found["anyOf"] = [_typed(branch) for branch in found["anyOf"]]
    elif "type" not in found:
        found = {"anyOf": _ANYTHING, **found}
    return found


class _Walk:
    """One pass over a schema."""

    def __init__(self, schema: Mapping[str, Any], depth: int, chars: int, examples: bool) -> None:
        self.renamed: dict[str, str] = {}
        self._schema = schema
        self._depth = depth
        self._chars = chars
        self._examples = examples
        self._left = MOST_NODES
        self._definitions = dict(definitions_of(schema))
        self._names = dict(renamed_in(schema))

    def root(self) -> Schema:
        schema = merged(self._resolved(unwrapped(self._schema), ()), self._branches_of_all)
        kinds = kinds_of(schema.get("type"))
        folded = self._folded(schema, ())
        if kinds and "object" not in kinds:
            raise SchemaError("Its arguments are not an object, but: {kinds}.", kinds=", ".join(kinds))
        if not kinds and folded is None:
            raise SchemaError("Its arguments are not an object.")
        found = self._object({**(folded or schema), "type": "object"}, 0, ())
        return {"type": "object", **found}

    def _branches_of_all(self, branch: object) -> Mapping[str, Any]:
        return self._resolved(branch, ())

    def _node(self, schema: object, depth: int, refs: tuple[str, ...]) -> Schema | None:
        """Return a normalised subschema; `{}` accepts any value. None if no value would be valid."""
        if schema is False:
            return None
        if isinstance(schema, str):
            schema = {"type": schema}
        self._left -= 1
        if not isinstance(schema, Mapping) or depth > self._depth or self._left < 0:
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if reference in refs:  # a recursive type: any value, described by the first level
                return self._text_of(schema)
            schema, refs = self._resolved(schema, refs), (*refs, reference)
        schema = merged(schema, lambda branch: self._resolved(branch, refs))
        kinds = kinds_of(schema.get("type"))
        nullable = schema.get("nullable") is True or (len(kinds) > 1 and "null" in kinds)
        enum = enum_of(schema)
        if enum is not None:
            nullable = nullable or (None in enum and len(enum) > 1)
            enum = [value for value in enum if value is not None] or enum
            kinds = kinds_of_enum(enum, kinds)
        kinds = [kind for kind in kinds if kind != "null"] or kinds
        branches = None
        if is_object(schema) and kinds in ([], ["object"]) and only_requires(schema):
            schema, kinds = self._folded(schema, refs) or schema, ["object"]
        else:
            branches = self._union(schema, depth, refs)
        text = self._text_of(schema)
        if branches is not None:
            found = branches
        elif len(kinds) > 1:
            found = [self._of_kind(schema, kind, enum, depth, refs) for kind in kinds]
        else:
            kind = kinds[0] if kinds else guessed(schema)
            found = [self._of_kind(schema, kind, enum, depth, refs)]
        if nullable and {"type": "null"} not in found and {} not in found:
            found.append({"type": "null"})
        found = [branch for at, branch in enumerate(found) if branch not in found[:at]]
        if len(found) == 1:
            return {**found[0], **text} if text.get("description") else {**text, **found[0]}
        return {"anyOf": found, **text}

    def _of_kind(
        self, schema: Mapping[str, Any], kind: str, enum: list[Any] | None, depth: int, refs: tuple[str, ...]
    ) -> Schema:
        """Return the part of a schema that describes the values of one type; `kind` may be empty."""
        found: Schema = {"type": kind} if kind else {}
        if enum is not None and kind != "null":
            of_kind = [value for value in enum if not kind or kind in kinds_of_value(value)]
            if of_kind and len(of_kind) <= MOST_ENUM:
                found["enum"] = of_kind
        if kind == "object":
            found |= self._object(schema, depth, refs)
        if kind == "array":
            found["items"] = self._items(schema, depth, refs)
        counts = _COUNTS_OF.get(kind, ())
        found |= {name: schema[name] for name in counts if is_count(schema.get(name))}
        if kind in ("integer", "number"):
            found |= bounds_of(schema)
        if kind == "string":
            if is_pattern(schema.get("pattern")):
                found["pattern"] = schema["pattern"]
            if schema.get("format") in FORMATS:
                found["format"] = schema["format"]
        return found

    def _object(self, schema: Mapping[str, Any], depth: int, refs: tuple[str, ...]) -> Schema:
        known, required = properties_of(schema)
        properties: Schema = {}
        forbidden = set()
        for name, value in known.items():
            node = self._node(value, depth + 1, refs)
            if node is None:
                forbidden.add(name)
            else:
                properties[self._name(name)] = node
        # A name that is required without a description still has to be given.
        for name in required:
            if name not in forbidden:
                properties.setdefault(self._name(name), {})
        found: Schema = {"properties": properties}
        needed = [self._name(name) for name in required if name not in forbidden]
        if needed:
            found["required"] = needed
        more = schema.get("additionalProperties")
        patterns = schema.get("patternProperties")
        if not isinstance(more, bool | Mapping) and isinstance(patterns, Mapping) and len(patterns) == 1:
            more = next(iter(patterns.values()))
        if more is False and not isinstance(patterns, Mapping):
            found["additionalProperties"] = False
        elif isinstance(more, Mapping) and (node := self._node(more, depth + 1, refs)):
            found["additionalProperties"] = node
        return found | (self._text_of(schema) if depth == 0 else {})

    def _name(self, name: str) -> str:
        if name in self._names:
            self.renamed[self._names[name]] = name
            return self._names[name]
        return name

    def _items(self, schema: Mapping[str, Any], depth: int, refs: tuple[str, ...]) -> Schema:
        items = schema.get("items")
        tuples = items if isinstance(items, list) else schema.get("prefixItems")
        if isinstance(tuples, list) and tuples:  # a tuple: each place has a schema of its own
            rest = [items] if isinstance(items, Mapping) else []
            return self._node({"anyOf": [*tuples, *rest]}, depth + 1, refs) or {}
        return self._node(items, depth + 1, refs) or {}

    def _union(self, schema: Mapping[str, Any], depth: int, refs: tuple[str, ...]) -> list[Schema] | None:
        """Return the branches of `anyOf` or `oneOf`; None if the schema has none that say anything."""
        for word in ("anyOf", "oneOf"):
            given = schema.get(word)
            if isinstance(given, list) and given:
                said = {name: value for name, value in schema.items() if name in SHARED}
                nodes = (
                    self._node({**said, **branch} if isinstance(branch, Mapping) else branch, depth + 1, refs)
                    for branch in given[:MOST_ENUM]
                )
                found = [branch for node in nodes if node is not None for branch in node.get("anyOf", [node])]
                return None if {} in found or not found else joined(found)
        return None

    def _folded(self, schema: Mapping[str, Any], refs: tuple[str, ...], level: int = 0) -> Schema | None:
        """Return an object schema with its unions folded into one set of properties; None if it is no object.

        What the unions say besides (`give a, or b and c`) moves into the description.
        """
        found = dict(schema)
        for word in ("anyOf", "oneOf"):
            given = found.pop(word, None)
            if not isinstance(given, list) or not given or level > _MOST_LEVELS:
                continue
            branches = [
                merged(self._resolved(branch, refs), lambda inner: self._resolved(inner, refs))
                for branch in given[:MOST_ENUM]
                if isinstance(branch, Mapping)
            ]
            objects = [branch for branch in branches if may_be_object(branch)]
            if not objects and not is_object(schema):
                return None
            if objects:
                found = with_choices(
                    found, [self._folded(branch, refs, level + 1) or {} for branch in objects]
                )
        return found

    def _resolved(self, schema: object, refs: tuple[str, ...]) -> Mapping[str, Any]:
        """Return a schema with its own `$ref` replaced by the target; `{}` if the target does not exist."""
        found: Mapping[str, Any] = schema if isinstance(schema, Mapping) else {}
        seen = set(refs)
        while isinstance(reference := found.get("$ref"), str):
            beside = {name: value for name, value in found.items() if name != "$ref"}
            target = None if reference in seen else self._target(reference)
            seen.add(reference)
            found = {**(target if isinstance(target, Mapping) else {}), **beside}
            if target is None:
                break
        return {name: value for name, value in found.items() if name != "$ref"}

    def _target(self, reference: str) -> object:
        """Return what a reference points to: by its path, else the definition of that name anywhere."""
        pointer, found = reference.partition("#")[2], None
        if reference.startswith("#"):
            found = self._schema
            for step in filter(None, pointer.split("/")):
                name = step.replace("~1", "/").replace("~0", "~").replace("%24", "$").replace("%20", " ")
                found = found.get(name) if isinstance(found, Mapping) else None
        if found is None:
            return self._definitions.get(reference.rpartition("/")[2])
        return found

    def _text_of(self, schema: Mapping[str, Any]) -> Schema:
        """Return the texts of a schema for the model. Facts that no keyword can carry become words."""
        description = schema.get("description")
        if isinstance(description, list):
            description = " ".join(map(str, description))
        text = description if isinstance(description, str) else ""
        if isinstance(form := schema.get("format"), str) and form not in FORMATS:
            text = f"{text} (format: {form})"
        if isinstance(enum := schema.get("enum"), list) and len(enum) > MOST_ENUM:
            text = f"{text} (one of {len(enum)}, such as: {', '.join(map(str, enum[:20]))})"
        found: Schema = {}
        if isinstance(schema.get("title"), str) and self._examples:
            found["title"] = schema["title"]
        if text.strip() and self._chars:
            found["description"] = text.strip()[: self._chars].strip()
        if self._examples:
            default = schema.get("default")
            if default is not None and is_short_json(default):
                found["default"] = default
            examples = schema.get("examples")
            if isinstance(examples, list) and examples and is_short_json(examples):
                found["examples"] = examples
        return found
