"""`recall.db`, the index of stored conversations; the index is rebuilt if it is missing, outdated or damaged.

Plain blocking SQLite, used by one thread at a time. The file can be deleted without loss, because the index
is derived from the state: `state.db` or a database that workers share. The state itself is never changed
here.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from rumi.memory.recall.messages import RecallUnavailable
from rumi.memory.recall.state import MOST_ENTRIES, AttachedFile, Indexing, SharedDatabase, StateTables
from rumi.store.backend import PostgresServer
from rumi.store.sqlite import (
    OPEN_S,
    DatabaseFault,
    Schema,
    bring_up_to_date,
    checked_version,
    decoded,
    leave_no_trace,
    make_durable,
    transaction,
    trouble_of,
    why_unwritten,
)
from rumi.store.steps import Run

R = TypeVar("R")

_ENDS: Final = ("", "-wal", "-shm")


def delete_index(path: Path) -> None:
    """Delete the index file and its log. The next start builds the index again."""
    for end in _ENDS:
        path.with_name(f"{path.name}{end}").unlink(missing_ok=True)


class RecallStore:
    """An open `recall.db`, and the state that it indexes: `state.db` or a shared database.

    After an error of the shared database, `closed` is true, and a new store must be opened.

    Raises:
        RecallUnavailable: a file cannot be opened, or the database does not answer.
    """

    def __init__(
        self,
        path: Path,
        database: Path | PostgresServer,
        now: Callable[[], float] = time.time,
        most_entries: int = MOST_ENTRIES,
    ) -> None:
        """Open the files. `most_entries` limits how many entries of a shared history are indexed."""
        self.path = path
        self.closed = False
        self._database = database
        self._most = most_entries
        try:
            try:
                self._db, self._state = self._opened()
            except (sqlite3.DatabaseError, DatabaseFault) as error:
                # A full disk or a lock is no reason to delete the index; damage or another version is.
                if isinstance(error, sqlite3.Error) and trouble_of(path, error) is not None:
                    raise
                delete_index(path)
                self._db, self._state = self._opened()
        except DatabaseFault as error:
            raise RecallUnavailable(error.message, error.advice) from error
        except (sqlite3.Error, OSError, self._error) as error:
            raise self._unusable(error) from error
        self._transaction = Indexing(self._db, now, state=self._state)

    @property
    def _error(self) -> type[Exception]:
        return self._database.error if isinstance(self._database, PostgresServer) else sqlite3.Error

    def _opened(self) -> tuple[sqlite3.Connection, StateTables]:
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        db = sqlite3.connect(
            self.path.absolute().as_uri(),
            isolation_level=None,
            check_same_thread=False,
            timeout=OPEN_S,
            uri=True,
        )
        state: StateTables | None = None
        try:
            db.text_factory = decoded
            version = checked_version(db, self.path, RECALL)
            if version not in (0, RECALL.version):
                raise sqlite3.DatabaseError("of another version")
            make_durable(db, self.path)
            db.execute("PRAGMA synchronous = NORMAL")  # entries lost in a power cut are indexed again
            db.execute("PRAGMA secure_delete = ON")
            bring_up_to_date(db, self.path, RECALL, version)
            if isinstance(self._database, Path):
                state = AttachedFile(db, self._database)
            else:
                state = SharedDatabase(db, self._database, self._most)
            if state.is_another():
                raise sqlite3.DatabaseError("of another state")
        except BaseException:
            if state is not None:
                state.close()
            db.close()
            raise
        return db, state

    def close(self) -> None:
        """Close the files and the connection to the database."""
        self.closed = True
        self._state.close()
        self._db.close()

    def cut(self) -> None:
        """Close the connection to the database, so that a thread blocked on it fails at once. Thread-safe."""
        self._state.cut()

    def do(self, request: Run[R]) -> R:
        """Execute a request in one transaction and return its reply.

        Raises:
            RecallUnavailable: a file or the database cannot be read, or a file cannot be written. Nothing has
                changed.
        """
        changes = self._db.total_changes
        begin = "BEGIN" if request.step.reads else "BEGIN IMMEDIATE"
        try:
            with self._state.snapshot(), transaction(self._db, begin):
                answer = request.do(self._transaction)
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        except self._error as error:
            self.close()
            raise self._unusable(error) from error
        if request.step.erases and self._db.total_changes != changes:
            leave_no_trace(self._db)
        return answer

    def _unusable(self, error: Exception) -> RecallUnavailable:
        if isinstance(self._database, PostgresServer) and isinstance(error, self._database.error):
            trouble = self._database.trouble_of(error)
            if trouble is not None:
                return RecallUnavailable(*self._database.why_unwritten(trouble, error))
            return RecallUnavailable(
                "{location} cannot be used: {error}.",
                "Start the database, or correct [store] url.",
                location=self._database.location,
                error=error,
            )
        assert isinstance(error, sqlite3.Error | OSError)
        trouble = trouble_of(self.path, error)
        if trouble is not None:
            return RecallUnavailable(*why_unwritten(self.path, trouble, error))
        return RecallUnavailable(
            "{path} cannot be used: {error}.",
            "Delete it, and the next start makes it again; or ask: rumi doctor",
            path=self.path,
            error=error,
        )


SCHEMA: Final = """
CREATE TABLE cursors (           -- up to where `state.db` is indexed
    name  TEXT PRIMARY KEY,
    value REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE owners (
    id    INTEGER PRIMARY KEY,
    name  TEXT NOT NULL UNIQUE,
    passages INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE passages (
    id      INTEGER PRIMARY KEY,
    owner   INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    chat    TEXT NOT NULL,
    session INTEGER NOT NULL,
    turn    TEXT NOT NULL,
    first   INTEGER NOT NULL,    -- its rows in `state.db`: entries of the history, a task, an episode
    last    INTEGER NOT NULL,
    at      REAL NOT NULL,
    flags   INTEGER NOT NULL,    -- what it has: numbers, dates, names
    UNIQUE (chat, session, turn, kind)
);
CREATE INDEX passages_in_order ON passages (chat, session, first);
CREATE TABLE terms (             -- each stem with its owner's number in front, and in how many passages it is
    id    INTEGER PRIMARY KEY,
    term  TEXT NOT NULL UNIQUE,
    passages INTEGER NOT NULL
);
CREATE VIRTUAL TABLE words USING fts5(said, answered, tokenize="ascii tokenchars '_'");
CREATE VIRTUAL TABLE spellings USING fts5(
    term, content='terms', content_rowid='id', tokenize='trigram', detail='none', columnsize=0
);
"""


RECALL: Final = Schema(2, SCHEMA, {})
"""Version 2 divides texts into other words. An index of another version is rebuilt."""
