"""The memory's actor, the only one that uses `memory.db`, and functions to send requests to this actor."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import trio

from actors import Actor, ActorError, ActorRef, Refused, answers
from rumi.memory.messages import FactRefused, MemoryUnavailable, MemoryUnwritable
from rumi.memory.rows import forget_key, remember_fact
from rumi.memory.store import MemoryStore
from rumi.platform.threads import Offload
from rumi.store.backend import Backend
from rumi.store.steps import Run

R = TypeVar("R")


class Memory(Actor[Run[Any]]):
    """The memory's actor: executes one request after another, each in a separate transaction.

    A full disk does not crash the actor: the request is refused with `MemoryUnavailable`, and the next
    request tries again. After a restart, the actor does not crash either if the database is unreachable: the
    next request opens the database. So a failure of the database affects only requests to the memory.
    """

    def __init__(self, database: Path | Backend, offload: Offload, now: Callable[[], float]) -> None:
        self._database = database
        self._offload = offload
        self._now = now
        self._store: MemoryStore | None = None
        self._answered = 0
        self._failed = 0

    async def started(self) -> None:
        """Open the database.

        Raises:
            MemoryUnavailable: the database cannot be opened. The error says what to do. When the actor is
                restarted, this is raised only if trying again later cannot help.
        """
        try:
            await self._offload(self._opened)
        except MemoryUnwritable:
            # At the start of the program a person reads the error. A restarted actor continues without the
            # database: only requests to the memory may fail then, not the process.
            if self.incarnation == 1:
                raise

    @answers(Run)
    async def answer(self, message: Run[R]) -> R:
        """Execute a request. A cancelled caller waits until the transaction is complete."""
        self._answered += 1
        try:
            return await self._offload(lambda: self._opened().do(message))
        except (MemoryUnavailable, FactRefused) as error:
            self._failed += isinstance(error, MemoryUnavailable)
            raise Refused(error) from error

    def _opened(self) -> MemoryStore:
        if self._store is None:
            self._store = MemoryStore(self._database, self._now)
        return self._store

    def metrics(self) -> Mapping[str, object]:
        """Return the number of requests since startup, and the number that failed because of the database."""
        return {"requests": self._answered, "failed": self._failed}

    async def stopped(self, reason: str) -> None:
        """Close the database."""
        if self._store is not None:
            await self._offload(self._store.close)


class AskMemory(Protocol):
    """A function that sends requests to the memory, in this process or in another one."""

    async def __call__(self, request: Run[R]) -> R:
        """Send a request and return the reply. On cancellation the request is executed either fully or not.

        Raises:
            FactRefused: the fact is not stored. The error gives the reason.
            MemoryUnavailable: the database cannot be used, or the memory does not answer.
        """
        ...


@asynccontextmanager
async def open_memory(database: Path | Backend) -> AsyncIterator[AskMemory]:
    """Open a memory without an actor, for a process that only works on the home's files.

    Raises:
        MemoryUnavailable: the database cannot be opened.
    """
    store = MemoryStore(database)

    async def ask(request: Run[R]) -> R:
        await trio.lowlevel.checkpoint()
        return store.do(request)

    try:
        yield ask
    finally:
        store.close()


def asking_for_turn(ask: AskMemory, turn: str) -> AskMemory:
    """Return a function that sends requests on behalf of a turn. `take_facts_back` can undo their changes."""

    async def of_turn(request: Run[R]) -> R:
        if request.step in (remember_fact, forget_key):
            request = replace(request, kwargs={**request.kwargs, "turn": turn})
        return await ask(request)

    return of_turn


def asking(memory: ActorRef[Any]) -> AskMemory:
    """Return a function that sends requests to the actor; it raises `MemoryUnavailable` without an answer."""

    async def ask(request: Run[R]) -> R:
        try:
            return await memory.ask(request)
        except ActorError as error:
            raise MemoryUnavailable("The memory does not answer.", "Try again in a moment.") from error

    return ask
