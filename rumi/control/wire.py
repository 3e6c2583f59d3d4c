"""A connection that was handed over: JSON objects both ways, a line each."""

import json
from collections.abc import Mapping
from typing import Protocol

import trio

MAX_LINE_BYTES = 16_000_000
"""Of what others send: what somebody types or pipes into a window is one message."""

_CHUNK_BYTES = 65_536


class WireClosed(Exception):
    """The other side is gone, or says nothing that could be understood."""


class Wire(Protocol):
    """A connection that was handed over. Both calls raise `WireClosed`."""

    async def send(self, message: Mapping[str, object]) -> None:
        """Send an object; waits where the other side does not read. Cancelled, the wire is of no more use."""
        ...

    async def receive(self) -> Mapping[str, object]:
        """The next object. Cancelled, it loses nothing."""
        ...


class LineWire:
    """A `Wire` on a stream. `most` bounds what one line may hold, in bytes."""

    def __init__(self, stream: trio.SocketStream, most: int = MAX_LINE_BYTES) -> None:
        self._stream = stream
        self._most = most
        self._got = bytearray()
        self._searched = 0
        self._sending = trio.Lock()

    async def send(self, message: Mapping[str, object]) -> None:
        """Send an object as a line."""
        await self.send_line(encode(message))

    async def send_line(self, line: bytes) -> None:
        """Send a line as it is."""
        async with self._sending:  # one after the other, also where two tasks send
            try:
                await self._stream.send_all(line + b"\n")
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                raise WireClosed from None

    async def receive(self) -> Mapping[str, object]:
        """The object that the next line holds."""
        return decode(await self.line())

    async def line(self) -> bytes:
        """The next line, without its end."""
        while (end := self._got.find(b"\n", self._searched)) < 0:
            self._searched = len(self._got)
            if self._searched > self._most:
                raise WireClosed("a line without end")
            try:
                more = await self._stream.receive_some(_CHUNK_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                raise WireClosed from None
            if not more:
                raise WireClosed
            self._got += more
        line = bytes(self._got[:end])
        del self._got[: end + 1]
        self._searched = 0
        await trio.lowlevel.checkpoint_if_cancelled()
        return line


def encode(message: Mapping[str, object]) -> bytes:
    """One line of JSON; ASCII, so that halves of surrogate pairs come through too."""
    return json.dumps(message, separators=(",", ":")).encode("ascii")


def decode(text: str | bytes) -> Mapping[str, object]:
    """The object.

    Raises:
        WireClosed: it is none, and who sends such a thing is not understood any more.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise WireClosed("not an object")
    return found
