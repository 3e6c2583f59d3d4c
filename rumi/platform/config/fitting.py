"""Fits values to the types of settings where only one meaning is possible, whatever their source.

People write `allowed_users = 111` for a list of one, and `"30"` for a number. Everything else stays as it
is, and the schema refuses it.
"""

import json
import re
import tomllib
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

_WORDS: Final = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,30}")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")


def types_in(annotation: Any) -> set[Any]:
    """Return the plain types in a type annotation; a union is split into its members."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return types_in(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return {found for argument in get_args(annotation) for found in types_in(argument)}
    return {origin or annotation}


def fitted(annotation: Any, value: object) -> object:
    """Return the value as the annotation's type, if only one meaning is possible; otherwise the value itself.

    A single value becomes a list of one. Lists may be texts as well: JSON, or numbers between commas or
    spaces. Quoted numbers become numbers, and `yes`, `no`, 1 and 0 become truth values.
    """
    types = types_in(annotation)
    if tuple in types:
        return _items(annotation, value)
    if isinstance(value, str):
        text = value.strip()
        if bool in types and text.casefold() in _WORDS:
            return _WORDS[text.casefold()]
        if int in types and _WHOLE.fullmatch(text):
            return int(text)
        if float in types and _NUMBER.fullmatch(text):
            return float(text)
        if bool in types and text in ("0", "1"):
            return text == "1"
    elif type(value) is int and bool in types and int not in types and value in (0, 1):
        return bool(value)
    return value


def _items(annotation: Any, value: object) -> object:
    """Return a value that stands for a list as a tuple; otherwise the value itself."""
    if type(value) in (int, float):
        return (value,)
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.startswith("["):
        found = _list_in(text)
        return value if found is None else found
    if text.startswith('"'):
        try:
            text = json.loads(text)
        except ValueError:
            return value
        if not isinstance(text, str):
            return value
    if int in _types_of_items(annotation):
        items = [item for item in re.split(r"[\s,;]+", text) if item]
        return tuple(int(item) if _WHOLE.fullmatch(item) else item for item in items)
    # A comma may be part of a single text, such as a version: numpy>=2,<3
    return value if "," in text or not text else (text,)


def _list_in(text: str) -> tuple[object, ...] | None:
    """Read a list in JSON or TOML; return None if the text is neither."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        try:
            found = tomllib.loads(f"list = {text}")["list"]
        except (ValueError, RecursionError):
            return None
    return tuple(_frozen(item) for item in found) if isinstance(found, list) else None


def _frozen(value: object) -> object:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _types_of_items(annotation: Any) -> set[Any]:
    """Return the plain types of a list's items."""
    if get_origin(annotation) is tuple:
        return types_in(get_args(annotation)[0])
    return {found for argument in get_args(annotation) for found in _types_of_items(argument)}
