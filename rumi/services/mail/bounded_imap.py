"""`imaplib` on a connection that was opened elsewhere, with a bound for what it reads."""

import imaplib
import socket
from collections.abc import Sequence
from typing import Final

from rumi.services.mail.connection import MailLine
from rumi.services.mail.errors import MailError

OVERHEAD_BYTES: Final = 4_000_000
"""Bytes that a connection may read beside the largest mail: lists of folders, of UIDs and of headers."""


class BoundedImap(imaplib.IMAP4):
    """`imaplib` on an open connection, of which it reads at most so many bytes."""

    def __init__(self, line: MailLine, most_bytes: int) -> None:
        self._line = line
        self._left = most_bytes
        super().__init__(line.host, line.port)

    def _create_socket(self, timeout: float | None) -> socket.socket:
        return self._line.sock

    def read(self, size: int) -> bytes:
        """Read a literal of exactly this size."""
        self._count(size)
        data = super().read(size)
        if len(data) < size:
            raise self.abort("socket error: EOF")
        return data

    def readline(self) -> bytes:
        """Read a line, whose length `imaplib` bounds."""
        line = super().readline()
        self._count(len(line))
        return line

    def _count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise MailError(
                "too_large", "The mail server sends more than {mb} MB.", mb=OVERHEAD_BYTES // 1_000_000
            )

    def secure(self) -> None:
        """Switch to TLS (STARTTLS)."""
        answer, data = self.run("STARTTLS")
        if answer != "OK":
            raise self.error(last_of(data))
        # The old file may hold what somebody sent before the encryption: it is dropped.
        self.file.close()
        self.sock = self._line.wrap()
        self.file = self.sock.makefile("rb")
        self.untagged_responses = {}
        self.refresh()

    def refresh(self) -> None:
        """Ask again what the server can do."""
        self._get_capabilities()

    def run(self, name: str, *args: str | bytes) -> tuple[str, list[object]]:
        """Run a command whose arguments are complete; return the answer and its words."""
        answer, data = self._simple_command(name, *args)
        return str(answer), list(data)


def last_of(data: Sequence[object] | None) -> object:
    """Return the last of the words that came with an answer; empty if there are none."""
    return data[-1] if data else b""
