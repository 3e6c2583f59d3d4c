"""`memory.db`: opens the database, upgrades it, and executes one request in each transaction.

Blocking, used by one thread at a time. It is a SQLite file with WAL and `synchronous=FULL`, so that stored
facts survive a power cut if the disk keeps its promises, and deleted facts are overwritten; or a PostgreSQL
database that several workers share, in which the requests about one owner follow one another.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

from actors import Request
from rumi.memory.messages import (
    Facts,
    Forget,
    ForgetOwner,
    IsExtracted,
    MemoryUnavailable,
    MemoryUnwritable,
    PastFacts,
    Shared,
    TakeFactsBack,
)
from rumi.memory.original import has_original, take_over
from rumi.memory.rows import steps
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
from rumi.store.steps import Transaction

R = TypeVar("R")

ATTEMPTS: Final = 3
"""How often a transaction is tried that other workers, or the end of a connection, have ended."""

_LOOKS: Final = (Facts, IsExtracted, PastFacts, Shared)
"""Requests that change nothing."""


class MemoryFile(SqliteFile):
    """The file `memory.db`; `now` is the time that facts of the first schema get."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        super().__init__(path, clock=now)
        self._now = now

    def open(self, name: str, schema: Schema) -> Database:
        """Open the file, which may be of any version."""
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
    """An open memory.

    Raises:
        MemoryUnavailable: It cannot be opened, is damaged, or was made by a newer program.
    """

    def __init__(self, database: Path | Backend, now: Callable[[], float] = time.time) -> None:
        self._backend: Backend = MemoryFile(database, now) if isinstance(database, Path) else database
        self._now = now
        self._db = self._open()
        self._transaction = Transaction(self._db, now)

    @property
    def location(self) -> str:
        """Return what users call it."""
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

    def do(self, request: Request[R]) -> R:
        """Execute a request in one transaction; return its answer.

        A request whose commit had no answer is looked up when the server is there again. Where that is not at
        once, the error says so, and the request may be done: all of them may be repeated.

        Raises:
            FactRefused: The fact cannot be stored.
            MemoryUnavailable: The disk is full, or the database cannot be written.
        """
        for attempt in range(ATTEMPTS):
            self._connect()
            mark = ""
            try:
                with transaction(self._db, "BEGIN" if isinstance(request, _LOOKS) else "BEGIN IMMEDIATE"):
                    if not isinstance(request, _LOOKS):
                        self._backend.lock(self._db, self._owners(request))
                    answer = steps.do(request, self._transaction)
                    if not isinstance(request, _LOOKS):
                        mark = self._backend.mark(self._db)
            except (self._backend.error, OSError) as error:
                broken = getattr(self._db, "broken", False)
                if broken and mark and self._is_committed(mark):
                    return answer
                if attempt + 1 < ATTEMPTS and (broken or self._backend.passes(error)):
                    continue
                raise self._unusable(error) from error
            if isinstance(request, Forget | ForgetOwner | TakeFactsBack):
                self._leave_no_trace()
            return answer
        raise AssertionError("the last attempt returns or raises")

    def _connect(self) -> None:
        """Connect again, if the connection has ended."""
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

    def _owners(self, request: Request[Any]) -> Iterable[str]:
        """Return whose facts a request changes, as names of locks."""
        if isinstance(request, TakeFactsBack):
            sql = "SELECT DISTINCT owner FROM changes WHERE turn = ?"
            owners = [str(owner) for (owner,) in self._db.execute(sql, (request.turn,)).fetchall()]
        else:
            owners = [str(getattr(request, "owner", ""))]
        return [f"facts of {owner}" for owner in owners]

    def _leave_no_trace(self) -> None:
        if isinstance(self._db, sqlite3.Connection):
            leave_no_trace(self._db)

    def _unusable(self, error: Exception) -> MemoryUnavailable:
        trouble = self._backend.trouble_of(error)
        if trouble is not None:
            return MemoryUnwritable(*self._backend.why_unwritten(trouble, error))
        return MemoryUnavailable(
            f"{self.location} cannot be used: {error}.",
            "Check the disk's free space and the file's permissions, or ask: rumi doctor",
        )
