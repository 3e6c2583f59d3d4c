"""Values in texts of models: JSON, JSON inside JSON, and Python literals."""

import ast
import json
from typing import Final

MAX_LITERAL_CHARS: Final = 100_000
"""Longer texts are not parsed as Python literals."""


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
    return value if isinstance(value, dict) and all(isinstance(key, str) for key in value) else None


def json_value(text: str) -> object:
    """Return a text's JSON value, which may have line breaks in its strings; None if it has none."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def literal(text: str) -> object:
    """Return the value of a Python literal; None if the text is none, or has no form in JSON."""
    if len(text) > MAX_LITERAL_CHARS:
        return None
    try:
        value = ast.literal_eval(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    return value


def dumped(value: object) -> str:
    """Return a value as JSON."""
    return json.dumps(value, ensure_ascii=False)
