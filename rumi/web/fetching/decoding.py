"""What a body was packed in: gzip and deflate, unpacked no further than there is room."""

import re
import zlib
from collections.abc import Sequence
from typing import Final, Protocol

from rumi.web.types import FetchError

ACCEPTED: Final = "gzip, deflate"

_GZIP: Final = 16 + zlib.MAX_WBITS
_GZIP_BEGINS: Final = b"\x1f\x8b"
_TOKEN: Final = re.compile(r"[a-z0-9._-]{1,20}")


class Broken(Exception):
    """The bytes are not what the server says they are packed as."""


class Decoder(Protocol):
    """Takes a body's bytes as they come."""

    def decode(self, data: bytes, room: int) -> bytes:
        """Return what `data` gives, at most `room` bytes (1 or more); after that many it is not called again.

        Raises:
            Broken: see there.
        """

    def whole(self) -> bool:
        """Return True if the body may end here."""


def decoder_for(codings: Sequence[str]) -> Decoder:
    """The decoder for the values of `Content-Encoding`.

    Raises:
        FetchError: it is none of those that were asked for.
    """
    names = [name.strip().lower() for value in codings for name in value.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if not names:
        return _Plain()
    if names in (["gzip"], ["x-gzip"]):
        return _Gzip()
    if names == ["deflate"]:
        return _Deflate()
    told = ", ".join(names) if len(names) <= 3 and all(map(_TOKEN.fullmatch, names)) else "an unknown way"
    raise FetchError(
        f"The page has an unrequested compression: {told}.",
        "Another page may say the same.",
        answered=True,
    )


class _Plain:
    def decode(self, data: bytes, room: int) -> bytes:
        return data[:room]

    def whole(self) -> bool:
        return True


class _Gzip:
    """Members one after the other. What follows the last one and is none is left alone, as gzip does."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._began = False
        self._kept = b""
        self._over = False

    def decode(self, data: bytes, room: int) -> bytes:
        parts: list[bytes] = []
        while (data := self._next_member(data)) and room > 0:
            self._began = True
            part = _inflate(self._member, data, room)
            parts.append(part)
            room -= len(part)
            data = self._member.unused_data if self._member.eof else b""
        return b"".join(parts)

    def whole(self) -> bool:
        return not self._began or self._member.eof

    def _next_member(self, data: bytes) -> bytes:
        """`data`, behind a new decompressor where the old one has ended; empty if nothing is to be done."""
        if self._over or not self._member.eof:
            return b"" if self._over else data
        data, self._kept = self._kept + data, b""
        if len(data) < len(_GZIP_BEGINS):
            self._kept = data
            return b""
        if not data.startswith(_GZIP_BEGINS):
            self._over = True
            return b""
        self._member = zlib.decompressobj(_GZIP)
        return data


class _Deflate:
    """With zlib's frame, as the standard says, or bare, as some servers send it: the first two bytes tell."""

    def __init__(self) -> None:
        self._inflater: zlib._Decompress | None = None
        self._kept = b""

    def decode(self, data: bytes, room: int) -> bytes:
        if self._inflater is None:
            data, self._kept = self._kept + data, b""
            if len(data) < 2:
                self._kept = data
                return b""
            framed = data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0
            self._inflater = zlib.decompressobj(zlib.MAX_WBITS if framed else -zlib.MAX_WBITS)
        return b"" if self._inflater.eof else _inflate(self._inflater, data, room)

    def whole(self) -> bool:
        return self._inflater.eof if self._inflater else not self._kept


def _inflate(inflater: "zlib._Decompress", data: bytes, room: int) -> bytes:
    """At most `room` bytes: what is behind them stays packed."""
    try:
        return inflater.decompress(data, room)
    except zlib.error as error:
        raise Broken from error
