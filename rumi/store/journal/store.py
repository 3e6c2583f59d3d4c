"""The journal's database: opened, brought up to date, and asked for several steps in one transaction.

Blocking, used by one thread at a time. It is `state.db`, written with WAL and `synchronous=FULL`, so that
what was committed survives a power cut; or a PostgreSQL database that several workers share.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from actors import Request
from rumi.errors import RumiError, UsageError
from rumi.store.backend import Backend, SqliteFile, as_values, backend_of, closed
from rumi.store.journal import (  # noqa: F401  # they register their steps
    extraction,
    forgetting,
    inbox,
    leases,
    outbox,
    reading,
    schedules,
    spending,
    tasks,
    undo,
    workspaces,
)
from rumi.store.journal.forgetting import LeaveNoTrace
from rumi.store.journal.leases import Touch
from rumi.store.journal.schema import STATE
from rumi.store.journal.scopes import Scope, scopes_of
from rumi.store.journal.transaction import Read, steps
from rumi.store.ownership import SHARED, Ownership, Served, channel_of, partition_of
from rumi.store.protocol import Database, Trouble
from rumi.store.sqlite import DatabaseFault, leave_no_trace, transaction
from rumi.store.steps import Transaction

NOT_NOW: Final = object()
"""In place of an answer that has to wait until the file can be written."""

ATTEMPTS: Final = 5
"""How often a transaction is tried that others have ended, before the journal waits a moment."""


class JournalError(RumiError):
    """The database cannot be read or written: nothing is accepted that could not be accounted for."""


class Unwritable(JournalError, UsageError):
    """The database cannot be written now, and nothing is wrong with what was to be written."""

    def __init__(self, database: Path | Backend, trouble: Trouble, error: object = "") -> None:
        super().__init__(*backend_of(database).why_unwritten(trouble, error))
        self.trouble: Trouble = trouble


class NotOwner(JournalError):
    """Another worker serves the chat by now: what this one wanted to write was refused."""


@dataclass(frozen=True, slots=True)
class _Unsure:
    """A transaction whose commit had no answer: whose it was, its number, its requests, and what they would
    have got."""

    worker: str
    batch: int
    requests: Sequence[Request[Any]]
    replies: Sequence[object]


class Store:
    """An open database. `undelivered` is how many replies nobody has acknowledged, as last committed.

    With an `ownership` other workers write it as well: each transaction locks the partitions that it touches,
    and requests of an owner are refused, with `NotOwner` as their reply, if this worker is not the owner.

    Raises:
        Unwritable: it cannot be opened now.
        JournalError: it cannot be opened, is damaged, or was made by a newer program.
    """

    def __init__(
        self,
        database: Path | Backend,
        now: Callable[[], float] | None = time.time,
        ownership: Ownership | None = None,
    ) -> None:
        """`now` is the time for what is stored, None for the database's own clock."""
        self._backend = backend_of(database)
        self._now = now
        self._ownership = ownership
        self._batch = 0
        self._unsure: _Unsure | None = None
        self._done: list[tuple[Request[Any], object]] = []
        """What commits without an answer have done, and its replies, which nobody has yet."""
        self._touched: set[str] = set()
        self.undelivered = 0
        self._db = self._open()
        self._transaction = self._new_transaction()

    @property
    def location(self) -> str:
        """Return what users call it."""
        return self._backend.location

    def _open(self) -> Database:
        try:
            db = self._backend.open("state", STATE)
            try:
                self.undelivered = self._count_undelivered(db)
            except BaseException:
                closed(db)
                raise
        except DatabaseFault as error:
            raise JournalError(error.message, error.advice) from error
        except (self._backend.error, OSError) as error:
            raise self._failed(error) from error
        return db

    def _new_transaction(self) -> Transaction:
        owned = None if self._ownership is None else self._ownership.numbers
        now = self._now or (lambda: self._backend.now(self._db))
        size = lambda: self._backend.size(self._db)  # noqa: E731
        return Transaction(self._db, now, size, owned, self._touched, self._backend.lock_rows)

    def close(self) -> None:
        """Close the database."""
        closed(self._db)

    def abandon(self) -> None:
        """Cut the connection, which a thread may wait at. Callable from another thread."""
        if (cut := getattr(self._db, "cut", None)) is not None:
            cut()

    def has_reservations(self) -> bool:
        """Return True if model calls are reserved: in a file just opened, by earlier processes."""
        return self._db.execute("SELECT 1 FROM reservations LIMIT 1").fetchone() is not None

    def may_have(self, request: Request[Any]) -> bool:
        """Return True if the request is in a transaction whose commit had no answer: it may be done."""
        unsure = () if self._unsure is None else self._unsure.requests
        return any(request_done is request for request_done in (*unsure, *(done for done, _ in self._done)))

    def run(self, requests: Sequence[Request[Any]], asked: Sequence[Served] = ()) -> list[object]:
        """Do all of them in one transaction and return their replies, or do none and raise.

        `asked` is what this worker served when each of them was asked; now, if left out.

        Raises:
            Unwritable: the disk is full, say. The same requests may be tried again.
            JournalError: the database cannot be used.
        """
        try:
            if self._ownership is not None:
                asked = asked or [self._ownership.served] * len(requests)
                return self._run_shared(requests, asked, self._ownership)
            with transaction(self._db):
                replies = [steps.do(request, self._transaction) for request in requests]
                undelivered = self._count_undelivered(self._db)
            self._touched.clear()
            self.undelivered = undelivered
        except (self._backend.error, OSError) as error:
            raise self._failed(error) from error
        asked_for = [isinstance(request, LeaveNoTrace) for request in requests]
        if any(asked_for) and isinstance(self._db, sqlite3.Connection):
            done = leave_no_trace(self._db)
            replies = [
                done if leaves_no_trace else reply
                for leaves_no_trace, reply in zip(asked_for, replies, strict=True)
            ]
        return replies

    # Shared with other workers

    def _run_shared(
        self, requests: Sequence[Request[Any]], asked: Sequence[Served], ownership: Ownership
    ) -> list[object]:
        self._after_an_unsure_commit()
        known = {id(request): reply for request, reply in self._done}
        pairs = zip(requests, asked, strict=True)
        left = [(request, served) for request, served in pairs if id(request) not in known]
        if left:
            for attempt in range(ATTEMPTS):
                try:
                    replies = self._try(left, ownership)
                    known |= {id(served): reply for (served, _), reply in zip(left, replies, strict=True)}
                    break
                except self._backend.error as error:
                    if attempt + 1 == ATTEMPTS or not self._backend.passes(error):
                        raise
        self._done = []
        return [known[id(request)] for request in requests]

    def _after_an_unsure_commit(self) -> None:
        """Connect again where the connection has ended; keep the replies of a commit that had no answer.

        They are kept until `run` returns them: the next commit may have no answer either.
        """
        if getattr(self._db, "broken", False):
            self._db = self._open()
            self._transaction = self._new_transaction()
        unsure = self._unsure
        if unsure is None:
            return
        # The server may still be at work on that commit, or wait for it: the lock waits for its end.
        sql = f"SELECT batch FROM workers WHERE name = ?{self._backend.lock_rows}"
        row = self._db.execute(sql, (unsure.worker,)).fetchone()
        self._unsure = None
        if row is not None and row[0] == unsure.batch:
            self._done += zip(unsure.requests, unsure.replies, strict=True)

    def _try(self, asked: Sequence[tuple[Request[Any], Served]], ownership: Ownership) -> list[object]:
        db, batch, now = self._db, self._batch + 1, ownership.served
        requests = [request for request, _ in asked]
        self._touched.clear()
        replies: list[object] = []
        lost: frozenset[int] = frozenset()
        committing = False
        db.execute("BEGIN IMMEDIATE")
        try:
            scopes = scopes_of(requests, self._transaction)
            owners = self._lock(scopes)
            for (request, served), scope in zip(asked, scopes, strict=True):
                gone = self._not_served(scope, owners, served)
                lost |= self._not_served(scope, owners, now) & now.fences.keys()
                replies.append(self._refusal(request) if gone else steps.do(request, self._transaction))
            undelivered = self._count_undelivered(db)
            self._notify_others(owners, now)
            if any(scope.numbers for scope in scopes):
                db.execute("UPDATE workers SET batch = ? WHERE name = ?", (batch, now.worker))
            committing = True
            db.execute("COMMIT")
        except BaseException as error:
            if committing and self._backend.trouble_of(error) == "away":  # type: ignore[arg-type]
                self._unsure = _Unsure(now.worker, batch, tuple(requests), tuple(replies))
            with suppress(Exception):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            raise
        finally:
            self._batch = batch
        self.undelivered = undelivered
        if lost:
            ownership.lost(now.worker, lost)
        return replies

    def _lock(self, scopes: Sequence[Scope]) -> Mapping[int, tuple[str | None, int]]:
        """Lock the partitions of the requests, in their order; return who serves each, and its fence."""
        numbers = sorted(frozenset().union(*(scope.numbers for scope in scopes)))
        if not numbers:
            return {}
        rows = self._db.execute(
            f"SELECT number, worker, fence FROM partitions WHERE number IN ({as_values(numbers)})"
            f" ORDER BY number{self._backend.lock_rows}"
        )
        return {number: (worker, fence) for number, worker, fence in rows}

    @staticmethod
    def _not_served(
        scope: Scope, owners: Mapping[int, tuple[str | None, int]], served: Served
    ) -> frozenset[int]:
        """Return the partitions of a request of an owner that are not served with the fence that it has."""
        if not scope.owned:
            return frozenset()
        fences = served.fences
        return frozenset(
            number
            for number in scope.numbers - {SHARED}
            if number not in fences or owners.get(number) != (served.worker, fences[number])
        )

    @staticmethod
    def _refusal(request: Request[Any]) -> NotOwner:
        return NotOwner(f"{type(request).__name__} was refused: another worker serves this chat by now.")

    def _notify_others(self, owners: Mapping[int, tuple[str | None, int]], now: Served) -> None:
        """Tell the workers that serve them of chats in which something is new."""
        new: dict[str, list[str]] = {}
        for chat in sorted(self._touched):
            worker, _ = owners.get(partition_of(chat), (None, 0))
            if worker is not None and worker != now.worker:
                new.setdefault(worker, []).append(chat)
        for worker, chats in new.items():
            for start in range(0, len(chats), 50):  # a notification has room for 8,000 bytes
                payload = json.dumps(chats[start : start + 50])
                self._backend.notify(self._db, channel_of(worker), payload)

    # Reading

    def read(self, requests: Sequence[Request[Any]]) -> list[object]:
        """Return the answers that need no writing; `NOT_NOW` in place of the others."""
        if not isinstance(self._backend, SqliteFile):
            return [NOT_NOW for _ in requests]
        self._db.execute("PRAGMA query_only = ON")
        try:
            return [self._read(request) for request in requests]
        finally:
            self._db.execute("PRAGMA query_only = OFF")

    def _read(self, request: Request[Any]) -> object:
        if not isinstance(request, Read):
            return NOT_NOW
        try:
            return steps.do(request, self._transaction)
        except self._backend.error:
            return NOT_NOW

    def probe(self) -> None:
        """Write without changing anything.

        Raises:
            Unwritable: it still cannot be written.
        """
        try:
            if self._ownership is not None:
                self.run([Touch()])
            else:
                self._db.execute(f"PRAGMA user_version = {STATE.version}")
        except self._backend.error as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> JournalError:
        trouble = self._backend.trouble_of(error)
        if trouble is not None:
            return Unwritable(self._backend, trouble, error)
        return JournalError(
            f"{self.location} cannot be used: {error}.",
            "Check the disk's free space and the file's permissions, or ask: rumi doctor",
        )

    def _count_undelivered(self, db: Database) -> int:
        """Return how many replies nobody has acknowledged: few, and an index has them alone."""
        (count,) = db.execute("SELECT count(*) FROM outbox WHERE delivered IS NULL").fetchone()
        return int(count)
