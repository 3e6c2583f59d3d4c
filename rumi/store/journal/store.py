"""The journal's database: opening, schema upgrades, and transactions that execute several requests.

Blocking; used by one thread at a time. The database is either `state.db` or a PostgreSQL database that
several workers share. `state.db` uses WAL and `synchronous=FULL`, so that commits survive a power failure.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rumi.errors import RumiError, UsageError
from rumi.store.backend import Backend, SqliteFile, as_values, backend_of, closed
from rumi.store.journal.forgetting import truncate_log
from rumi.store.journal.leases import touch
from rumi.store.journal.schema import STATE
from rumi.store.journal.scopes import Scope, scopes_of
from rumi.store.journal.transaction import JournalMessage
from rumi.store.ownership import SHARED, Ownership, Served, channel_of, partition_of
from rumi.store.protocol import Database, Trouble
from rumi.store.sqlite import DatabaseFault, leave_no_trace, transaction
from rumi.store.steps import Transaction

NOT_NOW: Final = object()
"""Placeholder for the reply to a request that must wait until the file can be written."""

ATTEMPTS: Final = 5
"""Maximum number of attempts at a transaction that conflicts with others, before the journal pauses."""


class JournalError(RumiError):
    """The database cannot be read or written, so messages are not accepted."""


class Unwritable(JournalError, UsageError):
    """The database temporarily cannot be written. The requests themselves are correct and can be retried."""

    def __init__(self, database: Path | Backend, trouble: Trouble, error: object = "") -> None:
        super().__init__(*backend_of(database).why_unwritten(trouble, error))
        self.trouble: Trouble = trouble


class NotOwner(JournalError):
    """The write was refused, because another worker now serves the chat."""


@dataclass(frozen=True, slots=True)
class _Unsure:
    """A transaction whose COMMIT got no answer: its worker, its number, its requests and their replies."""

    worker: str
    batch: int
    requests: Sequence[JournalMessage]
    replies: Sequence[object]


class Store:
    """An open database. `undelivered` is the number of replies not acknowledged at the last commit.

    With an `ownership`, other workers also write to the database. Each transaction then locks the partitions
    that it uses. An `owned` step gets the reply `NotOwner` if this worker does not own its partition.

    Raises:
        Unwritable: The database temporarily cannot be opened; a later attempt may succeed.
        JournalError: The database is damaged, was written by a newer program, or cannot be opened for
            a lasting reason.
    """

    def __init__(
        self,
        database: Path | Backend,
        now: Callable[[], float] | None = time.time,
        ownership: Ownership | None = None,
    ) -> None:
        """Open the database. `now` returns the time to store with rows; None selects the database's clock."""
        self._backend = backend_of(database)
        self._now = now
        self._ownership = ownership
        self._batch = 0
        self._unsure: _Unsure | None = None
        self._done: list[tuple[JournalMessage, object]] = []
        """Requests that were executed by a commit without an answer, each with its reply. `run` returns these
        replies."""
        self._touched: set[str] = set()
        self.undelivered = 0
        self._db = self._open()
        self._transaction = self._new_transaction()

    @property
    def location(self) -> str:
        """Return the name of the database as shown to users."""
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
        """Shut down the connection to wake a thread that is blocked on it. Callable from any thread."""
        if (cut := getattr(self._db, "cut", None)) is not None:
            cut()

    def has_reservations(self) -> bool:
        """Return True if model calls are reserved (by earlier processes, if the file was just opened)."""
        return self._db.execute("SELECT 1 FROM reservations LIMIT 1").fetchone() is not None

    def may_have(self, request: JournalMessage) -> bool:
        """Return True if a commit that got no answer may have executed the request."""
        unsure = () if self._unsure is None else self._unsure.requests
        return any(request_done is request for request_done in (*unsure, *(done for done, _ in self._done)))

    def run(self, requests: Sequence[JournalMessage], asked: Sequence[Served] = ()) -> list[object]:
        """Execute all requests in one transaction and return their replies; on an error, execute none.

        `asked` contains, for each request, the partitions that this worker served when the request was sent;
        by default those that it serves now.

        Raises:
            Unwritable: The database temporarily cannot be written, for example on a full disk. The same
                requests may be retried.
            JournalError: The database cannot be used; a retry does not help.
        """
        try:
            if self._ownership is not None:
                asked = asked or [self._ownership.served] * len(requests)
                return self._run_shared(requests, asked, self._ownership)
            with transaction(self._db):
                replies = [request.do(self._transaction) for request in requests]
                undelivered = self._count_undelivered(self._db)
            self._touched.clear()
            self.undelivered = undelivered
        except (self._backend.error, OSError) as error:
            raise self._failed(error) from error
        # SQLite cannot truncate the write-ahead log within a transaction, so `truncate_log` is done after it.
        asked_for = [request.step is truncate_log for request in requests]
        if any(asked_for) and isinstance(self._db, sqlite3.Connection):
            done = leave_no_trace(self._db)
            replies = [
                done if leaves_no_trace else reply
                for leaves_no_trace, reply in zip(asked_for, replies, strict=True)
            ]
        return replies

    # Shared with other workers

    def _run_shared(
        self, requests: Sequence[JournalMessage], asked: Sequence[Served], ownership: Ownership
    ) -> list[object]:
        self._after_an_unsure_commit()
        # The journal retries the same request objects, so identity tells which ones are done already.
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
        """Reconnect if the connection is lost; find out whether an unanswered commit succeeded.

        If the commit succeeded, its replies are retained until `run` returns them, because the next commit
        may also get no answer.
        """
        if getattr(self._db, "broken", False):
            self._db = self._open()
            self._transaction = self._new_transaction()
        unsure = self._unsure
        if unsure is None:
            return
        # The server may still be working on that commit. It holds the row's lock until then: wait for it.
        sql = f"SELECT batch FROM workers WHERE name = ?{self._backend.lock_rows}"
        row = self._db.execute(sql, (unsure.worker,)).fetchone()
        self._unsure = None
        if row is not None and row[0] == unsure.batch:
            self._done += zip(unsure.requests, unsure.replies, strict=True)

    def _try(self, asked: Sequence[tuple[JournalMessage, Served]], ownership: Ownership) -> list[object]:
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
                unserved = self._not_served(scope, owners, served)
                # Only partitions that this worker still believes to serve are lost: it may have handed over
                # others since the request was asked.
                lost |= self._not_served(scope, owners, now) & now.fences.keys()
                # A refusal is a reply like others: the rest of the batch is still stored.
                replies.append(self._refusal(request) if unserved else request.do(self._transaction))
            undelivered = self._count_undelivered(db)
            self._notify_others(owners, now)
            # The number is committed with the transaction: after a lost answer it proves that it was done.
            if any(scope.numbers for scope in scopes):
                db.execute("UPDATE workers SET batch = ? WHERE name = ?", (batch, now.worker))
            committing = True
            db.execute("COMMIT")
        except BaseException as error:
            # Before the COMMIT was sent, a lost connection means that nothing was done.
            if committing and self._backend.trouble_of(error) == "away":  # type: ignore[arg-type]
                self._unsure = _Unsure(now.worker, batch, tuple(requests), tuple(replies))
            with suppress(Exception):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            raise
        finally:
            # A failed transaction uses up its number too, so that no later check takes it for another one.
            self._batch = batch
        self.undelivered = undelivered
        if lost:
            ownership.lost(now.worker, lost)
        return replies

    def _lock(self, scopes: Sequence[Scope]) -> Mapping[int, tuple[str | None, int]]:
        """Lock the partitions of the requests; return the worker and the fence of each partition."""
        # All workers lock in ascending order, so that two transactions cannot deadlock.
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
        """Return an owned request's partitions that are not in `served` with the same worker and fence."""
        if not scope.owned:
            return frozenset()
        fences = served.fences
        return frozenset(
            number
            for number in scope.numbers - {SHARED}
            if number not in fences or owners.get(number) != (served.worker, fences[number])
        )

    @staticmethod
    def _refusal(request: JournalMessage) -> NotOwner:
        return NotOwner("{name} was refused: another worker serves this chat by now.", name=request.step.name)

    def _notify_others(self, owners: Mapping[int, tuple[str | None, int]], now: Served) -> None:
        """Notify other workers about new entries in the chats that they serve."""
        new: dict[str, list[str]] = {}
        for chat in sorted(self._touched):
            worker, _ = owners.get(partition_of(chat), (None, 0))
            if worker is not None and worker != now.worker:
                new.setdefault(worker, []).append(chat)
        for worker, chats in new.items():
            for start in range(0, len(chats), 50):  # PostgreSQL limits a payload to 8,000 bytes
                payload = json.dumps(chats[start : start + 50])
                self._backend.notify(self._db, channel_of(worker), payload)

    # Reading

    def read(self, requests: Sequence[JournalMessage]) -> list[object]:
        """Return the replies to requests that only read, and `NOT_NOW` for all other requests."""
        # Only a local file can still be read while it cannot be written; on a server all requests wait.
        if not isinstance(self._backend, SqliteFile):
            return [NOT_NOW for _ in requests]
        # A step that reads may have to write, for example to open a session: then it fails here and waits.
        self._db.execute("PRAGMA query_only = ON")
        try:
            return [self._read(request) for request in requests]
        finally:
            self._db.execute("PRAGMA query_only = OFF")

    def _read(self, request: JournalMessage) -> object:
        if not request.step.reads:
            return NOT_NOW
        try:
            return request.do(self._transaction)
        except self._backend.error:
            return NOT_NOW

    def probe(self) -> None:
        """Test whether the database can be written, without changing its content.

        Raises:
            Unwritable: The database still cannot be written.
        """
        try:
            if self._ownership is not None:
                self.run([touch()])
            else:
                # SQLite writes the file's header for this, although the value does not change.
                self._db.execute(f"PRAGMA user_version = {STATE.version}")
        except self._backend.error as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> JournalError:
        trouble = self._backend.trouble_of(error)
        if trouble is not None:
            return Unwritable(self._backend, trouble, error)
        return JournalError(
            "{location} cannot be used: {error}.",
            "Check the disk's free space and the file's permissions, or ask: rumi doctor",
            location=self.location,
            error=error,
        )

    def _count_undelivered(self, db: Database) -> int:
        """Return the number of unacknowledged replies. A partial index contains only these few replies."""
        (count,) = db.execute("SELECT count(*) FROM outbox WHERE delivered IS NULL").fetchone()
        return int(count)
