"""What single providers refuse in a tool's schema besides what `rumi.models.schemas` has normalised.

- `open`: nothing more. OpenAI, Groq, Anthropic, Mistral, Ollama and others.
- `gemini`: Gemini knows the fields of its own `Schema` only, and refuses a request with any other field.
- `grammar`: llama.cpp makes one grammar of all tools; patterns and large counts make it fail.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from rumi.models.model import ToolSpec
from rumi.models.schema_keywords import COUNTS
from rumi.platform.config.providers import SchemaRules

_GEMINI: Final = frozenset(
    {
        *("type", "description", "enum", "properties", "required", "items", "anyOf", "nullable"),
        *("minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength"),
    }
)
_GRAMMAR_FORMATS: Final = frozenset({"date", "time", "date-time", "uuid"})
_GRAMMAR_REPEATS: Final = 200
"""Largest count that llama.cpp gets: it multiplies the counts of nested values, and refuses about 2,000."""

_MOST_SPECS: Final = 2048


def sent_schema(tool: ToolSpec, rules: SchemaRules) -> Mapping[str, object]:
    """Return a tool's schema as a provider with these rules accepts it. Callers must not change it."""
    return tool.parsed if rules == "open" else _reduced(tool.schema, rules)


@lru_cache(_MOST_SPECS)
def _reduced(schema: str, rules: SchemaRules) -> Mapping[str, object]:
    parsed: dict[str, Any] = json.loads(schema)
    found = _for_gemini(parsed) if rules == "gemini" else _for_grammar(parsed)
    found.pop("nullable", None)
    return found


def _for_gemini(schema: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in schema.items() if name in _GEMINI}
    said = [str(found.get("description") or "")]
    for word, inclusive in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if word in schema:
            found.setdefault(inclusive, schema[word])
            said.append(f"({word}: {schema[word]})")
    said += [f"({word}: {schema[word]})" for word in ("pattern", "format", "multipleOf") if word in schema]
    if schema.get("format") == "date-time":
        found["format"] = said.pop() and "date-time"
    enum = found.pop("enum", None)
    if enum and found.get("type") == "string" and all(enum):
        found["enum"] = enum
    elif enum:  # Gemini takes lists of texts only, without an empty one
        said.append(f"One of: {', '.join(json.dumps(value) for value in enum[:100])}")
    if "properties" in found:
        found["properties"] = {name: _for_gemini(value) for name, value in found["properties"].items()}
        found["required"] = [name for name in found.get("required", ()) if name in found["properties"]]
        if not found["required"]:
            del found["required"]
    if "items" in found:
        found["items"] = _for_gemini(found["items"])
    if found.get("type") == "null":
        found |= {"type": "string", "nullable": True}
    if "anyOf" in found:
        found = _union_for_gemini(found)
    text = " ".join(part for part in said if part)
    found.pop("description", None)
    return _describing(found, text) if text else found


def _describing(found: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return a schema with a description; in a union, its first branch gets it, which may have fields."""
    if "anyOf" not in found:
        return {**found, "description": text}
    first, *others = found["anyOf"]
    first = _describing(first, f"{text} {first.get('description', '')}".strip())
    return {**found, "anyOf": [first, *others]}


def _union_for_gemini(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a union without the type null, which becomes `nullable`, and with no other field beside it."""
    branches = [_for_gemini(branch) for branch in found["anyOf"] if branch.get("type") != "null"]
    if len(branches) < len(found["anyOf"]):
        branches[0] = {**branches[0], "nullable": True}
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


def _for_grammar(schema: Mapping[str, Any], *, root: bool = True) -> dict[str, Any]:
    found = dict(schema)
    if not root and not found.get("properties") and "additionalProperties" not in found:
        found.pop("properties", None)  # with an empty list of properties, the grammar takes `{}` only
    said = [str(found.get("description") or "")]
    if "pattern" in found:
        said.append(f"(pattern: {found.pop('pattern')})")
    if found.get("format", "date") not in _GRAMMAR_FORMATS:
        said.append(f"(format: {found.pop('format')})")
    large = [word for word in COUNTS if found.get(word, 0) > _GRAMMAR_REPEATS]
    said += [f"({word}: {found.pop(word)})" for word in large]
    if "properties" in found:
        found["properties"] = {
            name: _for_grammar(value, root=False) for name, value in found["properties"].items()
        }
    for word in ("items", "additionalProperties"):
        if isinstance(found.get(word), Mapping):
            found[word] = _for_grammar(found[word], root=False)
    if "anyOf" in found:
        found["anyOf"] = [_for_grammar(branch, root=False) for branch in found["anyOf"]]
    if text := " ".join(part for part in said if part):
        found["description"] = text
    return found
