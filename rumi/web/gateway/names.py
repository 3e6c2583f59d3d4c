"""The DNS server of a server's sandbox: it knows the allowed names, and says which others were asked for.

Only programs that use no proxy ask it. It answers from its own table and asks no other server, so no data can
leave in a name.
"""

import ipaddress
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_HEADER: Final = struct.Struct("!6H")
_A, _AAAA, _HTTPS, _IN = 1, 28, 65, 1
_ADDRESS_TYPES: Final = (_A, _AAAA, _HTTPS)
_RESPONSE, _AUTHORITATIVE, _RECURSION = 0x8000, 0x0400, 0x0180
_NO_SUCH_NAME: Final = 3
_NOT_IMPLEMENTED: Final = 4
_TTL_S: Final = 60
_MOST_LABELS: Final = 127


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a query. `unknown` is the name if it has no address here; empty for other answers."""

    message: bytes
    unknown: str = ""


def answer_to(query: bytes, names: Mapping[str, str]) -> Answer | None:
    """Return the answer to a DNS query, by the IPv4 addresses of the known `names`.

    Returns None if the query is malformed.
    """
    try:
        number, flags, questions, *_ = _HEADER.unpack_from(query)
        name, end = _name(query, _HEADER.size)
        kind, kind_class = struct.unpack_from("!2H", query, end)
    except (struct.error, IndexError, ValueError):
        return None
    if flags & _RESPONSE or questions != 1:
        return None
    question = query[_HEADER.size : end + 4]
    flags = _RESPONSE | _AUTHORITATIVE | (flags & _RECURSION) | 0x80
    if kind_class != _IN or flags & 0x7800:
        return Answer(_HEADER.pack(number, flags | _NOT_IMPLEMENTED, 1, 0, 0, 0) + question)
    address = names.get(name)
    if address is None:
        unknown = name if kind in _ADDRESS_TYPES and "." in name else ""
        return Answer(_HEADER.pack(number, flags | _NO_SUCH_NAME, 1, 0, 0, 0) + question, unknown)
    if kind != _A:
        return Answer(_HEADER.pack(number, flags, 1, 0, 0, 0) + question)
    packed = ipaddress.IPv4Address(address).packed
    record = struct.pack("!3HIH", 0xC000 | _HEADER.size, _A, _IN, _TTL_S, len(packed)) + packed
    return Answer(_HEADER.pack(number, flags, 1, 1, 0, 0) + question + record)


def _name(query: bytes, at: int) -> tuple[str, int]:
    """Return the name at a position, in small letters, and the position after it.

    Raises:
        ValueError: The name is compressed, too long, or not ASCII.
        IndexError: The query is too short.
    """
    labels: list[str] = []
    while size := query[at]:
        if size > 63 or len(labels) >= _MOST_LABELS:
            raise ValueError("not a name of a question")
        label = query[at + 1 : at + 1 + size]
        if len(label) < size:
            raise IndexError
        labels.append(label.decode("ascii").lower())
        at += 1 + size
    return ".".join(labels), at + 1
