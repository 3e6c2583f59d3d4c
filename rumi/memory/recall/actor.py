"""The recall's actor, the only one that uses `recall.db`, and functions to send requests to this actor."""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import trio

from actors import Actor, ActorError, ActorRef, Refused, answers
from rumi.memory.recall.following import catch_up, prune_passages
from rumi.memory.recall.messages import HistoryDeleted, RecallUnavailable
from rumi.memory.recall.search import count_passages, search_passages
from rumi.memory.recall.store import RecallStore
from rumi.platform.chat_ids import ChatIds
from rumi.platform.threads import Offload
from rumi.store.backend import PostgresServer
from rumi.store.steps import Run

logger = logging.getLogger(__name__)

R = TypeVar("R")

LOOK_S: Final = 300.0
"""Maximum interval between two updates of the index, in seconds. A search updates the index first."""
SLICES: Final = 20
"""Maximum number of slices indexed before a search; during a rebuild, the search uses a partial index."""
PAUSE_S: Final = 0.02
"""Pause between two slices in the background in seconds, because turns have priority."""


class Recall(Actor[Run[Any] | HistoryDeleted]):
    """The recall's actor: executes one request after another, and updates the search index in the background.

    A failure does not crash the actor: the request is refused with `RecallUnavailable`, and the next request
    opens the file again if necessary. So a failure of the index affects only requests to the recall. When the
    actor ends, a thread that is waiting for the database is made to fail at once.
    """

    concurrency = 64

    def __init__(
        self,
        path: Path,
        database: Path | PostgresServer,
        ids: ChatIds,
        offload: Offload,
        now: Callable[[], float],
    ) -> None:
        """Create the actor; `offload` runs blocking calls in a thread and must run one call at a time."""
        self._open: Callable[[], RecallStore] = lambda: RecallStore(path, database, now)
        self._ids = ids
        self._offload = offload
        self._store: RecallStore | None = None
        self._woken = trio.Event()
        self._answered = self._failed = self._passages = 0

    async def started(self) -> None:
        """Start the task that updates the index. The task opens the file when it first indexes rows."""
        self.start_soon(self._follow)
        self.start_soon(self._cut_at_the_end)

    async def receive(self, message: Run[Any] | HistoryDeleted) -> None:
        """Wake the task that updates the index, so that it removes deleted passages."""
        self._woken.set()

    @answers(Run)
    async def answer(self, message: Run[R]) -> R:
        """Execute a request. A cancelled caller waits until the transaction is complete."""
        self._answered += 1
        try:
            if message.step is search_passages:
                await self._catch_up(SLICES)
            return await self._do(message)
        except RecallUnavailable as error:
            self._failed += 1
            raise Refused(error) from error

    def metrics(self) -> Mapping[str, object]:
        """Return the number of indexed passages, of requests since startup, and of failed requests."""
        return {"passages": self._passages, "requests": self._answered, "failed": self._failed}

    async def stopped(self, reason: str) -> None:
        """Close the files and the connection to the database."""
        store, self._store = self._store, None
        if store is not None:
            await self._offload(store.close)

    async def _do(self, request: Run[R]) -> R:
        return await self._offload(lambda: self._do_now(request))

    def _do_now(self, request: Run[R]) -> R:
        if self._store is None or self._store.closed:
            self._store = self._open()
        return self._store.do(request)

    async def _cut_at_the_end(self) -> None:
        # On cancellation the other tasks of the actor wait for their thread, which may wait for a server that
        # does not answer: only a closed socket ends that.
        try:
            await trio.sleep_forever()
        finally:
            if self._store is not None:
                self._store.cut()

    async def _catch_up(self, most: int) -> bool:
        """Index at most `most` batches of rows; return True if more rows may remain."""
        for _ in range(most):
            if not await self._do(catch_up(self._ids)):
                return False
        return True

    async def _follow(self) -> None:
        """Index new passages and remove deleted ones: now, when woken, and every `LOOK_S` seconds."""
        while True:
            # Before the update, not after it: a deletion during the update starts another one.
            self._woken = trio.Event()
            try:
                while await self._catch_up(1):  # noqa: ASYNC110  # it lets others go first
                    await trio.sleep(PAUSE_S)
                cursor: int | None = 0
                while cursor is not None:
                    cursor = await self._do(prune_passages(cursor))
                    await trio.sleep(PAUSE_S)
                self._passages = await self._do(count_passages())
            except RecallUnavailable as error:
                logger.info("the index of conversations is not up to date: %s", error)
            with trio.move_on_after(LOOK_S):
                await self._woken.wait()


class AskRecall(Protocol):
    """A function that sends requests to the recall, in this process or in another one."""

    async def __call__(self, request: Run[R]) -> R:
        """Send a request and return the reply. On cancellation the request is executed either fully or not.

        Raises:
            RecallUnavailable: a file or the database cannot be used, or the recall does not answer.
        """
        ...


@asynccontextmanager
async def open_recall(path: Path, database: Path | PostgresServer, ids: ChatIds) -> AsyncIterator[AskRecall]:
    """Open an up-to-date index without an actor, for a process that only works on the home's files.

    Raises:
        RecallUnavailable: a file cannot be opened.
    """
    store = RecallStore(path, database)

    async def ask(request: Run[R]) -> R:
        await trio.lowlevel.checkpoint()
        return store.do(request)

    try:
        while await ask(catch_up(ids)):
            pass
        after: int | None = 0
        while after is not None:
            after = await ask(prune_passages(after))
        yield ask
    finally:
        store.close()


def asking(recall: ActorRef[Any]) -> AskRecall:
    """Return a function that sends requests to the actor; it raises `RecallUnavailable` without an answer."""

    async def ask(request: Run[R]) -> R:
        try:
            return await recall.ask(request)
        except ActorError as error:
            raise RecallUnavailable("The recall does not answer.", "Try again in a moment.") from error

    return ask
