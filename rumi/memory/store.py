"""`memory.db`: opens the file, upgrades it, and executes one request in each transaction.

Plain blocking SQLite, used by one thread at a time. WAL with `synchronous=FULL`: stored facts survive a power
cut, if the disk keeps its promises. Deleted facts are overwritten.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from rumi.databases import (
    DatabaseFault,
    bring_up_to_date,
    checked_version,
    make_durable,
    trouble_of,
    why_unwritten,
)
from rumi.memory import rows
from rumi.memory.original import holds_original, take_over
from rumi.memory.schema import MEMORY
from rumi.memory.types import (
    Fact,
    FactRefused,
    Facts,
    Forget,
    Learn,
    Learned,
    MemoryMessage,
    MemoryUnavailable,
    MemoryUnwritable,
    NewFact,
    Remember,
)
from rumi.memory.writing import checked


class Store:
    """An open `memory.db`.

    Raises:
        MemoryUnavailable: It cannot be opened, is damaged, or was made by a newer program.
    """

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self.path = path
        self._now = now
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise
        except DatabaseFault as error:
            raise MemoryUnavailable(error.message, error.advice) from error
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from error

    def _prepare(self) -> None:
        self._db.text_factory = _text
        version = checked_version(self._db, self.path, MEMORY)
        original = version == 0 and holds_original(self._db, self.path)
        make_durable(self._db, self.path)
        self._db.execute("PRAGMA secure_delete = ON")
        if original:
            take_over(self._db, self.path, self._now())
        else:
            bring_up_to_date(self._db, self.path, MEMORY, version)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def do(self, request: MemoryMessage) -> object:
        """Execute a request in one transaction; return its answer.

        Raises:
            FactRefused: The fact cannot be stored.
            MemoryUnavailable: The disk is full, or the file cannot be written. Nothing has changed.
        """
        try:
            self._db.execute("BEGIN" if isinstance(request, Facts | Learned) else "BEGIN IMMEDIATE")
            try:
                answer = self._answer(request)
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        if isinstance(request, Forget):
            self._leave_no_trace()
        return answer

    def _answer(self, request: MemoryMessage) -> object:
        match request:
            case Facts(owner):
                return rows.facts_of(self._db, owner)
            case Remember():
                return self._remember(request)
            case Forget(owner, key):
                return rows.remove(self._db, owner, key, self._now())
            case Learned(chat, session, upto):
                found = self._db.execute(
                    "SELECT EXISTS (SELECT 1 FROM learned WHERE chat = ? AND session = ? AND upto = ?)",
                    (chat, session, upto),
                )
                return bool(found.fetchone()[0])
            case Learn():
                return self._learn(request)

    def _remember(self, request: Remember) -> tuple[Fact, ...]:
        now, new = self._now(), checked(request.fact.key, request.fact.value)
        fact = Fact(new.key, new.value, request.source, request.chat, request.tainted, now, now)
        rows.put(self._db, request.owner, fact)
        return rows.others(self._db, request.owner, fact)

    def _learn(self, request: Learn) -> int:
        now = self._now()
        marked = self._db.execute(
            "INSERT OR IGNORE INTO learned (chat, session, upto, at) VALUES (?, ?, ?, ?)",
            (request.chat, request.session, request.upto, now),
        )
        if marked.rowcount == 0:
            return 0
        return sum(self._learned(request, new, now) for new in request.facts)

    def _learned(self, request: Learn, found: NewFact, now: float) -> bool:
        """Return True if the fact is new. A fact that cannot be stored must not prevent the others."""
        try:
            new = checked(found.key, found.value)
            if request.began is not None and rows.forgotten_since(
                self._db, request.owner, new.key, request.began
            ):
                return False
            fact = Fact(new.key, new.value, "auto", request.chat, created=now, updated=now)
            return rows.put(self._db, request.owner, fact)
        except FactRefused:
            return False

    def _leave_no_trace(self) -> None:
        """Remove deleted facts from the write-ahead log as well; if this must wait, a later call does it."""
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _unusable(self, error: sqlite3.Error | OSError) -> MemoryUnavailable:
        trouble = trouble_of(self.path, error)
        if trouble is not None:
            return MemoryUnwritable(*why_unwritten(self.path, trouble, error))
        return MemoryUnavailable(
            f"{self.path} cannot be used: {error}.",
            "Check the disk's free space and the file's permissions, or ask: rumi doctor",
        )


def _text(raw: bytes) -> str:
    """Decode a text; text from another program may not be UTF-8, which must not make a file unreadable."""
    return raw.decode("utf-8", "replace")
