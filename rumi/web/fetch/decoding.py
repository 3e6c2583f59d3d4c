"""Decompression of response bodies (gzip and deflate), up to a maximum size."""

import re
import zlib
from collections.abc import Sequence
from typing import Final, Protocol

from rumi.web.messages import FetchError

ACCEPTED: Final = "gzip, deflate"

_GZIP: Final = 16 + zlib.MAX_WBITS
_GZIP_BEGINS: Final = b"\x1f\x8b"
_TOKEN: Final = re.compile(r"[a-z0-9._-]{1,20}")


class Broken(Exception):
    """The bytes are not compressed in the format that the server declared."""


class Decoder(Protocol):
    """Decompresses the bytes of a body as they arrive."""

    def decode(self, data: bytes, max_bytes: int) -> bytes:
        """Return at most `max_bytes` decompressed bytes of `data`; `max_bytes` must be at least 1.

        If the result has `max_bytes` bytes, the caller must not call this method again.

        Raises:
            Broken: The bytes are damaged.
        """

    def whole(self) -> bool:
        """Return True if the body may end here, which means that no compressed part is incomplete."""


def decoder_for(codings: Sequence[str]) -> Decoder:
    """Return the decoder for the values of the header `Content-Encoding`.

    Raises:
        FetchError: The server used a compression that was not requested.
    """
    names = [name.strip().lower() for value in codings for name in value.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if not names:
        return _Plain()
    if names in (["gzip"], ["x-gzip"]):
        return _Gzip()
    if names == ["deflate"]:
        return _Deflate()
    unknown = ", ".join(names) if len(names) <= 3 and all(map(_TOKEN.fullmatch, names)) else "an unknown way"
    raise FetchError(
        "The page has an unrequested compression: {unknown}.",
        "Another page may say the same.",
        unknown=unknown,
        answered=True,
    )


class _Plain:
    def decode(self, data: bytes, max_bytes: int) -> bytes:
        return data[:max_bytes]

    def whole(self) -> bool:
        return True


class _Gzip:
    """Decoder for a sequence of gzip members. It ignores bytes after the last member, as gzip does."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._began = False
        self._buffered = b""
        self._over = False

    def decode(self, data: bytes, max_bytes: int) -> bytes:
        parts: list[bytes] = []
        while (data := self._next_member(data)) and max_bytes > 0:
            self._began = True
            part = _inflate(self._member, data, max_bytes)
            parts.append(part)
            max_bytes -= len(part)
            data = self._member.unused_data if self._member.eof else b""
        return b"".join(parts)

    def whole(self) -> bool:
        return not self._began or self._member.eof

    def _next_member(self, data: bytes) -> bytes:
        """Return the bytes to decompress next; start a new decompressor if the current member has ended.

        Returns no bytes while the header of a new member is incomplete, and after the last member.
        """
        if self._over or not self._member.eof:
            return b"" if self._over else data
        data, self._buffered = self._buffered + data, b""
        if len(data) < len(_GZIP_BEGINS):
            self._buffered = data
            return b""
        if not data.startswith(_GZIP_BEGINS):
            self._over = True
            return b""
        self._member = zlib.decompressobj(_GZIP)
        return data


class _Deflate:
    """Decoder for deflate, with zlib's header (the standard) or without it (as some servers send it).

    The first two bytes of the body show whether it has the header.
    """

    def __init__(self) -> None:
        self._inflater: zlib._Decompress | None = None
        self._buffered = b""

    def decode(self, data: bytes, max_bytes: int) -> bytes:
        if self._inflater is None:
            data, self._buffered = self._buffered + data, b""
            if len(data) < 2:
                self._buffered = data
                return b""
            framed = data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0
            self._inflater = zlib.decompressobj(zlib.MAX_WBITS if framed else -zlib.MAX_WBITS)
        return b"" if self._inflater.eof else _inflate(self._inflater, data, max_bytes)

    def whole(self) -> bool:
        return self._inflater.eof if self._inflater else not self._buffered


def _inflate(inflater: "zlib._Decompress", data: bytes, max_bytes: int) -> bytes:
    """Return at most `max_bytes` decompressed bytes; any remaining data stays compressed.

    Raises:
        Broken: The bytes are damaged.
    """
    try:
        return inflater.decompress(data, max_bytes)
    except zlib.error as error:
        raise Broken from error
