"""Values in texts of models: JSON, JSON inside JSON, and Python literals."""

import json
from typing import Final

from rumi.models.dialects.literals import literal

_JSON: Final = json.JSONDecoder(strict=False)


def arguments_in(text: str) -> dict[str, object] | None:
    """Return the object that a call's arguments mean; None if they do not certainly mean one.

    They may be JSON, JSON inside a JSON string or a fenced block, or a Python literal.
    """
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text.removesuffix("```").partition("\n")[2].strip()
    value = json_value(text)
    if isinstance(value, str):
        value = json_value(value)
    if value is None and text.startswith("{"):
        value = literal(text)
    if value is None:
        value = _first(text)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, dict) and all(isinstance(key, str) for key in value) else None


def _first(text: str) -> object:
    """Return the first JSON value of a text if only its repetition, or brackets too many, follow it."""
    try:
        value, end = _JSON.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    rest = text[end:].strip()
    return value if rest.strip("}] \n") == "" or rest == text[:end].strip() else None


def json_value(text: str) -> object:
    """Return a text's JSON value, which may have line breaks in its strings; None if it has none."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def dumped(value: object) -> str:
    """Return a value as JSON."""
    return json.dumps(value, ensure_ascii=False)
