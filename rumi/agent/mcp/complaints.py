"""The standard error of a server: its last lines, and its log `$RUMI_HOME/logs/mcp-NAME.log`."""

import contextlib
import time
from collections import deque
from pathlib import Path
from typing import Final

import trio

from rumi.agent.mcp.messages import ServerSettings
from rumi.platform.logs.audit import LineFile
from rumi.platform.openat import shown
from rumi.platform.printable import clean
from rumi.platform.timestamps import utc

MOST_LINES: Final = 60
MOST_LINE_CHARS: Final = 2000
STDOUT: Final = "stdout: "
"""Begins a line that a server wrote to its standard output and that is no message."""

MOST_LOGGED_PER_MINUTE: Final = 256 * 1024
"""Maximum size of the lines that one server may log in a minute, in bytes. Further lines are not logged."""

_MOST_PARTIAL: Final = 4 * MOST_LINE_CHARS


def log_of(home: Path, name: str) -> Path:
    """Return the path of the log of a server's standard error. `home` is $RUMI_HOME."""
    return home / "logs" / f"mcp-{name}.log"


class Complaints:
    """The lines that a server writes to its standard error, without secrets.

    `ended` is set when the server has closed its standard error.
    """

    def __init__(self, settings: ServerSettings, home: Path) -> None:
        """`home` is $RUMI_HOME."""
        self.ended = trio.Event()
        self._redact = settings.redact
        self._lines = deque[str](maxlen=MOST_LINES)
        self._partial = b""
        self._file = LineFile(
            log_of(home, settings.name), max_mb=settings.log.max_mb, backup_count=settings.log.keep
        )
        self._minute = 0.0
        self._logged = 0

    def lines(self) -> tuple[str, ...]:
        """Return the last lines, oldest first, without empty ones."""
        partial = [self._clean(self._partial)] if self._partial.strip() else []
        return tuple(line for line in (*self._lines, *partial) if line.strip())

    def hear(self, data: bytes) -> None:
        """Add output of the server. A write error of the log is ignored: it must not end the server."""
        *whole, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > _MOST_PARTIAL:
            whole.append(self._partial)
            self._partial = b""
        for line in whole:
            self._take(line)

    def end(self) -> None:
        """Take an incomplete last line, and close the log."""
        if self._partial:
            self.hear(b"\n")
        self._file.close()
        self.ended.set()

    def _take(self, line: bytes) -> None:
        text = self._clean(line)
        self._lines.append(text)
        if text.strip() and self._may_log(len(text)):
            stamped = f"{utc(time.time())} {text}".encode("utf-8", "backslashreplace")
            with contextlib.suppress(OSError):
                self._file.append(stamped)

    def _may_log(self, size: int) -> bool:
        if time.monotonic() - self._minute > 60:
            self._minute, self._logged = time.monotonic(), 0
        self._logged += size
        return self._logged <= MOST_LOGGED_PER_MINUTE

    def _clean(self, line: bytes) -> str:
        # Without escape sequences first: a coloured secret must be found, too.
        text = clean(line.decode("utf-8", "replace")).expandtabs(4).rstrip()
        return shown(self._redact.text(text)[:MOST_LINE_CHARS])
