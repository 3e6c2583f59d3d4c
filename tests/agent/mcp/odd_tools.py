"""Definitions of tools as real servers send them, and worse, with what a model must be able to give."""

from typing import Any, Final

OBJECT: Final[dict[str, Any]] = {"type": "object", "properties": {"q": {"type": "string"}}}


def holding(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object with these properties."""
    return {"type": "object", "properties": properties}


def nested(depth: int) -> dict[str, Any]:
    """Return a schema that many levels deep."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = holding(deeper=schema)
    return schema


ROUTE: Final = {"route": {"type": "string"}, "file": {"type": "string"}}
TREE: Final = {
    "Node": holding(name={"type": "string"}, children={"type": "array", "items": {"$ref": "#/$defs/Node"}})
}

USABLE: Final[dict[str, tuple[Any, set[str]]]] = {
    # roots
    "no properties": ({"type": "object"}, set()),
    "no schema": (None, set()),
    "an empty schema": ({}, set()),
    "true": (True, set()),
    "only $schema": ({"$schema": "http://json-schema.org/draft-07/schema#"}, set()),
    "no type at the top": ({"properties": {"q": {"type": "string"}}, "required": ["q"]}, {"q"}),
    "properties as an empty list": ({"type": "object", "properties": [], "required": []}, set()),
    "properties null": ({"type": "object", "properties": None, "required": None}, set()),
    "properties as a list": ({"type": "object", "properties": [{"name": "q", "type": "string"}]}, {"q"}),
    "properties alone": ({"query": {"type": "string"}, "limit": {"type": "integer"}}, {"query", "limit"}),
    "a list of types at the top": ({"type": ["object", "null"], "properties": {"q": {}}}, {"q"}),
    "capital types": ({"type": "OBJECT", "properties": {"q": {"type": "STRING"}}}, {"q"}),
    "anyOf that requires": (
        {"type": "object", "properties": ROUTE, "anyOf": [{"required": ["route"]}, {"required": ["file"]}]},
        {"route", "file"},
    ),
    "anyOf that requires what is not there": (
        {**holding(a={"type": "string"}), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"a", "b"},
    ),
    "oneOf objects without type": (
        {"oneOf": [holding(a={"type": "string"}), {**holding(b={"type": "integer"}), "required": ["b"]}]},
        {"a", "b"},
    ),
    "a union with a tag": (
        {
            "type": "object",
            "oneOf": [
                {"properties": {"kind": {"const": "a"}, "x": {"type": "string"}}, "required": ["kind", "x"]},
                {"properties": {"kind": {"const": "b"}, "y": {"type": "string"}}, "required": ["kind"]},
            ],
        },
        {"kind", "x", "y"},
    ),
    "allOf of references": (
        {
            "allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": {"type": "string"}}}],
            "$defs": {"A": {**holding(a={"type": "string"}), "required": ["a"]}},
        },
        {"a", "b"},
    ),
    "a reference at the top": (
        {"$ref": "#/definitions/Args", "definitions": {"Args": holding(q={"type": "string"})}},
        {"q"},
    ),
    "if, then and else": (
        {
            **holding(kind={"type": "string"}),
            "if": {"properties": {"kind": {"const": "a"}}},
            "then": {"properties": {"x": {"type": "string"}}},
            "else": {"properties": {"y": {"type": "string"}}},
        },
        {"kind", "x", "y"},
    ),
    "not at the top": ({**holding(q={}), "not": {"required": ["q", "r"]}}, {"q"}),
    "enum at the top": ({**holding(q={}), "enum": [{"q": 1}]}, {"q"}),
    # references
    "a dangling reference": (holding(a={"$ref": "#/$defs/Missing", "description": "An a"}), {"a"}),
    "a reference to itself": (holding(a={"$ref": "#"}), {"a"}),
    "a recursive type": ({**holding(tree={"$ref": "#/$defs/Node"}), "$defs": TREE}, {"tree"}),
    "a reference to a file": (holding(a={"$ref": "https://example.org/schema.json"}), {"a"}),
    "a reference by an inner definition": (
        holding(a={**holding(b={"$ref": "#/$defs/B"}), "$defs": {"B": {"type": "string"}}}),
        {"a"},
    ),
    "references in a ring": (
        {
            **holding(a={"$ref": "#/$defs/A"}),
            "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
        },
        {"a"},
    ),
    "anyOf with itself": ({"anyOf": [{"$ref": "#"}, holding(q={"type": "string"})]}, {"q"}),
    # values
    "an array without items": (holding(a={"type": "array"}), {"a"}),
    "items true": (holding(a={"type": "array", "items": True}), {"a"}),
    "a tuple": (holding(a={"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}), {"a"}),
    "prefixItems": (
        holding(a={"type": "array", "prefixItems": [{"type": "number"}] * 2, "items": False}),
        {"a"},
    ),
    "an object without properties": (holding(a={"type": "object"}), {"a"}),
    "a list of types": (holding(a={"type": ["string", "null"]}, b={"type": ["string", "array"]}), {"a", "b"}),
    "unknown types": (
        holding(a={"type": "any"}, b={"type": "int"}, c={"type": "list[str]"}, d={"type": None}),
        set("abcd"),
    ),
    "const": (holding(a={"const": "x"}, b={"const": 3}, c={"const": None}), set("abc")),
    "an empty enum": (holding(a={"type": "string", "enum": []}), {"a"}),
    "an enum null": (holding(a={"type": "string", "enum": None}), {"a"}),
    "an enum of several types": (holding(a={"enum": ["a", 1, True, None]}), {"a"}),
    "numbers in an enum": (holding(a={"type": "integer", "enum": [1, 2]}), {"a"}),
    "an enum that its type contradicts": (holding(a={"type": "string", "enum": [1, 2]}), {"a"}),
    "an empty text in an enum": (holding(a={"type": "string", "enum": ["", "x"]}), {"a"}),
    "a long enum": (holding(a={"type": "string", "enum": [f"v{n}" for n in range(2000)]}), {"a"}),
    "an enum of objects": (holding(a={"enum": [{"x": 1}]}), {"a"}),
    "nullable": (holding(a={"type": "string", "nullable": True}), {"a"}),
    "nested unions": (
        holding(a={"anyOf": [{"type": "string"}, {"oneOf": [{"type": "integer"}, {"type": "null"}]}]}),
        {"a"},
    ),
    "a union beside a type": (
        holding(a={"type": "string", "anyOf": [{"format": "date"}, {"pattern": "^x$"}]}),
        {"a"},
    ),
    "an empty union": (holding(a={"anyOf": []}, b={"oneOf": [{}]}), {"a", "b"}),
    "boolean schemas": (holding(a=True, b=False, c={"type": "string"}), {"a", "c"}),
    "properties that are no schemas": (
        {"type": "object", "properties": {"a": {}, "type": "object", "b": "string", "c": 3}},
        {"a", "b"},
    ),
    "required inside properties": (
        {"type": "object", "properties": {"coin": {"type": "string"}, "required": ["coin"]}},
        {"coin"},
    ),
    "required as a boolean": (holding(a={"type": "string", "required": True}), {"a"}),
    "required as an object": ({**holding(a={}), "required": {}}, {"a"}),
    "required names that are not there": (
        {**holding(a={}), "required": ["a", "ghost", "a", 7]},
        {"a", "ghost"},
    ),
    "an unknown format": (holding(a={"type": "string", "format": "int-or-string"}), {"a"}),
    "a known format": (
        holding(a={"type": "string", "format": "uri"}, b={"type": "string", "format": "date-time"}),
        {"a", "b"},
    ),
    "a pattern with a lookahead": (holding(a={"type": "string", "pattern": "^(?!x).*$"}), {"a"}),
    "a broken pattern": (holding(a={"type": "string", "pattern": "[a-"}), {"a"}),
    "a pattern without anchors": (holding(a={"type": "string", "pattern": "\\d{4}-\\d{2}"}), {"a"}),
    "huge counts": (
        holding(a={"type": "string", "maxLength": 10**18}, b={"type": "string", "maxLength": 10_000}),
        {"a", "b"},
    ),
    "counts of wrong types": (holding(a={"type": "string", "minLength": "1", "maxLength": None}), {"a"}),
    "bounds as in draft 4": (holding(a={"type": "integer", "minimum": 0, "exclusiveMinimum": True}), {"a"}),
    "exclusive bounds": (holding(a={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 9}), {"a"}),
    "infinite bounds": (holding(a={"type": "number", "maximum": float("inf"), "multipleOf": 0}), {"a"}),
    "a default NaN": (holding(a={"type": "number", "default": float("nan")}), {"a"}),
    "a default null": (holding(a={"type": "string", "default": None}), {"a"}),
    "additionalProperties in all forms": (
        holding(
            a={"type": "object", "additionalProperties": True},
            b={"type": "object", "additionalProperties": {"type": "string"}},
            c={"type": "object", "additionalProperties": "string"},
            d={
                "type": "object",
                "patternProperties": {"^x": {"type": "integer"}},
                "additionalProperties": False,
            },
        ),
        set("abcd"),
    ),
    "more keywords": (
        holding(
            a={
                "type": "string",
                "$comment": "x",
                "x-order": 1,
                "deprecated": True,
                "examples": ["a"],
                "readOnly": True,
            }
        ),
        {"a"},
    ),
    "descriptions of wrong types": (
        holding(a={"description": None}, b={"description": ["x", "y"]}, c={"title": 4}),
        set("abc"),
    ),
    "a hundred levels": (nested(100), {"deeper"}),
    "a huge description": (holding(a={"type": "string", "description": "long " * 20_000}), {"a"}),
    "five hundred properties": (
        holding(**{f"p{n}": {"type": "string", "description": "x" * 200} for n in range(500)}),
        {"p0", "p499"},
    ),
    "definitions that double": (
        {
            **holding(a={"$ref": "#/$defs/D20"}),
            "$defs": {
                "D0": {"type": "string"},
                **{
                    f"D{n}": holding(l={"$ref": f"#/$defs/D{n - 1}"}, r={"$ref": f"#/$defs/D{n - 1}"})
                    for n in range(1, 21)
                },
            },
        },
        {"a"},
    ),
}
"""Schemas whose tools stay usable, and the names of the arguments that a model must see."""

WITHHELD: Final[dict[str, Any]] = {
    "a text": {"type": "string"},
    "an array": {"type": "array", "items": {"type": "string"}},
    "a union of texts": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    "not even a schema": "object",
    "a list": [{"type": "object"}],
    "too long": holding(
        **{
            f"property_{n}": {"type": "string", "enum": [f"value {n}-{m}" for m in range(20)]}
            for n in range(300)
        }
    ),
}
"""Schemas that no model can be given."""

STRANGE_KEYS: Final = (
    "filter[id]",
    "$top",
    "año",
    "with space",
    "x" * 80,
    "a:b",
    "@type",
    "",
    "projects.any",
)
