"""Decompression of response bodies, up to a maximum size.

Only gzip and deflate are requested. But servers use what they like, and label what they send wrongly. So the
first bytes of a body decide together with the label, and names that are no compression are ignored.
"""

import re
import sys
import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

from rumi.platform.extras import is_installed, missing_clause
from rumi.platform.text_decoding import MARKS
from rumi.web.codings import CODINGS, UNSUPPORTED, coding_names
from rumi.web.messages import FetchError
from rumi.web.readers.pages.kinds import looks_like

ACCEPTED: Final = "gzip, deflate"

_GZIP: Final = 16 + zlib.MAX_WBITS
_GZIP_BEGINS: Final = b"\x1f\x8b"
_ZSTD_BEGINS: Final = b"\x28\xb5\x2f\xfd"
_MAGIC_BYTES: Final = 4
_ZSTD_WINDOW_LOG: Final = 23
"""Maximum window, 8 MB: RFC 9659."""

_HEAD_BYTES: Final = 64
"""Number of bytes that show whether a body is compressed."""

_STEP_BYTES: Final = 64 * 1024
_MOST_CODINGS: Final = 5
_MOST_MEMBERS: Final = 1000
_BETWEEN: Final = 4
"""Maximum size of the data between two decoders, as a multiple of the maximum size of the result."""

_MARKS: Final = tuple(mark for mark, _ in MARKS)
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_TOKEN: Final = re.compile(r"[a-z0-9._-]{1,20}")


class Broken(Exception):
    """The bytes are damaged, or not compressed in the format that the server declared.

    `data` is what could be decompressed before the damage, beyond what was returned already.
    """

    def __init__(self, data: bytes = b"") -> None:
        super().__init__()
        self.data = data


class Decoder(Protocol):
    """Decompresses the bytes of a body as they arrive."""

    def decode(self, data: bytes, max_bytes: int) -> bytes:
        """Return at most `max_bytes` decompressed bytes of `data`; `max_bytes` must be at least 1.

        If the result has `max_bytes` bytes, a call without data returns more.

        Raises:
            Broken: The bytes are damaged.
        """

    def rest(self, max_bytes: int) -> bytes:
        """Return what was held back; call this method when the body has ended.

        Raises:
            Broken: The bytes are damaged.
        """

    def whole(self) -> bool:
        """Return True if the body may end here, which means that no compressed part is incomplete."""


def decoder_for(codings: Sequence[str], *, text: bool = False) -> Decoder:
    """Return the decoder for the values of the header `Content-Encoding`.

    Names that are no compression, such as `utf-8` or `none`, are ignored, as browsers ignore them. If the
    body is declared as `text`, it is decompressed even without a label if it begins like a compressed body.

    Raises:
        FetchError: The server used a compression that is not supported.
    """
    names = coding_names(codings)
    stages = [CODINGS[name] for name in names if name in CODINGS]
    unknown = [name for name in names if name in UNSUPPORTED]
    if unknown or len(stages) > _MOST_CODINGS:
        named = unknown or names
        known = len(named) <= 3 and all(map(_TOKEN.fullmatch, named))
        raise FetchError(
            "The page has an unrequested compression: {unknown}.",
            "Another page may say the same.",
            unknown=", ".join(named) if known else "an unknown way",
            answered=True,
        )
    if len(stages) > 1:
        return _Chain([_Unpacker(name) for name in reversed(stages)])
    return _Unpacker(stages[0] if stages else "text" if text else "")


class _Codec(Protocol):
    """One compressed stream. Keeps input that it could not decompress yet."""

    @property
    def eof(self) -> bool:
        """True after the end of the stream."""

    @property
    def unused_data(self) -> bytes:
        """The bytes after the end of the stream."""

    def unpack(self, data: bytes, max_bytes: int) -> bytes:
        """Return at most `max_bytes` decompressed bytes.

        Raises:
            Broken: The bytes are damaged.
        """


class _Plain:
    eof = False
    unused_data = b""

    def __init__(self) -> None:
        self._left = b""

    def unpack(self, data: bytes, max_bytes: int) -> bytes:
        data = self._left + data
        self._left = data[max_bytes:]
        return data[:max_bytes]


class _Inflate:
    def __init__(self, window_bits: int) -> None:
        self._inflater = zlib.decompressobj(window_bits)

    @property
    def eof(self) -> bool:
        return self._inflater.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflater.unused_data

    def unpack(self, data: bytes, max_bytes: int) -> bytes:
        data, before = self._inflater.unconsumed_tail + data, self._inflater.copy()
        try:
            return self._inflater.decompress(data, max_bytes)
        except zlib.error as error:
            # The library returns nothing if the damage is behind some good bytes, such as a wrong checksum.
            out, held = bytearray(), b""
            with suppress(zlib.error):
                for at in range(len(data)):
                    if len(out) < max_bytes:
                        out += before.decompress(held + data[at : at + 1], max_bytes - len(out))
                        held = before.unconsumed_tail
            raise Broken(bytes(out)) from error


class _Zstd:
    def __init__(self) -> None:
        _require_encodings("zstd")
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd

        options = {int(zstd.DecompressionParameter.window_log_max): _ZSTD_WINDOW_LOG}
        self._error = zstd.ZstdError
        self._decompressor = zstd.ZstdDecompressor(options=options)

    @property
    def eof(self) -> bool:
        return self._decompressor.eof

    @property
    def unused_data(self) -> bytes:
        return self._decompressor.unused_data

    def unpack(self, data: bytes, max_bytes: int) -> bytes:
        try:
            return self._decompressor.decompress(data, max_bytes)
        except self._error as error:
            raise Broken from error


class _Brotli:
    unused_data = b""

    def __init__(self) -> None:
        _require_encodings("br")
        import brotli

        self._error = brotli.error
        self._decompressor = brotli.Decompressor()
        self._input = b""
        self._output = b""

    @property
    def eof(self) -> bool:
        return bool(self._decompressor.is_finished()) and not self._output

    def unpack(self, data: bytes, max_bytes: int) -> bytes:
        self._input += data
        try:
            # The library's limit is not exact: it returns up to 32 KB more.
            while len(self._output) < max_bytes and not self._decompressor.is_finished():
                taken = self._input if self._decompressor.can_accept_more_data() else b""
                self._input = b"" if taken else self._input
                piece = self._decompressor.process(taken, output_buffer_limit=max_bytes)
                self._output += piece
                if not piece and not self._input:
                    break
        except self._error as error:
            raise Broken from error
        out, self._output = self._output[:max_bytes], self._output[max_bytes:]
        return out


def _require_encodings(name: str) -> None:
    """Check that an unrequested compression can be undone.

    Raises:
        FetchError: The extra `encodings` is not installed.
    """
    if not is_installed("encodings"):
        raise FetchError(
            "The page has an unrequested compression, {name}: {clause}.",
            "Another page may say the same.",
            name=name,
            clause=missing_clause("encodings"),
            answered=True,
        )


class _Unpacker:
    """Decoder for one coding; `name` is empty for none, and `text` for a text without a label.

    It ignores bytes after the last member, as gzip does.

    A compressed stream is recognized by its first bytes. Text under a wrong label stays as it is.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._codec: _Codec | None = _Plain() if not name else None
        self._held = b""
        self._over = False
        self._members = 1

    def decode(self, data: bytes, max_bytes: int) -> bytes:
        if self._codec is None:
            self._held += data
            if len(self._held) < _HEAD_BYTES:
                return b""
            return self._begin(max_bytes)
        return self._unpack(data, max_bytes)

    def rest(self, max_bytes: int) -> bytes:
        return self._begin(max_bytes) if self._codec is None and self._held else b""

    def whole(self) -> bool:
        return self._codec is None or isinstance(self._codec, _Plain) or self._codec.eof

    def _begin(self, max_bytes: int) -> bytes:
        data, self._held = self._held, b""
        self._codec = self._chosen(data[:_HEAD_BYTES])
        return self._unpack(data, max_bytes)

    def _chosen(self, head: bytes) -> _Codec:
        if (codec := _by_magic(head)) is not None:
            return codec
        if self._name == "deflate" and head[0] & 0x0F == 8 and int.from_bytes(head[:2]) % 31 == 0:
            return _Inflate(zlib.MAX_WBITS)
        if looks_like(head) or not _CONTROLS.search(head) or self._name == "text" or head.startswith(_MARKS):
            return _Plain()
        match self._name:
            case "deflate":  # without zlib's header, as some servers send it
                return _Inflate(-zlib.MAX_WBITS)
            case "br":
                return _Brotli()
            case _:
                raise Broken

    def _unpack(self, data: bytes, max_bytes: int) -> bytes:
        parts: list[bytes] = []
        codec = self._codec
        assert codec is not None
        while max_bytes > 0 and not self._over:
            if codec.eof:
                data, self._held = self._held + data, b""
                if len(data) < _MAGIC_BYTES:
                    self._held = data
                    break
                following = _by_magic(data)
                if following is None:
                    self._over = True
                    break
                self._members += 1
                if self._members > _MOST_MEMBERS:
                    raise Broken
                self._codec = codec = following
            try:
                part = codec.unpack(data, max_bytes)
            except Broken as error:
                error.data = b"".join((*parts, error.data))
                raise
            parts.append(part)
            max_bytes -= len(part)
            data = b""
            if not codec.eof:
                break
            self._held = codec.unused_data
        return b"".join(parts)


def _by_magic(head: bytes) -> _Codec | None:
    if head.startswith(_GZIP_BEGINS):
        return _Inflate(_GZIP)
    return _Zstd() if head.startswith(_ZSTD_BEGINS) else None


class _Chain:
    """Several codings, the last applied one first. The data between two of them is bounded."""

    def __init__(self, stages: Sequence[_Unpacker]) -> None:
        self._stages = stages
        self._most_between = 0
        self._between = 0

    def decode(self, data: bytes, max_bytes: int) -> bytes:
        self._most_between = max(self._most_between, _BETWEEN * max_bytes)
        return self._from(0, data, max_bytes)

    def rest(self, max_bytes: int) -> bytes:
        out = b""
        for index, stage in enumerate(self._stages):
            if len(out) < max_bytes and (data := stage.rest(max_bytes)):
                out += self._from(index + 1, data, max_bytes - len(out))
        return out

    def whole(self) -> bool:
        return all(stage.whole() for stage in self._stages)

    def _from(self, index: int, data: bytes, max_bytes: int) -> bytes:
        if index == len(self._stages):
            return data[:max_bytes]
        stage, out = self._stages[index], bytearray()
        if index == len(self._stages) - 1:
            return stage.decode(data, max_bytes)
        try:
            piece = stage.decode(data, _STEP_BYTES)
        except Broken as error:  # what it has is not of the last stage
            raise Broken from error
        while piece:
            self._between += len(piece)
            if self._between > self._most_between:
                raise Broken
            out += self._from(index + 1, piece, max_bytes - len(out))
            if len(out) >= max_bytes:
                break
            piece = stage.decode(b"", _STEP_BYTES)
        return bytes(out)
