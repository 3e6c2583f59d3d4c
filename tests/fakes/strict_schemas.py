"""Providers that judge the tools of a request as the real ones do: each returns its refusal, or None.

The rules are those of public documents and of reports of refused requests (see docs/mcp.md, "Odd schemas").
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from jsonschema import Draft7Validator, Draft202012Validator
from jsonschema.exceptions import SchemaError

Judge = Callable[[str, Mapping[str, Any]], str | None]

OPENAI_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
GEMINI_FIELDS: Final = frozenset(
    {
        *("type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties"),
        *("required", "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example"),
        *("anyOf", "propertyOrdering", "default", "items", "minimum", "maximum"),
    }
)


def places(schema: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each subschema with its path."""
    yield path, schema
    if isinstance(schema, Mapping):
        for name, value in (schema.get("properties") or {}).items():
            yield from places(value, f"{path}.{name}")
        for word in ("items", "additionalProperties"):
            if isinstance(schema.get(word), Mapping):
                yield from places(schema[word], f"{path}.{word}")
        for branch in schema.get("anyOf") or []:
            yield from places(branch, f"{path}.anyOf")


def _invalid(schema: Any, validator: Any) -> str | None:
    return _checked(json.dumps(schema), validator)


@lru_cache
def _checked(schema: str, validator: Any) -> str | None:
    try:
        validator.check_schema(json.loads(schema))
    except SchemaError as error:
        return f"{error.message}"
    return None


def openai(name: str, schema: Mapping[str, Any]) -> str | None:
    """Judge like OpenAI's chat completions, without `strict`."""
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
        return "Invalid 'tools[0].function.name': string does not match pattern"
    if schema.get("type") != "object":
        return f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'"
    if not {"oneOf", "anyOf", "allOf", "enum", "not"}.isdisjoint(schema):
        return "schema must not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"
    if refused := _invalid(schema, Draft202012Validator):
        return refused
    if "NaN" in json.dumps(schema) or "Infinity" in json.dumps(schema):
        return "could not parse the JSON body of your request"
    for path, place in places(schema):
        if not isinstance(place, Mapping):
            return f"In context={path}, {place} is not an object"
        if place.get("type") == "object" and "properties" not in place:
            return f"In context={path}, object schema missing properties"
        if place.get("type") == "array" and not isinstance(place.get("items"), Mapping):
            return f"In context={path}, array schema missing items"
        if "$ref" in place:
            return f"In context={path}, reference to component {place['$ref']} which was not found"
        if "enum" in place and not place["enum"]:
            return f"In context={path}, [] should be non-empty"
        if "type" not in place and "anyOf" not in place:
            return f"In context={path}, schema must have a 'type' key."
        if place.get("format", "date") not in OPENAI_FORMATS:
            return f"In context={path}, {place['format']!r} is not a valid format."
        if re.search(r"\(\?[=!<]", str(place.get("pattern", ""))):
            return f"In context={path}, lookaround is not supported"
    return None


def groq(name: str, schema: Mapping[str, Any]) -> str | None:
    """Judge like Groq."""
    if "required" in schema and "properties" not in schema:
        return "`required` present but `properties` missing"
    for path, place in places(schema):
        if set(place.get("required", ())) - set(place.get("properties", ())):
            return f"{path}: required names a property that is not there"
    return openai(name, schema) or _invalid(schema, Draft7Validator)


def anthropic(name: str, schema: Mapping[str, Any]) -> str | None:
    """Judge like Anthropic's messages API."""
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", name):
        return "tools.0.custom.name: String should match pattern"
    if schema.get("type") != "object":
        return "tools.0.custom.input_schema.type: Field required"
    if not {"oneOf", "anyOf", "allOf"}.isdisjoint(schema):
        return "input_schema does not support oneOf, allOf, or anyOf at the top level"
    for _, place in places(schema):
        for key in place.get("properties", {}):
            if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key):
                return "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
        if str(place.get("$ref", "#")) != "#":
            return "JSON schema is invalid. Cannot resolve a reference"
    return _invalid(schema, Draft202012Validator) and "JSON schema is invalid. It must match draft 2020-12"


def gemini(name: str, schema: Mapping[str, Any]) -> str | None:
    """Judge like Gemini's function declarations."""
    if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}", name):
        return "Invalid function name"
    if schema.get("type") != "object":
        return "parameters schema should be of type OBJECT"
    for path, place in places(schema):
        for key in place:
            if key not in GEMINI_FIELDS:
                return f'Unknown name "{key}" at {path}: Cannot find field.'
        if "anyOf" in place:
            if not place["anyOf"] or set(place) != {"anyOf"}:
                return f"{path}: when using any_of, it must be the only field set"
            continue
        if not isinstance(place.get("type"), str):
            return f"{path}.type: must be specified"
        if place["type"] == "null":
            return f"{path}.type: invalid value"
        if place["type"] == "array" and not place.get("items"):
            return f"{path}.items: missing field"
        if "enum" in place and place["type"] != "string":
            return f"{path}.enum: only allowed for STRING type"
        for value in place.get("enum", ()):
            if not isinstance(value, str) or not value:
                return f"{path}.enum[0]: cannot be empty"
        if place["type"] == "string" and place.get("format", "enum") not in ("enum", "date-time"):
            return f"{path}.format: only 'enum' and 'date-time' are supported for STRING type"
        for one in place.get("required", ()):
            if one not in place.get("properties", {}):
                return f"{path}.required[0]: property is not defined"
    return None


def ollama(name: str, schema: Mapping[str, Any]) -> str | None:
    """Judge like the Go structures of Ollama's API."""
    if not isinstance(schema.get("type"), str):
        return (
            "json: cannot unmarshal array into Go struct field .tools.function.parameters.type of type string"
        )
    if not all(isinstance(one, str) for one in schema.get("required", [])):
        return "json: cannot unmarshal into Go struct field .required of type []string"
    for path, place in places(schema):
        if not isinstance(place, Mapping):
            return f"json: cannot unmarshal {place} into Go struct field {path} of type api.ToolProperty"
        if not isinstance(place.get("type", ""), str):  # as its versions before 0.7
            return f"json: cannot unmarshal array into Go struct field {path}.type of type string"
        if not isinstance(place.get("description", ""), str):
            return f"json: cannot unmarshal into Go struct field {path}.description of type string"
        if not isinstance(place.get("enum", []), list):
            return f"json: cannot unmarshal into Go struct field {path}.enum of type []interface"
    return None


def llamacpp(name: str, schema: Mapping[str, Any]) -> str | None:
    """Judge like llama.cpp's conversion of schemas to grammars."""
    for path, place in places(schema):
        pattern = str(place.get("pattern", ""))
        if pattern and not (pattern.startswith("^") and pattern.endswith("$")):
            return "JSON schema conversion failed: Pattern must start with '^' and end with '$'"
        if re.search(r"\\[dwsDWSb]|\(\?", pattern):
            return "Failed to initialize samplers: failed to parse grammar"
        for word in ("maxLength", "minLength", "maxItems", "minItems"):
            if place.get(word, 0) > 2000:
                return "number of repetitions exceeds sane defaults"
        if place.get("type") not in (
            None,
            "object",
            "array",
            "string",
            "integer",
            "number",
            "boolean",
            "null",
        ):
            return f"Unrecognized schema: {path}"
        if "$ref" in place:
            return f"Error resolving ref {place['$ref']}"
    return None


def mistral(name: str, schema: Mapping[str, Any]) -> str | None:
    """Judge like Mistral."""
    return openai(name, schema)


JUDGES: Final[Mapping[str, Judge]] = {
    "groq": groq,
    "openai": openai,
    "anthropic": anthropic,
    "gemini": gemini,
    "mistral": mistral,
    "ollama": ollama,
    "llamacpp": llamacpp,
}
"""The judge of each scheme of a model's name."""
