"""`memory.db`: opens the database, upgrades it, and executes each request in one transaction.

Blocking, used by one thread at a time. The database is a SQLite file with WAL and `synchronous=FULL`, so that
stored facts survive a power cut (unless the disk reports writes that it has not made). Deleted facts are
overwritten. Alternatively, the database is a PostgreSQL database that several workers share; there, locks
serialize the requests about one owner.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

from rumi.memory.messages import MemoryUnavailable, MemoryUnwritable
from rumi.memory.original import has_original, take_over
from rumi.memory.schema import MEMORY
from rumi.store.backend import Backend, SqliteFile, closed
from rumi.store.protocol import Database
from rumi.store.sqlite import (
    DatabaseFault,
    Schema,
    bring_up_to_date,
    checked_version,
    decoded,
    leave_no_trace,
    make_durable,
    transaction,
)
from rumi.store.steps import Run, Transaction

R = TypeVar("R")

ATTEMPTS: Final = 3
"""Maximum number of attempts at a transaction that other workers or a lost connection have aborted."""


class MemoryFile(SqliteFile):
    """The file `memory.db`. On an upgrade, facts of the first schema without a time get the time `now`."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        super().__init__(path, clock=now)
        self._now = now

    def open(self, name: str, schema: Schema) -> Database:
        """Open the file, create it if necessary, and upgrade it from any earlier version."""
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        try:
            db.text_factory = decoded
            version = checked_version(db, self.path, schema)
            original = version == 0 and has_original(db, self.path)
            make_durable(db, self.path)
            db.execute("PRAGMA secure_delete = ON")
            if original:
                take_over(db, self.path, self._now())
            else:
                bring_up_to_date(db, self.path, schema, version)
        except BaseException:
            db.close()
            raise
        return db


class MemoryStore:
    """An open memory database.

    Raises:
        MemoryUnavailable: the database cannot be opened, is damaged, or comes from a newer version.
    """

    def __init__(self, database: Path | Backend, now: Callable[[], float] = time.time) -> None:
        self._backend: Backend = MemoryFile(database, now) if isinstance(database, Path) else database
        self._now = now
        self._db = self._open()
        self._transaction = Transaction(self._db, now)

    @property
    def location(self) -> str:
        """The name of the database for users, such as its path."""
        return self._backend.location

    def _open(self) -> Database:
        try:
            return self._backend.open("memory", MEMORY)
        except DatabaseFault as error:
            raise MemoryUnavailable(error.message, error.advice) from error
        except (self._backend.error, OSError) as error:
            raise self._unusable(error) from error

    def close(self) -> None:
        """Close the database."""
        closed(self._db)

    def do(self, request: Run[R]) -> R:
        """Execute a request in one transaction and return its reply.

        If the connection breaks during a commit, reconnect and look up whether the server has committed. If
        the server cannot be reached at once, an error is raised although the request may have been executed;
        every request may safely be repeated.

        Raises:
            FactRefused: the fact cannot be stored.
            MemoryUnavailable: the disk is full, or the database cannot be used.
        """
        for attempt in range(ATTEMPTS):
            self._connect()
            mark = ""
            try:
                with transaction(self._db, "BEGIN" if request.step.reads else "BEGIN IMMEDIATE"):
                    if not request.step.reads:
                        # Steps read an owner's facts before they write, so requests of other workers about
                        # the same owner must wait.
                        self._backend.lock(self._db, self._locks(request))
                    answer = request.do(self._transaction)
                    if not request.step.reads:
                        mark = self._backend.mark(self._db)
            except (self._backend.error, OSError) as error:
                broken = getattr(self._db, "broken", False)
                # The connection broke during the commit: without this look-up a retry could return the
                # reply of a second execution, such as 0 for facts that the first one has deleted.
                if broken and mark and self._is_committed(mark):
                    return answer
                if attempt + 1 < ATTEMPTS and (broken or self._backend.passes(error)):
                    continue
                raise self._unusable(error) from error
            # Deleted facts must not remain readable in the write-ahead log.
            if request.step.erases:
                self._leave_no_trace()
            return answer
        raise AssertionError("the last attempt returns or raises")

    def _connect(self) -> None:
        """Reconnect if the connection to the database is broken."""
        if getattr(self._db, "broken", False):
            closed(self._db)
            self._db = self._open()
            self._transaction = Transaction(self._db, self._now)

    def _is_committed(self, mark: str) -> bool:
        self._connect()
        try:
            return self._backend.committed(self._db, mark)
        except self._backend.error as error:
            raise self._unusable(error) from error

    def _locks(self, request: Run[Any]) -> Iterable[str]:
        """Return the lock names for the owners whose facts a request changes."""
        keys = request.step.keys
        owners = () if keys is None else keys(self._transaction, request.args[0])
        return [f"facts of {owner}" for owner in owners]

    def _leave_no_trace(self) -> None:
        if isinstance(self._db, sqlite3.Connection):
            leave_no_trace(self._db)

    def _unusable(self, error: Exception) -> MemoryUnavailable:
        trouble = self._backend.trouble_of(error)
        if trouble is not None:
            return MemoryUnwritable(*self._backend.why_unwritten(trouble, error))
        return MemoryUnavailable(
            "{location} cannot be used: {error}.",
            "Check the disk's free space and the file's permissions, or ask: rumi doctor",
            location=self.location,
            error=error,
        )
