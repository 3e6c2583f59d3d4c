"""The three standard streams, as descriptors: read and written so that no other task waits for them.

No descriptor is made non-blocking: a terminal's is shared with the shell that started us, which would
break. Python's own file objects are not used: a thread that is stuck in one of them keeps the interpreter
from ending.
"""

import codecs
import errno
import os
import select
import stat
import termios
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Protocol

import trio

from rumi.errors import RumiError

_CHUNK_BYTES = 65536


class OutputClosedError(Exception):
    """Nobody reads our output any more (`| head`, a terminal that was closed)."""


class Lines(Protocol):
    """A source of lines."""

    async def line(self) -> str | None:
        """Return the next line without its end; None when there is no more. Cancelled, it loses nothing."""
        ...


class Writer(Protocol):
    """A destination of text."""

    async def write(self, text: str) -> None:
        """Write all of `text`.

        Raises:
            OutputClosedError: nobody reads any more.
            RumiError: it cannot be written, for example where the disk is full.
        """
        ...


class OutputStream:
    """A descriptor that is written to in a thread: a slow reader delays this writer and nobody else.

    Without `required`, text that nobody reads is dropped, and no error is raised.
    """

    def __init__(self, fd: int, *, required: bool = True) -> None:
        self.fd = fd
        self._required = required
        self._limiter = trio.CapacityLimiter(1)
        self._lock = trio.Lock()

    @property
    def terminal(self) -> bool:
        """Return True if a person looks at it."""
        return os.isatty(self.fd)

    def columns_and_rows(self) -> tuple[int, int]:
        """Return the terminal's current size; 80 by 24 if it does not say."""
        try:
            size = os.get_terminal_size(self.fd)
        except OSError:
            return 80, 24
        return size.columns or 80, size.lines or 24

    async def write(self, text: str) -> None:
        """Write all of `text`. Cancelled, an unknown part of it is written."""
        if not text:
            await trio.lowlevel.checkpoint()
            return
        data = text.encode("utf-8", "replace")
        async with self._lock:
            try:
                await trio.to_thread.run_sync(
                    _write_all, self.fd, data, abandon_on_cancel=True, limiter=self._limiter
                )
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.EIO, errno.EBADF, errno.ENXIO):
                    raise RumiError(
                        f"The output cannot be written: {error.strerror}.",
                        "Free space there, or send it elsewhere.",
                    ) from error
                if self._required:
                    raise OutputClosedError from error


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:  # someone else made it non-blocking
            select.select([], [fd], [])


class InputStream:
    """A descriptor that is read as UTF-8; bytes that are none become U+FFFD."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._ended = False
        self._limiter = trio.CapacityLimiter(1)

    @property
    def terminal(self) -> bool:
        """Return True if a person types."""
        return os.isatty(self.fd)

    def forget(self) -> None:
        """Drop what a person has typed ahead. Another process may have taken the terminal; then nothing."""
        self._text = ""
        with suppress(termios.error):
            termios.tcflush(self.fd, termios.TCIFLUSH)

    async def line(self) -> str | None:
        """Return the next line without its end; None when there is no more. Cancelled, it loses nothing."""
        while "\n" not in self._text:
            if self._ended:
                last, self._text = self._text, ""
                await trio.lowlevel.checkpoint()
                return last or None
            await self._more()
        line, _, self._text = self._text.partition("\n")
        await trio.lowlevel.checkpoint()
        return line.removesuffix("\r")

    @property
    def piped(self) -> bool:
        """Return True if a program or a file may have something to say: open, no terminal, and no device."""
        try:
            mode = os.fstat(self.fd).st_mode
        except OSError:
            return False
        return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)

    async def everything(self) -> str:
        """Return all text until the end."""
        pieces = []
        while (piece := await self.more()) is not None:
            pieces.append(piece)
        return "".join(pieces)

    async def more(self) -> str | None:
        """Return what comes next, at least a character; None at the end. Cancelled, it loses nothing."""
        while not self._text:
            if self._ended:
                return None
            await self._more()
        text, self._text = self._text, ""
        return text

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self.line()) is not None:
            yield line

    async def _more(self) -> None:
        try:
            await trio.lowlevel.wait_readable(self.fd)
        except OSError:
            # A regular file or /dev/null cannot be waited for, and need not be. Whatever else it is:
            # a thread that gets stuck in it is left behind.
            try:
                data = await trio.to_thread.run_sync(
                    _read, self.fd, abandon_on_cancel=True, limiter=self._limiter
                )
            except OSError:
                data = b""
        else:
            data = _read(self.fd)
        if not data:
            self._ended = True
        self._text += self._decoder.decode(data, final=not data)


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _CHUNK_BYTES)
    except BlockingIOError:
        select.select([fd], [], [])
        return os.read(fd, _CHUNK_BYTES)
    except OSError as error:
        if error.errno in (errno.EIO, errno.EBADF):  # the terminal is gone, or there never was an input
            return b""
        raise


class StandardStreams:
    """Standard input, output and error output of this process, or the descriptors given instead."""

    def __init__(self, stdin: int = 0, stdout: int = 1, stderr: int = 2) -> None:
        self.input = InputStream(stdin)
        self.output = OutputStream(stdout)
        self.errors = OutputStream(stderr, required=False)


def capable(output: OutputStream) -> bool:
    """Return True if `output` is a terminal on which the cursor can be moved."""
    return output.terminal and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
