"""Parsing of IMAP responses: lists of atoms, strings and literals, as `imaplib` returns them."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

Value: TypeAlias = Any
"""A `str` for an atom, `bytes` for a string or a literal, None for NIL, or a list of values."""

_TOKEN: Final = re.compile(
    rb'[ \t]*(?:(\()|(\))|"((?:[^"\\]|\\.)*)"|\{(\d+)\+?\}$|([^()\s"\[]+(?:\[[^\]]*\](?:<\d+>)?)?|\S))'
)
_ESCAPED: Final = re.compile(rb"\\(.)", re.DOTALL)
_MOST_DEPTH: Final = 100


def responses_in(data: Sequence[object]) -> Iterator[list[Value]]:
    """Yield the values of each untagged response in what `imaplib` collected for one kind of response.

    A response with literals comes as tuples, of the text up to the literal and the literal, and ends with
    bytes; one without literals is bytes.
    """
    pieces: list[tuple[bytes, bytes | None]] = []
    for item in data:
        if isinstance(item, tuple):
            pieces.append((bytes(item[0]), bytes(item[1])))
        elif isinstance(item, bytes):
            yield _parsed([*pieces, (item, None)])
            pieces = []


def _parsed(pieces: Sequence[tuple[bytes, bytes | None]]) -> list[Value]:
    root: list[Value] = []
    open_lists = [root]
    for text, literal in pieces:
        for found in _TOKEN.finditer(text):
            opening, closing, quoted, size, atom = found.groups()
            if opening:
                inner: list[Value] = []
                open_lists[-1].append(inner)
                if len(open_lists) < _MOST_DEPTH:
                    open_lists.append(inner)
            elif closing:
                if len(open_lists) > 1:
                    open_lists.pop()
            elif quoted is not None:
                open_lists[-1].append(_ESCAPED.sub(rb"\1", quoted))
            elif size is not None:
                open_lists[-1].append(literal or b"")
            elif atom is not None:
                word = atom.decode("utf-8", "replace")
                open_lists[-1].append(None if word.upper() == "NIL" else word)
    return root


def fields_of(values: Sequence[Value]) -> dict[str, Value]:
    """Return the fields of a FETCH response: `12 (UID 5 FLAGS (...) ...)`.

    The name of a body's part is `BODY[...]`, without the position at which it starts.
    """
    found = next((value for value in values if isinstance(value, list)), [])
    names = found[::2]
    return {
        re.sub(r"<\d+>$", "", str(name).upper()): value
        for name, value in zip(names, found[1::2], strict=False)
    }


def text_of(value: Value) -> str:
    """Return a value as text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
