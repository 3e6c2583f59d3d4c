"""The three standard streams as file descriptors, read and written without blocking other tasks.

No descriptor is made non-blocking: the shell that started this process shares the terminal's descriptor and
cannot handle a non-blocking one. Python's own file objects are not used, because a thread that is stuck in a
file object prevents the interpreter from exiting.
"""

import errno
import os
import re
import select
import stat
import termios
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Protocol

import trio

from rumi.errors import RumiError
from rumi.texts import os_error

_CHUNK_BYTES = 65536
_UTF8_TEXT = re.compile("[^\0-\x08\x0e-\x1a\ufeff][^\0]*")


class OutputClosedError(Exception):
    """The reader of the output is gone: for example, `head` has ended, or the terminal was closed."""


class Lines(Protocol):
    """A source of lines."""

    async def line(self) -> str | None:
        """Return the next line without its end; None at the end. If cancelled, nothing is lost."""
        ...


class Writer(Protocol):
    """A destination of text."""

    async def write(self, text: str) -> None:
        """Write all of `text`.

        Raises:
            OutputClosedError: the reader is gone.
            RumiError: the text cannot be written, for example on a full disk.
        """
        ...


class OutputStream:
    """A descriptor written to in a thread, so that a slow reader delays only the tasks that write to it.

    If the reader is gone and `required` is False, text is dropped without an error.
    """

    def __init__(self, fd: int, *, required: bool = True) -> None:
        self.fd = fd
        self._required = required
        # Its own limiter: a writer that is stuck must not use up trio's shared worker threads.
        self._limiter = trio.CapacityLimiter(1)
        self._lock = trio.Lock()

    @property
    def terminal(self) -> bool:
        """Return True if the descriptor is a terminal."""
        return os.isatty(self.fd)

    def columns_and_rows(self) -> tuple[int, int]:
        """Return the current numbers of columns and rows; 80 and 24 if the terminal does not report them."""
        try:
            size = os.get_terminal_size(self.fd)
        except OSError:
            return 80, 24
        return size.columns or 80, size.lines or 24

    async def write(self, text: str) -> None:
        """Write all of `text`. After a cancellation, an unknown part of the text has been written.

        Raises:
            OutputClosedError: the reader is gone, and the stream is `required`.
            RumiError: the text cannot be written, for example on a full disk.
        """
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
                        "The output cannot be written: {reason}.",
                        "Free space there, or send it elsewhere.",
                        reason=os_error(error),
                    ) from error
                if self._required:
                    raise OutputClosedError from error


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:  # another process has made the shared descriptor non-blocking
            select.select([], [fd], [])


class InputStream:
    """A descriptor that is read as text, by lines or as a whole; see `rumi.platform.text_decoding`."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._data = bytearray()
        self._ended = False
        self._limiter = trio.CapacityLimiter(1)

    @property
    def terminal(self) -> bool:
        """Return True if the descriptor is a terminal."""
        return os.isatty(self.fd)

    def forget(self) -> None:
        """Discard text that was typed but not read yet.

        The error that occurs if another process has taken the terminal is ignored.
        """
        self._data.clear()
        with suppress(termios.error):
            termios.tcflush(self.fd, termios.TCIFLUSH)

    async def line(self) -> str | None:
        """Return the next line without its end; None at the end. If cancelled, nothing is lost."""
        searched = 0
        while (end := self._data.find(b"\n", searched)) < 0:
            if self._ended:
                last = self._taken(len(self._data))
                await trio.lowlevel.checkpoint()
                return _as_text(last) or None
            searched = len(self._data)
            await self._more()
        line = self._taken(end + 1)
        await trio.lowlevel.checkpoint()
        return _as_text(line).removesuffix("\n").removesuffix("\r")

    @property
    def piped(self) -> bool:
        """Return True if the descriptor is an open pipe, file or socket, and not a terminal or device."""
        try:
            mode = os.fstat(self.fd).st_mode
        except OSError:
            return False
        return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)

    async def everything(self) -> str:
        """Return all text until the end."""
        data = bytearray()
        while piece := await self.more():
            data += piece
        return _as_text(bytes(data))

    async def more(self) -> bytes:
        """Wait for bytes and return them; none at the end of the input. If cancelled, nothing is lost."""
        while not self._data and not self._ended:
            await self._more()
        return self._taken(len(self._data))

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self.line()) is not None:
            yield line

    async def _more(self) -> None:
        try:
            await trio.lowlevel.wait_readable(self.fd)
        except OSError:
            # epoll refuses regular files and /dev/null, which never block. For any other kind of file, a
            # thread that is stuck in the read is abandoned.
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
        self._data += data

    def _taken(self, count: int) -> bytes:
        data = bytes(self._data[:count])
        del self._data[:count]
        return data


def _as_text(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    # Characters that stand for bytes of UTF-16, and byte order marks.
    if data and not _UTF8_TEXT.fullmatch(text):
        from rumi.platform.text_decoding import decode  # at first use: most of what is typed is UTF-8

        return decode(data)
    return text


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _CHUNK_BYTES)
    except BlockingIOError:
        select.select([fd], [], [])
        return os.read(fd, _CHUNK_BYTES)
    except OSError as error:
        if error.errno in (errno.EIO, errno.EBADF):  # the terminal is closed, or there never was an input
            return b""
        raise


class StandardStreams:
    """The standard input, output and error output of this process, or other descriptors in their place."""

    def __init__(self, stdin: int = 0, stdout: int = 1, stderr: int = 2) -> None:
        self.input = InputStream(stdin)
        self.output = OutputStream(stdout)
        self.errors = OutputStream(stderr, required=False)


def capable(output: OutputStream) -> bool:
    """Return True if `output` is a terminal with a movable cursor."""
    return output.terminal and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
