"""Typed access to Telegram's JSON, field by field.

The library's own classes require every field of every object in a message, and Telegram often adds fields: a
poll of another version, quoted in an answer, would make the whole answer unreadable.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Fields: TypeAlias = Mapping[str, Any]


class OddField(ValueError):
    """A field differs from Telegram's documentation. The error's text has only the field's name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the field {name} is odd")


def number(fields: Fields, name: str) -> int:
    """Return a required number of at most 53 bits, which any database can store.

    Raises:
        OddField: The field is missing or not a number.
    """
    found = number_or_none(fields, name)
    if found is None:
        raise OddField(name)
    return found


def number_or_none(fields: Fields, name: str) -> int | None:
    """Return an optional number.

    Raises:
        OddField: The field is not a number.
    """
    found = fields.get(name)
    # Not isinstance: True is not a number here. Telegram promises at most 52 bits.
    if found is None or (type(found) is int and abs(found) < 2**53):
        return found
    raise OddField(name)


def text_or_none(fields: Fields, name: str) -> str | None:
    """Return an optional text.

    Raises:
        OddField: The field is not a text.
    """
    found = fields.get(name)
    if found is None or isinstance(found, str):
        return found
    raise OddField(name)


def record(fields: Fields, name: str) -> Fields:
    """Return a required object.

    Raises:
        OddField: The field is missing or not an object.
    """
    found = record_or_none(fields, name)
    if found is None:
        raise OddField(name)
    return found


def record_or_none(fields: Fields, name: str) -> Fields | None:
    """Return an optional object.

    Raises:
        OddField: The field is not an object.
    """
    found = fields.get(name)
    if found is None or isinstance(found, dict):
        return found
    raise OddField(name)


def records(fields: Fields, name: str) -> Sequence[Fields]:
    """Return a list of objects, empty if the field is missing.

    Raises:
        OddField: The field is not a list of objects.
    """
    found = fields.get(name)
    if found is None:
        return ()
    if isinstance(found, list) and all(isinstance(one, dict) for one in found):
        return found
    raise OddField(name)


def flag(fields: Fields, name: str) -> bool:
    """Return True if the flag is set."""
    return fields.get(name) is True
