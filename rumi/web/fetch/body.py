"""Reading and decompressing of a response body as it arrives, up to a maximum size and a deadline."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import trio

from rumi.platform.texts.operating import short_size
from rumi.texts import Text
from rumi.web.fetch.decoding import Broken, decoder_for
from rumi.web.fetch.headers import Headers
from rumi.web.fetch.http_exchange import HttpExchange, Interrupted
from rumi.web.messages import FetchError
from rumi.web.readers.pages.kinds import SNIFFED_BYTES, kind_of, readable

STEP_BYTES: Final = 100_000
"""Minimum size of a body whose progress is shown, in bytes."""


@dataclass(frozen=True, slots=True)
class PartialBody:
    """The received part of a body.

    `text` means that the body can be converted to text; otherwise `data` contains only the beginning of the
    body. `cut` describes the missing part, and is empty if the body is complete. `broken_off` means that
    another attempt may receive more.
    """

    data: bytes = b""
    text: bool = True
    cut: str = ""
    broken_off: bool = False


async def read_body(
    exchange: HttpExchange,
    headers: Headers,
    max_bytes: int,
    document_bytes: int,
    deadline_at: float,
    progress: Callable[[str], None],
) -> PartialBody:
    """Read a body until it ends, has `max_bytes` decompressed bytes, or trio's clock reaches the deadline.

    A document may have `document_bytes`.

    If the media type shows that the body is not text, the body is not read. `progress` gets the received size
    of a large body. On cancellation, ends immediately.

    Raises:
        FetchError: The server used a compression that was not requested, or the compressed data is damaged.
    """
    can_be_text = readable(headers.media_type)
    if can_be_text is False:
        return PartialBody(text=False)
    reading = _Reading(headers, max_bytes, document_bytes, progress, known=can_be_text is True)
    with trio.move_on_at(deadline_at):
        await reading.read(exchange)
    return reading.result()


class _Reading:
    def __init__(
        self,
        headers: Headers,
        max_bytes: int,
        document_bytes: int,
        progress: Callable[[str], None],
        *,
        known: bool,
    ) -> None:
        self._decoder = decoder_for(headers.all("content-encoding"), text=known)
        self._media_type = headers.media_type
        self._max_bytes = max_bytes
        self._document_bytes = document_bytes
        self._sniffed = False
        self._size = headers.size
        self._progress = progress
        self._known = known
        self._data = bytearray()
        self._packed_bytes = 0
        self._text = True
        self._cut = ""
        self._slow = True

    async def read(self, exchange: HttpExchange) -> None:
        while not self._done() and (piece := await self._next(exchange)):
            self._take(piece)
            if self._max_bytes == self._document_bytes:
                exchange.allow(2 * self._document_bytes)
            if self._packed_bytes >= STEP_BYTES:
                self._show()
        self._slow = False

    def result(self) -> PartialBody:
        if self._slow:
            self._unpack(self._decoder.rest)
            self._cut = f"the server was too slow: only the first {len(self._data):,} bytes came in time"
        broken_off = bool(self._cut) and len(self._data) < self._max_bytes
        return PartialBody(bytes(self._data), self._text, self._cut, broken_off)

    def _show(self) -> None:
        """Report the number of received bytes, and the size of the body if the server has sent this size."""
        progress, come = self._progress, short_size(self._packed_bytes)
        if self._size is None:
            progress(Text("received {come}", come=come))
        else:
            progress(Text("received {come} of {size}", come=come, size=short_size(self._size)))

    def _done(self) -> bool:
        """Return True if no more of the body needs to be read."""
        if not self._text:
            return True
        if len(self._data) > self._max_bytes:
            del self._data[self._max_bytes :]
            self._cut = f"only the first {self._max_bytes:,} bytes of the page were read"
        elif self._packed_bytes > 2 * self._max_bytes:
            self._cut = "the rest of the page is packed into more bytes than it has"
        return bool(self._cut)

    async def _next(self, exchange: HttpExchange) -> bytes:
        try:
            piece = await exchange.more()
        except Interrupted as error:
            self._unpack(self._decoder.rest)
            self._cut = f"{error}: only the first {len(self._data):,} bytes came"
            return b""
        if not piece:
            self._end()
        return piece

    def _take(self, piece: bytes) -> None:
        self._packed_bytes += len(piece)
        # One byte more than allowed shows that a page does not fit.
        self._unpack(lambda room: self._decoder.decode(piece, room))
        if not self._sniffed and len(self._data) >= SNIFFED_BYTES:
            self._look()

    def _unpack(self, unpacked: Callable[[int], bytes]) -> None:
        try:
            self._data += unpacked(self._max_bytes + 1 - len(self._data))
        except Broken as error:
            self._data += error.data
            if not self._data:
                raise FetchError("The page's compression is damaged.", answered=True) from error
            self._cut = f"the packed bytes are broken behind the first {len(self._data):,}"

    def _end(self) -> None:
        self._unpack(self._decoder.rest)
        if not self._done() and not self._decoder.whole():
            self._cut = f"the packed bytes end early: only the first {len(self._data):,} came"
        if not self._sniffed:
            self._look()

    def _look(self) -> None:
        """Decide from a body's beginning about its limit, and whether it is text if that is not declared."""
        self._sniffed = True
        kind = kind_of(self._media_type, bytes(self._data[:SNIFFED_BYTES])) if self._data else "text"
        self._text = self._known or kind != "binary"
        if kind == "document":
            self._max_bytes = max(self._max_bytes, self._document_bytes)
