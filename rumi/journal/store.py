"""`state.db`: opened, brought up to date, and asked for several steps in one transaction.

Plain blocking SQLite, used by one thread at a time. WAL with `synchronous=FULL`: what was committed
survives a power cut, as far as the disk keeps its word. The steps are in `inbox`, `outbox`, `history` and
`lessons`.
"""

import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rumi.databases import DatabaseFault, bring_up_to_date, checked_version, make_durable
from rumi.errors import RumiError
from rumi.journal import inbox, lessons, outbox  # noqa: F401  # they register their steps
from rumi.journal.desk import Desk, do
from rumi.journal.messages import JournalMessage
from rumi.journal.schema import STATE


class JournalError(RumiError):
    """`state.db` cannot be read or written: nothing is accepted that could not be accounted for."""


class Store:
    """An open `state.db`. `undelivered` is how many replies nobody has acknowledged, as last committed.

    Raises:
        JournalError: it cannot be opened, is damaged, or was made by a newer program.
    """

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self.path = path
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            # One letter that a disk has spoilt must not make all of a chat unreadable.
            self._db.text_factory = partial(str, encoding="utf-8", errors="replace")
            try:
                version = checked_version(self._db, path, STATE)
                make_durable(self._db, path)
                bring_up_to_date(self._db, path, STATE, version)
                self.undelivered = self._count_undelivered()
            except BaseException:
                self._db.close()
                raise
        except DatabaseFault as error:
            raise JournalError(error.message, error.advice) from error
        except (sqlite3.Error, OSError) as error:
            raise JournalError(
                f"{path} cannot be used: {error}.",
                "Check the disk's free space and the file's permissions, or ask: rumi doctor",
            ) from error
        self._desk = Desk(self._db, path, now)

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
                undelivered = self._count_undelivered()
                self._db.execute("COMMIT")
                self.undelivered = undelivered
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise JournalError(
                f"{self.path} cannot be used: {error}.", "Check the disk's free space, or ask: rumi doctor"
            ) from error
        return replies

    def _count_undelivered(self) -> int:
        """How many replies nobody has acknowledged: few, and an index has them alone."""
        (count,) = self._db.execute("SELECT count(*) FROM outbox WHERE delivered IS NULL").fetchone()
        return int(count)
