"""Reading Telegram's JSON a field at a time.

The library's own classes insist on every field of everything that stands in a message, and Telegram adds to
those all the time: a poll of another version, quoted in an answer, would hide the words of that answer.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Fields: TypeAlias = Mapping[str, Any]


class OddField(ValueError):
    """A field holds something else than Telegram says. Its text names the field only."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the field {name} is odd")


def number(fields: Fields, name: str) -> int:
    """A number that has to be there, small enough for any database.

    Raises:
        OddField: it is not.
    """
    found = number_or_none(fields, name)
    if found is None:
        raise OddField(name)
    return found


def number_or_none(fields: Fields, name: str) -> int | None:
    """A number that may be missing.

    Raises:
        OddField: it is something else.
    """
    found = fields.get(name)
    # Not isinstance: True is no number. Telegram promises at most 52 bits.
    if found is None or (type(found) is int and abs(found) < 2**53):
        return found
    raise OddField(name)


def text_or_none(fields: Fields, name: str) -> str | None:
    """A text that may be missing.

    Raises:
        OddField: it is something else.
    """
    found = fields.get(name)
    if found is None or isinstance(found, str):
        return found
    raise OddField(name)


def record(fields: Fields, name: str) -> Fields:
    """An object that has to be there.

    Raises:
        OddField: it is not.
    """
    found = record_or_none(fields, name)
    if found is None:
        raise OddField(name)
    return found


def record_or_none(fields: Fields, name: str) -> Fields | None:
    """An object that may be missing.

    Raises:
        OddField: it is something else.
    """
    found = fields.get(name)
    if found is None or isinstance(found, dict):
        return found
    raise OddField(name)


def records(fields: Fields, name: str) -> Sequence[Fields]:
    """A list of objects, empty where it is missing.

    Raises:
        OddField: it is something else.
    """
    found = fields.get(name)
    if found is None:
        return ()
    if isinstance(found, list) and all(isinstance(one, dict) for one in found):
        return found
    raise OddField(name)


def flag(fields: Fields, name: str) -> bool:
    """Whether something is said to be so."""
    return fields.get(name) is True
