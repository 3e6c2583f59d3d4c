"""`memory.db`: opens the file, upgrades it, and executes one request in each transaction.

Plain blocking SQLite, used by one thread at a time. WAL with `synchronous=FULL`: stored facts survive a power
cut, if the disk keeps its promises. Deleted facts are overwritten.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from actors import Request
from rumi.memory import sharing  # noqa: F401  # it registers its steps
from rumi.memory.original import holds_original, take_over
from rumi.memory.rows import steps
from rumi.memory.schema import MEMORY
from rumi.memory.types import (
    Facts,
    Forget,
    ForgetOwner,
    Learned,
    MemoryUnavailable,
    MemoryUnwritable,
    PastFacts,
    Shared,
    TakeFactsBack,
)
from rumi.store.sqlite import (
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


class Store:
    """An open `memory.db`.

    Raises:
        MemoryUnavailable: It cannot be opened, is damaged, or was made by a newer program.
    """

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self.path = path
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            try:
                self._prepare(now)
            except BaseException:
                self._db.close()
                raise
        except DatabaseFault as error:
            raise MemoryUnavailable(error.message, error.advice) from error
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from error
        self._transaction = Transaction(self._db, now)

    def _prepare(self, now: Callable[[], float]) -> None:
        self._db.text_factory = decoded
        version = checked_version(self._db, self.path, MEMORY)
        original = version == 0 and holds_original(self._db, self.path)
        make_durable(self._db, self.path)
        self._db.execute("PRAGMA secure_delete = ON")
        if original:
            take_over(self._db, self.path, now())
        else:
            bring_up_to_date(self._db, self.path, MEMORY, version)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def do(self, request: Request[R]) -> R:
        """Execute a request in one transaction; return its answer.

        Raises:
            FactRefused: The fact cannot be stored.
            MemoryUnavailable: The disk is full, or the file cannot be written. Nothing has changed.
        """
        try:
            looks = isinstance(request, Facts | Learned | PastFacts | Shared)
            with transaction(self._db, "BEGIN" if looks else "BEGIN IMMEDIATE"):
                answer = steps.do(request, self._transaction)
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        if isinstance(request, Forget | ForgetOwner | TakeFactsBack):
            leave_no_trace(self._db)
        return answer

    def _unusable(self, error: sqlite3.Error | OSError) -> MemoryUnavailable:
        trouble = trouble_of(self.path, error)
        if trouble is not None:
            return MemoryUnwritable(*why_unwritten(self.path, trouble, error))
        return MemoryUnavailable(
            f"{self.path} cannot be used: {error}.",
            "Check the disk's free space and the file's permissions, or ask: rumi doctor",
        )
