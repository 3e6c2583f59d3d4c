"""What passes between two processes over a pipe: a length of four bytes, then that many bytes."""

import trio
from trio.abc import ReceiveStream

LENGTH_BYTES = 4


class NoFrame(Exception):
    """The other end is gone."""


class FrameTooLong(NoFrame):
    """The other end says more than it may."""


def framed(content: bytes) -> bytes:
    """`content` behind its length."""
    return len(content).to_bytes(LENGTH_BYTES, "big") + content


class Frames:
    """The frames that come out of a stream, each of at most `most_bytes`."""

    def __init__(self, stream: ReceiveStream, most_bytes: int) -> None:
        self._stream = stream
        self._most_bytes = most_bytes

    async def next(self) -> bytes:
        """The next one. Cancelled in its midst, the stream is of no more use.

        Raises:
            NoFrame: there will be none.
            FrameTooLong: it is longer than it may be; the stream is of no more use.
        """
        size = int.from_bytes(await self._exactly(LENGTH_BYTES), "big")
        if size > self._most_bytes:
            raise FrameTooLong
        return await self._exactly(size)

    async def _exactly(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            try:
                more = await self._stream.receive_some(min(size - len(got), 1 << 18))
            except trio.BrokenResourceError:
                more = b""
            if not more:
                raise NoFrame
            got += more
        return bytes(got)
