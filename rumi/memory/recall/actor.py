"""The recall's actor, which alone has `recall.db` open, and the way to ask it."""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import trio

from actors import Actor, ActorError, ActorRef, Refused, Request, answers
from rumi.memory.recall.messages import (
    CatchUp,
    CountPassages,
    Prune,
    RecallMessage,
    RecallUnavailable,
    SearchPassages,
)
from rumi.memory.recall.store import RecallStore
from rumi.platform.chat_ids import ChatIds
from rumi.platform.threads import Offload
from rumi.store.backend import PostgresServer

logger = logging.getLogger(__name__)

R = TypeVar("R")

LOOK_S: Final = 300.0
"""How often the index follows the state, at least. A search follows it first."""
SLICES: Final = 20
"""Slices that a search waits for. Of an index that is being rebuilt it has a part."""
PAUSE_S: Final = 0.02
"""The pause between two slices in the background: turns come first."""


class Recall(Actor[RecallMessage]):
    """Answers one request after the other, and follows the state in the background: a file or a database.

    Nothing that fails in it is a crash: the request is refused with `RecallUnavailable`, and the next one
    opens the file again where that is needed. So only requests to the recall depend on it. When it ends, a
    thread that waits for the database fails at once.
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
        """`offload` does one work at a time."""
        self._open: Callable[[], RecallStore] = lambda: RecallStore(path, database, now)
        self._ids = ids
        self._offload = offload
        self._store: RecallStore | None = None
        self._woken = trio.Event()
        self._answered = self._failed = self._passages = 0

    async def started(self) -> None:
        """Begin to follow; the first slice opens the file."""
        self.start_soon(self._follow)
        self.start_soon(self._cut_at_the_end)

    async def receive(self, message: RecallMessage) -> None:
        """Look for what was deleted."""
        self._woken.set()

    @answers(Request)
    async def answer(self, message: Request[R]) -> R:
        """Execute a request. The asker's cancellation waits for the transaction, which is then complete."""
        self._answered += 1
        try:
            if isinstance(message, SearchPassages):
                await self._catch_up(SLICES)
            return await self._do(message)
        except RecallUnavailable as error:
            self._failed += 1
            raise Refused(error) from error

    def metrics(self) -> Mapping[str, object]:
        """Return the number of passages, of requests since the start, and of those that failed."""
        return {"passages": self._passages, "requests": self._answered, "failed": self._failed}

    async def stopped(self, reason: str) -> None:
        """Close the file."""
        store, self._store = self._store, None
        if store is not None:
            await self._offload(store.close)

    async def _do(self, request: Request[R]) -> R:
        return await self._offload(lambda: self._do_now(request))

    def _do_now(self, request: Request[R]) -> R:
        if self._store is None or self._store.closed:
            self._store = self._open()
        return self._store.do(request)

    async def _cut_at_the_end(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            if self._store is not None:
                self._store.cut()

    async def _catch_up(self, most: int) -> bool:
        """Index up to so many slices; return True if there may be more."""
        for _ in range(most):
            if not await self._do(CatchUp(self._ids)):
                return False
        return True

    async def _follow(self) -> None:
        """Index what is new, and remove what is gone: now, when woken, and every `LOOK_S` seconds."""
        while True:
            self._woken = trio.Event()
            try:
                while await self._catch_up(1):  # noqa: ASYNC110  # it lets others go first
                    await trio.sleep(PAUSE_S)
                cursor: int | None = 0
                while cursor is not None:
                    cursor = await self._do(Prune(cursor))
                    await trio.sleep(PAUSE_S)
                self._passages = await self._do(CountPassages())
            except RecallUnavailable as error:
                logger.info("the index of conversations is not up to date: %s", error)
            with trio.move_on_after(LOOK_S):
                await self._woken.wait()


class AskRecall(Protocol):
    """Asks the recall, in this process or in another one."""

    async def __call__(self, request: Request[R]) -> R:
        """Return the answer. Cancelled, the request is executed completely or not at all.

        Raises:
            RecallUnavailable: A file cannot be used, or the recall does not answer.
        """
        ...


@asynccontextmanager
async def open_recall(path: Path, database: Path | PostgresServer, ids: ChatIds) -> AsyncIterator[AskRecall]:
    """Open an up-to-date index without a tree around it, for a process that only works on the home's files.

    Raises:
        RecallUnavailable: A file cannot be opened.
    """
    store = RecallStore(path, database)

    async def ask(request: Request[R]) -> R:
        await trio.lowlevel.checkpoint()
        return store.do(request)

    try:
        while await ask(CatchUp(ids)):
            pass
        after: int | None = 0
        while after is not None:
            after = await ask(Prune(after))
        yield ask
    finally:
        store.close()


def asking(recall: ActorRef[Any]) -> AskRecall:
    """Return a function that asks the actor; a recall that does not answer is unavailable."""

    async def ask(request: Request[R]) -> R:
        try:
            return await recall.ask(request)
        except ActorError as error:
            raise RecallUnavailable("The recall does not answer.", "Try again in a moment.") from error

    return ask
