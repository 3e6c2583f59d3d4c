"""`state.db`: opened, brought up to date, and asked for several steps in one transaction.

Plain blocking SQLite, used by one thread at a time. WAL with `synchronous=FULL`: what was committed
survives a power cut, as far as the disk keeps its word. The steps are in `inbox`, `outbox`, `history`,
`lessons`, `reading` and `forgetting`.
"""

import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from actors import Request
from rumi.databases import (
    LOCKED_S,
    OPEN_S,
    DatabaseFault,
    Trouble,
    bring_up_to_date,
    checked_version,
    decoded,
    make_durable,
    transaction,
    trouble_of,
    why_unwritten,
)
from rumi.errors import RumiError, UsageError
from rumi.journal import (  # noqa: F401  # they register their steps
    forgetting,
    inbox,
    lessons,
    outbox,
    reading,
    schedules,
    spending,
    tasks,
    undoing,
    workspaces,
)
from rumi.journal.messages import READS
from rumi.journal.schema import STATE
from rumi.journal.transaction import steps
from rumi.steps import Transaction

NOT_NOW: Final = object()
"""In place of an answer that has to wait until the file can be written."""


class JournalError(RumiError):
    """`state.db` cannot be read or written: nothing is accepted that could not be accounted for."""


class Unwritable(JournalError, UsageError):
    """`state.db` cannot be written now, and nothing is wrong with what was to be written."""

    def __init__(self, path: Path, trouble: Trouble, error: object = "") -> None:
        super().__init__(*why_unwritten(path, trouble, error))
        self.trouble: Trouble = trouble


class Store:
    """An open `state.db`. `undelivered` is how many replies nobody has acknowledged, as last committed.

    Raises:
        Unwritable: it cannot be opened now.
        JournalError: it cannot be opened, is damaged, or was made by a newer program.
    """

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self.path = path
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=OPEN_S)
            # One letter that a disk has spoilt must not make all of a chat unreadable.
            self._db.text_factory = decoded
            try:
                version = checked_version(self._db, path, STATE)
                make_durable(self._db, path)
                bring_up_to_date(self._db, path, STATE, version)
                self.undelivered = self._count_undelivered()
                self._db.execute(f"PRAGMA busy_timeout = {LOCKED_S * 1000:.0f}")
            except BaseException:
                self._db.close()
                raise
        except DatabaseFault as error:
            raise JournalError(error.message, error.advice) from error
        except (sqlite3.Error, OSError) as error:
            raise self._failed(error) from error
        self._transaction = Transaction(self._db, path, now)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def has_reservations(self) -> bool:
        """Return True if model calls are reserved: in a file just opened, by earlier processes."""
        return self._db.execute("SELECT 1 FROM reservations LIMIT 1").fetchone() is not None

    def run(self, requests: Sequence[Request[Any]]) -> list[object]:
        """Do all of them in one transaction and return their replies, or do none and raise.

        Raises:
            Unwritable: the disk is full, say. The same requests may be tried again.
            JournalError: the file cannot be used.
        """
        try:
            with transaction(self._db):
                replies = [steps.do(request, self._transaction) for request in requests]
                undelivered = self._count_undelivered()
            self.undelivered = undelivered
        except sqlite3.Error as error:
            raise self._failed(error) from error
        return replies

    def read(self, requests: Sequence[Request[Any]]) -> list[object]:
        """Return the answers that need no writing; `NOT_NOW` in place of the others."""
        self._db.execute("PRAGMA query_only = ON")
        try:
            return [self._read(request) for request in requests]
        finally:
            self._db.execute("PRAGMA query_only = OFF")

    def _read(self, request: Request[Any]) -> object:
        if not isinstance(request, READS):
            return NOT_NOW
        try:
            return steps.do(request, self._transaction)
        except sqlite3.Error:
            return NOT_NOW

    def probe(self) -> None:
        """Write without changing anything.

        Raises:
            Unwritable: it still cannot be written.
        """
        try:
            self._db.execute(f"PRAGMA user_version = {STATE.version}")
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: sqlite3.Error | OSError) -> JournalError:
        trouble = trouble_of(self.path, error)
        if trouble is not None:
            return Unwritable(self.path, trouble, error)
        return JournalError(
            f"{self.path} cannot be used: {error}.",
            "Check the disk's free space and the file's permissions, or ask: rumi doctor",
        )

    def _count_undelivered(self) -> int:
        """Return how many replies nobody has acknowledged: few, and an index has them alone."""
        (count,) = self._db.execute("SELECT count(*) FROM outbox WHERE delivered IS NULL").fetchone()
        return int(count)
