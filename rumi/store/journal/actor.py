"""The journal's actor: the only writer of `state.db`. Requests that arrive together share one commit."""

import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, TypeVar, cast

import trio

from actors import Actor, Backoff, Refused, answers
from rumi.platform.disk_reserve import Large, Reserve, largest
from rumi.platform.threads import Offload
from rumi.store.backend import Backend
from rumi.store.journal.deliveries import accept_event
from rumi.store.journal.extraction import mark_extracted, skip_extraction
from rumi.store.journal.forgetting import ExpiryCursor, expire_rows, sweep_forgotten
from rumi.store.journal.history import new_session
from rumi.store.journal.inbox import accept_messages
from rumi.store.journal.records import NotStored
from rumi.store.journal.spending import settle_left
from rumi.store.journal.store import NOT_NOW, NotOwner, Store, Unwritable
from rumi.store.journal.transaction import JournalMessage
from rumi.store.ownership import Ownership, Served
from rumi.store.protocol import Trouble
from rumi.store.steps import Run, Step
from rumi.texts import Text, joined

logger = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")

WATCH_S: Final = 15.0
"""Interval between checks that the file was not replaced and that the disk reserve exists, in seconds."""

LOCKED_S: Final = 60.0
"""Time in seconds that another program may lock the file before new messages are refused. All other requests
continue to wait."""

CLEAR_S: Final = 5.0
"""Interval between checks whether a full disk has free space again, in seconds."""

ATTEMPTS: Final = Backoff(first_s=0.05, factor=2.0, cap_s=2.0)
"""Backoff between attempts to write."""

SLICE_PAUSE_S: Final = 0.01
"""Pause between two slices of a deletion, in seconds, which lets other requests be written."""

EXPIRE_S: Final = 3600.0
"""Interval between searches for entries past their retention, in seconds."""

_LEAVES_SOMETHING: Final[tuple[Step[Any, ..., Any], ...]] = (new_session, mark_extracted, skip_extraction)
"""Steps that may leave history to delete."""

_NEW_MESSAGES: Final[tuple[Step[Any, ..., Any], ...]] = (accept_messages, accept_event)
"""Steps that store messages from outside. They are refused while the journal cannot write."""

Identity: TypeAlias = tuple[tuple[int, int] | None, ...]


class AskJournal(Protocol):
    """Sends a request to the journal's actor.

    If no process has locked the home, the request may instead be executed directly on the home's files.
    """

    async def __call__(self, request: Run[R], /) -> R:
        """Send a request; return the reply.

        Raises:
            JournalError: The file cannot be used.
            ActorError: The journal's actor has stopped.
        """
        ...


@dataclass(slots=True)
class JournalState:
    """State of the journal that survives restarts of its actor.

    `trouble` is the reason why the file cannot be written, None if it can be written. `observe` is called
    when `trouble` changes. `since` is the time on trio's clock when the trouble started. `file` identifies
    the open file: if another file replaced it, the journal does not write. `large` lists large files that the
    user could delete, as found when the disk was last full. `opened` is True once the database was opened.
    """

    reserve: Reserve | None = None
    observe: Callable[[Trouble | None], object] = lambda trouble: None
    trouble: Trouble | None = None
    since: float = 0.0
    file: Identity = ()
    opened: bool = False
    large: Sequence[Large] = ()

    @property
    def refuses(self) -> bool:
        """Return True if new messages are refused. They are not lost: their senders still have them."""
        if self.trouble == "locked":
            return trio.current_time() - self.since >= LOCKED_S
        return self.trouble is not None

    def set(self, trouble: Trouble | None) -> None:
        """Set the reason why the file cannot be written. The reason `replaced` is kept until a restart."""
        if trouble == self.trouble or self.trouble == "replaced":
            return
        if self.trouble is None:
            self.since = trio.current_time()
        self.trouble = trouble
        if trouble is None:
            logger.warning("state.db is written again")
        else:
            logger.error("state.db is not written: %s", trouble)
        self.observe(trouble)


class _Job:
    """A request that is waiting to be written. The task that sent the request waits for `done`.

    `writing` is True while a transaction executes the request. `withdrawn` is True if the sender was
    cancelled before any transaction executed the request; then the request is not written. `served` contains
    the partitions that this worker served when the request was sent: a write that was sent under one lease
    must not be accepted under the next.
    """

    __slots__ = ("done", "error", "reply", "request", "served", "withdrawn", "writing")

    def __init__(self, request: JournalMessage, served: Served) -> None:
        self.request = request
        self.served = served
        self.done = trio.Event()
        self.reply: object = None
        self.error: Exception | None = None
        self.writing = False
        self.withdrawn = False

    def answer(self, reply: object) -> None:
        """Set the reply of the request, and wake the task that waits for the reply."""
        if isinstance(reply, NotOwner):
            self.error = Refused(reply)
        else:
            self.reply = reply
        self.done.set()


class Journal(Actor[JournalMessage]):
    """Writes requests with group commit: requests that arrive during one transaction share the next one.

    The actor accepts many requests at once while earlier ones wait for the disk. Requests from a sender that
    waits for each reply (`ask`) are written in order; requests sent without waiting (`tell`) have no order.

    The actor does not crash if the file cannot be written now (a full disk, another program's lock). It
    retains pending requests and retries them until they are written. Meanwhile it answers reads and refuses
    new messages with `NotStored`; if another program holds a lock, it refuses them only after `LOCKED_S`. Any
    other error crashes the actor.
    """

    # Each waiting request occupies one handler: with fewer, requests could not gather for the next commit.
    concurrency = 4096

    def __init__(
        self,
        database: Path | Backend,
        offload: Offload,
        now: Callable[[], float],
        state: JournalState | None = None,
        retention_s: float = 0.0,
        ownership: Ownership | None = None,
    ) -> None:
        """Set up the journal; `retention_s` is the retention of finished entries in seconds, 0 for ever.

        With an `ownership`, several workers share the database, and this worker serves some of the chats.
        """
        self._database = database
        self._path = database if isinstance(database, Path) else None
        self._ownership = ownership
        self._offload = offload
        self._now = now
        self._state = state or JournalState()
        self._retention_s = retention_s
        self._waiting: list[_Job] = []
        self._deferred: list[_Job] = []
        self._failures = 0
        self._next_try = self._next_clear = 0.0
        self._work = trio.Event()
        self._to_sweep = trio.Event()
        self._look_now = trio.Event()
        self._store: Store | None = None
        self._outbox = 0

    async def started(self) -> None:
        """Open the file and start the background tasks.

        Raises:
            JournalError: The file cannot be opened, or is not the file that was open before a restart. The
                error says what to do.
        """
        state = self._state
        if state.file and state.file[:1] != self._identity()[:1]:
            raise Unwritable(self._database, "replaced")
        self._store = await self._open()
        state.file = self._identity()
        self._outbox = self._store.undelivered
        state.opened = True
        alone = self._ownership is None
        # Before anything else is written: afterwards, reservations of earlier processes could not be told
        # apart from those of running calls. Without `alone`, `Partitions` does this for each takeover.
        if alone and await self._offload(self._store.has_reservations):
            self._waiting.append(_Job(settle_left(), Served()))
            self._work.set()
        self._to_sweep.set()  # an earlier process may have ended before its sweep was complete
        self.start_soon(self._write, self._store)
        self.start_soon(self._watch)
        self.start_soon(self._sweep)
        if self._retention_s:
            self.start_soon(self._expire)

    async def _open(self) -> Store:
        until = trio.current_time() + LOCKED_S
        while True:
            try:
                return await self._offload(lambda: Store(self._database, self._now, self._ownership))
            except Unwritable as error:
                if await self._give_back(error.trouble):
                    continue
                waits = error.trouble == "away" and self._state.opened
                if not waits and (error.trouble != "locked" or trio.current_time() >= until):
                    raise
                await trio.sleep(ATTEMPTS.cap_s)

    @answers(Run)
    async def answer(self, message: Run[R]) -> R:
        """Pass the request to the writer, and return its reply after the commit.

        On cancellation, a new message is withdrawn if it is not being written yet. Other requests are still
        written.
        """
        job = _Job(message, Served() if self._ownership is None else self._ownership.served)
        self._waiting.append(job)
        self._work.set()
        try:
            await job.done.wait()
        except trio.Cancelled:
            job.withdrawn = message.step in _NEW_MESSAGES and not job.writing
            raise
        if job.error is not None:
            raise job.error
        return cast(R, job.reply)

    # Writing

    async def _write(self, store: Store) -> None:
        while True:
            look = float("inf") if self._state.trouble == "replaced" else self._next_look()
            if look == float("inf"):  # the usual case: a wait without a deadline is faster
                await self._work.wait()
            else:
                with trio.move_on_at(look):
                    await self._work.wait()
            # No checkpoint between these two lines: a request that comes later sets the new event.
            self._work = trio.Event()
            jobs, self._waiting = self._waiting, []
            self._deferred = [job for job in (*self._deferred, *jobs) if not job.withdrawn]
            if self._state.trouble is not None:
                self._deferred = await self._without_writing(store, self._deferred)
            if self._state.trouble == "replaced" or trio.current_time() < self._next_look():
                continue
            try:
                if self._deferred:
                    await self._commit(store)
                elif self._state.trouble is not None:
                    await self._look_again(store)
            except Unwritable as error:
                await self._put_off(store, error.trouble)

    def _next_look(self) -> float:
        """Return the time of the next attempt to write the file or to probe it, on trio's clock."""
        if self._deferred:
            return self._next_try
        return float("inf") if self._state.trouble in (None, "replaced") else self._next_clear

    async def _commit(self, store: Store) -> None:
        """Write the pending requests in one transaction, and answer them.

        Raises:
            Unwritable: Nothing was written; the requests are still pending.
        """
        jobs = self._deferred
        requests = [job.request for job in jobs]
        # From here a cancelled asker cannot withdraw its message: it may be on the disk already.
        for job in jobs:
            job.writing = True
        try:
            replies = await self._offload(lambda: self._run(store, jobs))
        except Unwritable:
            for job in jobs:
                job.writing = False
            raise
        except Exception as error:
            for job in jobs:
                job.error = error
                job.done.set()
            raise
        self._deferred = []
        self._outbox = store.undelivered
        self._failures = 0
        for job, reply in zip(jobs, replies, strict=True):
            job.answer(reply)
        if any(request.step in _LEAVES_SOMETHING for request in requests):
            self._to_sweep.set()
        # A full disk counts as full until the reserve exists again: see `_look_again`.
        if self._state.trouble not in (None, "full"):
            self._state.set(None)

    def _run(self, store: Store, jobs: Sequence[_Job]) -> list[object]:
        """Execute the requests of the jobs in one transaction. Called in a thread."""
        requests = [job.request for job in jobs]
        return (
            store.run(requests)
            if self._ownership is None
            else store.run(requests, [job.served for job in jobs])
        )

    async def _look_again(self, store: Store) -> None:
        """While no request is pending, check whether the file can be written again.

        The disk reserve is a file that is deleted when the disk is full. The disk counts as full until the
        reserve is restored. Until then, free space is left for running work.
        """
        reserve = self._state.reserve
        if self._state.trouble == "full" and reserve and not await self._offload(reserve.make):
            self._next_clear = trio.current_time() + CLEAR_S
            return
        await self._offload(store.probe)
        self._failures = 0
        self._state.set(None)

    async def _put_off(self, store: Store, trouble: Trouble) -> None:
        """Postpone the requests that could not be written, and answer those that only read."""
        # `_watch` looks at once: the file may have been replaced, and on a full disk it lists large files.
        if self._state.trouble is None:
            self._look_now.set()
        self._state.set(trouble)
        if await self._give_back(trouble):
            self._next_try = 0.0
            self._work.set()
            return
        deferred, self._deferred = self._deferred, []
        self._deferred = await self._without_writing(store, deferred)
        self._next_try = self._next_clear = trio.current_time() + ATTEMPTS.delay_s(self._failures)
        self._failures += 1

    async def _give_back(self, trouble: Trouble) -> bool:
        """Delete the disk reserve if the disk is full or failing. Return True if this freed disk space."""
        reserve = self._state.reserve
        if reserve is None or trouble not in ("full", "failing"):
            return False
        if not await self._offload(reserve.give_back):
            return False
        self._state.set("full")
        logger.warning("the reserve of %d MB is given back to the disk", reserve.size // 1_000_000)
        return True

    async def _without_writing(self, store: Store, jobs: Sequence[_Job]) -> list[_Job]:
        """Refuse new messages, and answer requests that only read. Return the unanswered requests.

        A message is not refused if a commit whose result is unknown may have stored it.
        """
        trouble, left = self._state.trouble, []
        for job in jobs:
            refused = self._state.refuses and job.request.step in _NEW_MESSAGES
            if trouble is not None and refused and not store.may_have(job.request):
                job.answer(NotStored(trouble))
            elif not job.withdrawn:
                left.append(job)
        if not left:
            return []
        requests = [job.request for job in left]
        try:
            replies = await self._offload(lambda: store.read(requests))
        except Unwritable:
            return left
        for job, reply in zip(left, replies, strict=True):
            if reply is not NOT_NOW:
                job.answer(reply)
        return [job for job in left if not job.done.is_set()]

    # Background tasks

    def _identity(self) -> Identity:
        """Return the device and inode of the database and of its write-ahead log; None for a missing file."""
        if self._path is None:
            return ()
        found: list[tuple[int, int] | None] = []
        for path in (self._path, self._path.with_name(f"{self._path.name}-wal")):
            try:
                stat = os.stat(path)
            except OSError:
                found.append(None)
            else:
                found.append((stat.st_dev, stat.st_ino))
        return tuple(found)

    async def _watch(self) -> None:
        """Check regularly that the path still leads to the open file and that the disk reserve exists."""
        state = self._state
        while True:
            if state.trouble is None and state.reserve is not None:
                await self._beside(state.reserve.make)
            if state.trouble == "full" and (path := self._path) is not None:
                state.large = await self._beside(lambda: largest(path.parent)) or ()
            with trio.move_on_after(WATCH_S):
                await self._look_now.wait()
            self._look_now = trio.Event()
            found = await self._beside(self._identity)
            if found is not None and found != state.file:
                state.set("replaced")
                self._work.set()

    async def _beside(self, work: Callable[[], T]) -> T | None:
        """Run blocking background work; on an error, log the error and return None instead of crashing."""
        try:
            return await self._offload(work)
        except Exception as error:  # noqa: BLE001  # whatever it is, the next look finds it again
            logger.warning("%s: %s", getattr(work, "__name__", "work"), error)
            return None

    async def _sweep(self) -> None:
        """Delete the history of forgotten sessions in slices."""
        while True:
            await self._to_sweep.wait()
            self._to_sweep = trio.Event()
            while await self.answer(sweep_forgotten()):  # noqa: ASYNC110  # no polling: the pause lets other requests go first
                await trio.sleep(SLICE_PAUSE_S)

    async def _expire(self) -> None:
        """Delete entries past their retention in slices, when the journal starts and then every hour."""
        while True:
            before = self._now() - self._retention_s
            cursor: ExpiryCursor | None = ExpiryCursor()
            while cursor is not None:
                cursor = await self.answer(expire_rows(before, cursor))
                await trio.sleep(SLICE_PAUSE_S)
            await trio.sleep(EXPIRE_S)

    async def stopped(self, reason: str) -> None:
        """Write the pending requests, then close the file."""
        store, self._store = self._store, None
        if store is None:
            return
        left = [job for job in (*self._deferred, *self._waiting) if not job.withdrawn]
        try:
            if left and reason != "crashed" and self._state.trouble != "replaced":
                await self._offload(lambda: self._run(store, left))
        finally:
            store.close()

    def activity(self) -> str:
        """Return a text: the number of pending requests, and the reason if the file cannot be written."""
        waiting = len(self._waiting) + len(self._deferred)
        words: list[str] = [Text("{count} waiting for the disk", count=waiting)] if waiting else []
        if self._state.trouble is not None:
            words.insert(0, f"state.db is not written: {self._state.trouble}")
        return joined(words, ", ") if words else ""

    def metrics(self) -> Mapping[str, object]:
        """Return metrics: pending requests, replies not acknowledged at the last commit, write trouble."""
        trouble = self._state.trouble
        return {
            "waiting": len(self._waiting) + len(self._deferred),
            "outbox": self._outbox,
            "trouble": trouble,
            "trouble_s": None if trouble is None else round(trio.current_time() - self._state.since, 3),
        }


@asynccontextmanager
async def open_journal(database: Path | Backend) -> AsyncIterator[AskJournal]:
    """Open a journal without an actor tree, for a process that only works on the home's files.

    Raises:
        JournalError: The file cannot be opened. The error says what to do.
    """
    store = await trio.to_thread.run_sync(Store, database)

    async def ask(request: Run[R]) -> R:
        (reply,) = await trio.to_thread.run_sync(store.run, [request])
        return cast(R, reply)

    try:
        yield ask
    finally:
        store.close()
