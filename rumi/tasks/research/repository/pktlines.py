"""Git's pkt-line format: each line begins with its length in four hexadecimal digits.

This module does not interpret the content of the lines.
"""

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final

from rumi.tasks.research.repository.errors import CloneError
from rumi.texts import Text

MAX_LINE_BYTES: Final = 65_520


class Mark(Enum):
    """A special line without data; `END` is the end of the answer."""

    FLUSH = 0
    DELIMITER = 1
    RESPONSE_END = 2
    END = -1


class PktLines:
    """Reads a server's answer line by line. It holds at most one line and one received piece in memory."""

    def __init__(self, more: Callable[[], Awaitable[bytes]]) -> None:
        self._more = more
        self._waiting = bytearray()

    async def next(self) -> bytes | Mark:
        """Return the next line.

        Raises:
            CloneError: The line is invalid, or the answer ends in the middle of it.
            FetchError: The connection breaks.
        """
        if not await self._fill(4):
            if self._waiting:
                raise cut_off()
            return Mark.END
        try:
            digits = bytes(self._waiting[:4])
            size = int(digits, 16) if digits.isalnum() else -1
        except ValueError:
            size = -1
        if 0 <= size <= 2:
            del self._waiting[:4]
            return Mark(size)
        if not 4 <= size <= MAX_LINE_BYTES:
            raise not_git()
        if not await self._fill(size):
            raise cut_off()
        line = bytes(self._waiting[4:size])
        del self._waiting[:size]
        return line

    async def _fill(self, size: int) -> bool:
        """Read until `size` bytes are buffered; return False if the answer ends earlier."""
        while len(self._waiting) < size:
            piece = await self._more()
            if not piece:
                return False
            self._waiting += piece
        return True


def line_bytes(text: str) -> bytes:
    """Encode a text as a pkt-line."""
    data = text.encode()
    return b"%04x%s" % (len(data) + 4, data)


def not_git(why: str = "") -> CloneError:
    """Return the error for an answer that does not come from a git server. `why` says what it is instead."""
    advice = Text("Check the address: it is the one that git would clone.")
    if why:
        return CloneError("The server does not answer as a git server: {why}.", advice, why=why)
    return CloneError("The server does not answer as a git server.", advice)


def cut_off() -> CloneError:
    """Return the error for an answer that ends too early. Nothing of such an answer may be used."""
    return CloneError(
        "The server does not answer as a git server: {why}.",
        "Try again later.",
        why=Text("its answer ends too early"),
    )


def unexpected(mark: Mark) -> CloneError:
    """Return the error for a special line where another line must follow."""
    return cut_off() if mark is Mark.END else not_git()
