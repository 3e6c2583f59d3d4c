"""`state.db`: opened, brought up to date, and asked for several steps in one transaction.

Plain blocking SQLite, used by one thread at a time. WAL with `synchronous=FULL`: what was committed
survives a power cut, as far as the disk keeps its word. The steps are in `inbox`, `outbox` and `history`.
"""

import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rumi.errors import RumiError
from rumi.journal import inbox, outbox  # noqa: F401  # they register their steps
from rumi.journal.desk import Desk, do
from rumi.journal.messages import JournalMessage
from rumi.journal.schema import MIGRATIONS, SCHEMA, SCHEMA_VERSION


class JournalError(RumiError):
    """`state.db` cannot be read or written: nothing is accepted that could not be accounted for."""


class Store:
    """An open `state.db`.

    Raises:
        JournalError: it cannot be opened, is damaged, or was made by a newer program.
    """

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self.path = path
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._prepare()
        except sqlite3.Error as error:
            raise JournalError(
                f"{path} cannot be used: {error}.",
                "Check the disk's free space and the file's permissions, or ask: rumi doctor",
            ) from error
        self._desk = Desk(self._db, path, now)

    def _prepare(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise JournalError(
                f"{self.path} was made by a newer Rumi (schema {version}, this one knows {SCHEMA_VERSION}).",
                "Use the newer program, or another RUMI_HOME.",
            )
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self.path.chmod(0o600)
        if version < SCHEMA_VERSION:
            steps = [MIGRATIONS[step] for step in range(version, SCHEMA_VERSION)] if version else [SCHEMA]
            self._db.executescript(
                f"BEGIN IMMEDIATE; {' '.join(steps)} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            )

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def run(self, requests: Sequence[JournalMessage]) -> list[object]:
        """Do all of them in one transaction and return their replies, or do none and raise.

        Raises:
            JournalError: the disk is full, or the file cannot be written.
        """
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                replies = [do(request, self._desk) for request in requests]
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise JournalError(
                f"{self.path} cannot be written: {error}.", "Check the disk's free space, then start again."
            ) from error
        return replies
