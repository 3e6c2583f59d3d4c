"""A body as it comes: unpacked, up to what is wanted of it, and for as long as there is time."""

from dataclasses import dataclass

import trio

from rumi.web.fetching.decoding import Broken, decoder_for
from rumi.web.fetching.exchange import Exchange, Interrupted
from rumi.web.fetching.headers import Headers
from rumi.web.reading.kinds import SNIFFED_BYTES, kind_of, readable
from rumi.web.types import FetchError


@dataclass(frozen=True, slots=True)
class Body:
    """What came. `text` says that it can become text; of what cannot, `data` is no more than the beginning.

    `cut` says what is missing; it is empty where nothing is. `broken_off` says that it need not be so at
    another time.
    """

    data: bytes = b""
    text: bool = True
    cut: str = ""
    broken_off: bool = False


async def read_body(exchange: Exchange, headers: Headers, max_bytes: int, deadline_at: float) -> Body:
    """Read a body until its end, `max_bytes` after unpacking, or the deadline, on trio's clock.

    What is known to be no text is left where it is. Cancelled, it ends at once.

    Raises:
        FetchError: it is packed in a way that was not asked for, or in none at all.
    """
    can_be_text = readable(headers.media_type)
    if can_be_text is False:
        return Body(text=False)
    reading = _Reading(headers, max_bytes, known=can_be_text is True)
    with trio.move_on_at(deadline_at):
        await reading.read(exchange)
    return reading.result()


class _Reading:
    def __init__(self, headers: Headers, max_bytes: int, *, known: bool) -> None:
        self._decoder = decoder_for(headers.all("content-encoding"))
        self._media_type = headers.media_type
        self._max_bytes = max_bytes
        self._known = known
        self._data = bytearray()
        self._packed_bytes = 0
        self._text = True
        self._cut = ""
        self._slow = True

    async def read(self, exchange: Exchange) -> None:
        while not self._done() and (piece := await self._next(exchange)):
            self._take(piece)
        self._slow = False

    def result(self) -> Body:
        if self._slow:
            self._cut = f"the server was too slow: only the first {len(self._data):,} bytes came in time"
        broken_off = bool(self._cut) and len(self._data) < self._max_bytes
        return Body(bytes(self._data), self._text, self._cut, broken_off)

    def _done(self) -> bool:
        """Return True if nothing more is wanted."""
        if not self._text:
            return True
        if len(self._data) > self._max_bytes:
            del self._data[self._max_bytes :]
            self._cut = f"only the first {self._max_bytes:,} bytes of the page were read"
        elif self._packed_bytes > 2 * self._max_bytes:
            self._cut = "the rest of the page is packed into more bytes than it has"
        return bool(self._cut)

    async def _next(self, exchange: Exchange) -> bytes:
        try:
            piece = await exchange.more()
        except Interrupted as error:
            self._cut = f"{error}: only the first {len(self._data):,} bytes came"
            return b""
        if not piece:
            self._end()
        return piece

    def _take(self, piece: bytes) -> None:
        self._packed_bytes += len(piece)
        try:
            # One more than is wanted tells a page that just fits from one that does not.
            self._data += self._decoder.decode(piece, self._max_bytes + 1 - len(self._data))
        except Broken as error:
            if not self._data:
                raise FetchError("The page's compression is damaged.", answered=True) from error
            self._cut = f"the packed bytes are broken behind the first {len(self._data):,}"
        if not self._known and len(self._data) >= SNIFFED_BYTES:
            self._look()

    def _end(self) -> None:
        if not self._decoder.whole():
            self._cut = f"the packed bytes end early: only the first {len(self._data):,} came"
        if not self._known:
            self._look()

    def _look(self) -> None:
        """The server did not say what it is: its beginning does."""
        self._known = True
        self._text = (
            not self._data or kind_of(self._media_type, bytes(self._data[:SNIFFED_BYTES])) != "binary"
        )
