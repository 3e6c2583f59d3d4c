"""Records every container that may exist, until the engine confirms that it is gone.

A create that is interrupted may still have made a container, and a daemon that hangs will make it when it
wakes up. So every create is a separate task of the registry: the chat that asked may leave at any time, the
task waits for the answer, and the container is then removed. A removal is tried again until the engine
confirms that the container is gone; until then no new container of that name is made.
"""

import logging
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TypeAlias

import trio

from actors import Actor, Refused, Request, answers
from rumi.sandbox.engine import Container, Engine, SandboxError

log = logging.getLogger("rumi.sandbox")

LIST_S = 3.0
"""How long the start of the process waits for the engine to list the containers of an earlier process."""
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
RESTART_S = 2.5
"""How long a failing removal is retried without an error, because an engine that restarts is back by then.
After that the waiting callers get the reason.
"""


@dataclass(frozen=True, slots=True)
class Make(Request[Container]):
    """Make the chat's container, after its predecessor is gone. Cancelled, the container is removed.

    Refused with a SandboxError if it cannot be made, or its predecessor cannot be removed.
    """

    chat_id: str
    workspace: Path


@dataclass(frozen=True, slots=True)
class Remove(Request[None]):
    """Remove the chat's container; the reply comes when no container is there.

    Refused with a SandboxError if that has failed for some time, as it does without an engine. Neither the
    refusal nor a cancelled ask stops the removal.
    """

    chat_id: str


RegistryMessage: TypeAlias = Make | Remove


@dataclass(slots=True)
class _Registered:
    """The record of one name, from before its create is sent until no container of that name exists."""

    settled: trio.Event = field(default_factory=trio.Event)
    """The create was answered, with a container or an error."""
    gone: trio.Event = field(default_factory=trio.Event)
    made: Container | SandboxError | None = None
    unwanted: bool = False
    removing: bool = False
    wanted_now: trio.Event = field(default_factory=trio.Event)
    """A caller waits for the removal: it is tried without a pause."""
    news: trio.Event = field(default_factory=trio.Event)
    """The removal was tried, with or without success; another event takes its place."""
    trouble: SandboxError | None = None
    failing_since: float = inf

    async def removed(self) -> None:
        """Wait until no container is there; refuse if trying has failed for `RESTART_S`."""
        self.wanted_now.set()
        while not self.gone.is_set():
            await self.news.wait()
            if self.trouble is not None and trio.current_time() - self.failing_since >= RESTART_S:
                raise Refused(self.trouble)

    def record_attempt(self, trouble: SandboxError | None) -> None:
        """Record an attempt at the removal."""
        if trouble is None:
            self.gone.set()
        elif self.trouble is None:
            self.failing_since = trio.current_time()
        self.trouble = trouble
        self.news.set()
        self.news = trio.Event()


class ContainerRegistry(Actor[RegistryMessage]):
    """Makes and removes containers for the sandboxes, which are its siblings and stop before it does."""

    concurrency = 4096  # creates and removals under way at the same time, waiting ones included

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._registry: dict[str, _Registered] = {}
        self._listed = False
        """The engine has listed what an earlier process left: only then an unknown chat has no container."""

    async def started(self) -> None:
        """List the containers that an earlier process of this installation left, and begin to remove them."""
        with trio.move_on_after(LIST_S):
            if await self._sweep():
                return
        self.start_soon(self._sweep_later)

    @answers(Remove)
    async def remove(self, message: Remove) -> None:
        """Remove a chat's container, if there is one; return when it is gone."""
        if (entry := self._known(message.chat_id)) is not None:
            self._let_go(message.chat_id, entry)
            await entry.removed()

    async def stopped(self, reason: str) -> None:
        """Remove all containers of this installation. The next start removes unconfirmed ones."""
        if reason == "crashed":
            return  # the next incarnation finds all of them by their labels
        left = set(self._registry)
        try:
            left |= {container.chat_id for container in await self._engine.containers()}
        except SandboxError as error:
            log.warning("The sandboxes could not be listed at the end: %s", error)
        async with trio.open_nursery() as nursery:
            for chat_id in left:
                nursery.start_soon(self._remove_at_end, chat_id)

    def activity(self) -> str:
        """Return how many containers are active, and how many are being removed."""
        removing = sum(entry.unwanted for entry in self._registry.values())
        return f"{len(self._registry) - removing} active, {removing} being removed"

    @answers(Make)
    async def make(self, message: Make) -> Container:
        """Make a chat's container after its predecessor was removed."""
        before = self._known(message.chat_id)
        while before is not None:
            self._let_go(message.chat_id, before)
            await before.removed()
            before = self._registry.get(message.chat_id)
        entry = self._registry[message.chat_id] = _Registered()
        self.start_soon(self._create, message, entry)
        try:
            await entry.settled.wait()
        except trio.Cancelled:
            self._let_go(message.chat_id, entry)
            raise
        made = entry.made or SandboxError("The sandbox was not made.")
        if isinstance(made, SandboxError):
            self._let_go(message.chat_id, entry)
            raise Refused(made)
        return made

    async def _create(self, message: Make, entry: _Registered) -> None:
        """Send a create and store its answer."""
        try:
            entry.made = await self._engine.create(message.chat_id, message.workspace)
        except (SandboxError, OSError) as error:
            entry.made = _said(error)
        entry.settled.set()
        if entry.unwanted:
            self._let_go(message.chat_id, entry)

    def _let_go(self, chat_id: str, entry: _Registered) -> None:
        """Have the container removed as soon as the create is answered."""
        entry.unwanted = True
        if entry.settled.is_set() and not entry.removing:
            entry.removing = True
            self.start_soon(self._remove, chat_id, entry)

    async def _remove(self, chat_id: str, entry: _Registered) -> None:
        pause = FIRST_PAUSE_S
        while True:
            try:
                await self._engine.remove(chat_id)
                break
            except (SandboxError, OSError) as error:
                if entry.trouble is None:
                    log.warning("The sandbox of %s is not yet removed: %s", chat_id, error)
                entry.record_attempt(_said(error))
            with trio.move_on_after(pause):
                await entry.wanted_now.wait()
            entry.wanted_now = trio.Event()
            pause = min(pause * 2, LONGEST_PAUSE_S)
        del self._registry[chat_id]
        entry.record_attempt(None)

    async def _sweep(self) -> bool:
        """Remove what an earlier process left beside containers, and record containers with our labels that
        are unknown, to be removed. Return False without an answer.
        """
        try:
            await self._engine.sweep()
            found = await self._engine.containers()
        except SandboxError:
            return False
        self._listed = True
        for container in found:
            if container.chat_id not in self._registry:
                self._let_go(container.chat_id, self._leftover(container.chat_id))
        return True

    def _known(self, chat_id: str) -> _Registered | None:
        """Return the chat's entry; before the engine has listed its containers, the chat may have one."""
        entry = self._registry.get(chat_id)
        return entry if entry is not None or self._listed else self._leftover(chat_id)

    def _leftover(self, chat_id: str) -> _Registered:
        """Record a container of an earlier process."""
        entry = self._registry[chat_id] = _Registered()
        entry.settled.set()
        return entry

    async def _sweep_later(self) -> None:
        pause = FIRST_PAUSE_S
        while not await self._sweep():
            await trio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _remove_at_end(self, chat_id: str) -> None:
        try:
            await self._engine.remove(chat_id)
        except SandboxError as error:
            log.warning("The sandbox of %s is left to the next start: %s", chat_id, error)


def _said(error: SandboxError | OSError) -> SandboxError:
    """Return the error for the chat that it concerns, without the names of other chats' containers."""
    if isinstance(error, SandboxError):
        return error
    return SandboxError(
        f"This machine does not allow a sandbox to be made or removed: {error.strerror or error}."
    )
