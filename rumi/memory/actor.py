"""The memory's actor: the only one that has `memory.db` open; and how it is asked."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import trio

from actors import Actor, ActorError, ActorRef, Refused, Request, answers
from rumi.memory.store import Store
from rumi.memory.types import FactRefused, MemoryMessage, MemoryUnavailable

T = TypeVar("T")
R = TypeVar("R")


class Offload(Protocol):
    """Runs blocking work, in threads of its own or in place; see `rumi.journal`."""

    async def __call__(self, work: Callable[[], T]) -> T:
        """Run `work` and return what it returns."""
        ...


class Memory(Actor[MemoryMessage]):
    """Answers one request after the other, each in a transaction of its own.

    A full disk is not a crash: the request is refused with `MemoryUnavailable`, and the next one tries
    again. So nothing depends on the memory but what is asked of it.
    """

    def __init__(self, path: Path, offload: Offload, now: Callable[[], float]) -> None:
        self._path = path
        self._offload = offload
        self._now = now
        self._store: Store | None = None
        self._answered = 0
        self._failed = 0

    async def started(self) -> None:
        """Open the file.

        Raises:
            MemoryUnavailable: with what to do about it.
        """
        self._store = await self._offload(lambda: Store(self._path, self._now))

    @answers(Request)
    async def answer(self, message: Request[R]) -> R:
        """Do what is asked. The asker's cancellation waits for the transaction, which is then complete."""
        assert self._store is not None
        self._answered += 1
        try:
            return cast(R, await self._offload(partial(self._store.do, cast(MemoryMessage, message))))
        except (MemoryUnavailable, FactRefused) as error:
            self._failed += isinstance(error, MemoryUnavailable)
            raise Refused(error) from error

    def figures(self) -> Mapping[str, object]:
        """Requests since it started, and how many of them the file could not be used for."""
        return {"requests": self._answered, "failed": self._failed}

    async def stopped(self, reason: str) -> None:
        """Close the file."""
        if self._store is not None:
            await self._offload(self._store.close)


class Ask(Protocol):
    """Asks the memory, wherever it is."""

    async def __call__(self, request: Request[R]) -> R:
        """Return the answer. Cancelled, what was asked is done wholly or not at all.

        Raises:
            FactRefused: the fact is not stored, and why.
            MemoryUnavailable: the file cannot be used, or nobody answers.
        """
        ...


@asynccontextmanager
async def open_memory(path: Path, now: Callable[[], float] = time.time) -> AsyncIterator[Ask]:
    """A memory without a tree around it, for a process that does nothing else and holds the home.

    Raises:
        MemoryUnavailable: the file cannot be opened.
    """
    store = Store(path, now)

    async def ask(request: Request[R]) -> R:
        await trio.lowlevel.checkpoint()
        return cast(R, store.do(cast(MemoryMessage, request)))

    try:
        yield ask
    finally:
        store.close()


def asking(memory: ActorRef[Any]) -> Ask:
    """Ask the actor; a memory that does not answer is unavailable."""

    async def ask(request: Request[R]) -> R:
        try:
            return await memory.ask(request)
        except ActorError as error:
            raise MemoryUnavailable("The memory does not answer.", "Try again in a moment.") from error

    return ask
