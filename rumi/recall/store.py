"""`recall.db`: opened beside `state.db`, which is only read; made again if it is missing, old or damaged.

Plain blocking SQLite, used by one thread at a time. Nothing is lost with it: it follows from `state.db`.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from actors import Request
from rumi.recall import following, search  # noqa: F401  # they register their steps
from rumi.recall.following import is_ahead
from rumi.recall.schema import RECALL
from rumi.recall.steps import steps
from rumi.recall.types import Count, Prune, RecallUnavailable, Search, Unindex
from rumi.store.sqlite import (
    OPEN_S,
    DatabaseFault,
    bring_up_to_date,
    checked_version,
    decoded,
    leave_no_trace,
    make_durable,
    transaction,
    trouble_of,
    why_unwritten,
)
from rumi.store.steps import Transaction

R = TypeVar("R")

_ENDS: Final = ("", "-wal", "-shm")
_READS: Final = (Search, Count)


def delete_index(path: Path) -> None:
    """Delete the file and its log. The next start makes it again."""
    for end in _ENDS:
        path.with_name(f"{path.name}{end}").unlink(missing_ok=True)


class Store:
    """An open `recall.db`, with `state.db` attached read-only as `state`.

    Raises:
        RecallUnavailable: One of the files cannot be opened.
    """

    def __init__(self, path: Path, state: Path, now: Callable[[], float] = time.time) -> None:
        self.path = path
        self._state = state
        try:
            try:
                self._db = self._opened()
            except (sqlite3.DatabaseError, DatabaseFault) as error:
                if isinstance(error, sqlite3.Error) and trouble_of(path, error) is not None:
                    raise
                delete_index(path)
                self._db = self._opened()
        except DatabaseFault as error:
            raise RecallUnavailable(error.message, error.advice) from error
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from error
        self._transaction = Transaction(self._db, now)

    def _opened(self) -> sqlite3.Connection:
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        db = sqlite3.connect(
            self.path.absolute().as_uri(),
            isolation_level=None,
            check_same_thread=False,
            timeout=OPEN_S,
            uri=True,
        )
        try:
            db.text_factory = decoded
            version = checked_version(db, self.path, RECALL)
            if version not in (0, RECALL.version):
                raise sqlite3.DatabaseError("of another version")
            make_durable(db, self.path)
            db.execute("PRAGMA synchronous = NORMAL")  # what a power cut takes is indexed again
            db.execute("PRAGMA secure_delete = ON")
            bring_up_to_date(db, self.path, RECALL, version)
            db.execute("ATTACH ? AS state", (f"{self._state.absolute().as_uri()}?mode=ro",))
            if is_ahead(db):
                raise sqlite3.DatabaseError("of another state.db")
        except BaseException:
            db.close()
            raise
        return db

    def close(self) -> None:
        """Close the files."""
        self._db.close()

    def do(self, request: Request[R]) -> R:
        """Execute a request in one transaction; return its answer.

        Raises:
            RecallUnavailable: A file cannot be read or written. Nothing has changed.
        """
        changes = self._db.total_changes
        try:
            with transaction(self._db, "BEGIN" if isinstance(request, _READS) else "BEGIN IMMEDIATE"):
                answer = steps.do(request, self._transaction)
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        if isinstance(request, Prune | Unindex) and self._db.total_changes != changes:
            leave_no_trace(self._db)
        return answer

    def _unusable(self, error: sqlite3.Error | OSError) -> RecallUnavailable:
        trouble = trouble_of(self.path, error)
        if trouble is not None:
            return RecallUnavailable(*why_unwritten(self.path, trouble, error))
        return RecallUnavailable(
            f"{self.path} cannot be used: {error}.",
            "Delete it, and the next start makes it again; or ask: rumi doctor",
        )
