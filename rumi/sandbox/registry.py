"""The container registry: records every container that may exist, until the engine confirms its removal.

An interrupted create request may still produce a container, and a Docker daemon that hangs will create it
when it recovers. Therefore every create request runs in its own task of the registry: the asking chat may
leave at any time, while the task waits for the answer and then has the container removed. A removal is
retried until the engine confirms that the container is gone; until then no new container of that name is
created.
"""

import logging
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TypeAlias

import trio

from actors import Actor, Refused, Request, answers
from rumi.sandbox.engine import Container, Engine, SandboxError
from rumi.texts import os_error

log = logging.getLogger("rumi.sandbox")

LIST_S = 3.0
"""Maximum time to list the containers of an earlier process at startup; a failed listing is retried later."""
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
RESTART_S = 2.5
"""Time for which a failing removal is retried before the waiting callers get the error. A restarted engine is
back within this time.
"""


@dataclass(frozen=True, slots=True)
class Make(Request[Container]):
    """Create the chat's container after its previous one is gone. If cancelled, the new container is removed.

    Refused with a SandboxError if the container cannot be created, or the previous one cannot be
    removed.
    """

    chat_id: str
    workspace: Path


@dataclass(frozen=True, slots=True)
class Remove(Request[None]):
    """Remove the chat's container; the reply comes when no container exists.

    Refused with a SandboxError if the removal has failed for `RESTART_S`, for example because the engine is
    down. The removal continues after a refusal or a cancelled ask.
    """

    chat_id: str


RegistryMessage: TypeAlias = Make | Remove


@dataclass(slots=True)
class _Registered:
    """The record of a chat's container, from before its create request is sent until it is gone."""

    settled: trio.Event = field(default_factory=trio.Event)
    """Set when the create was answered, with a container or an error."""
    gone: trio.Event = field(default_factory=trio.Event)
    made: Container | SandboxError | None = None
    unwanted: bool = False
    removing: bool = False
    wanted_now: trio.Event = field(default_factory=trio.Event)
    """Set when a caller waits for the removal, which is then retried without a pause."""
    news: trio.Event = field(default_factory=trio.Event)
    """Set after each attempt at the removal, successful or not, and then replaced by a new event."""
    trouble: SandboxError | None = None
    failing_since: float = inf

    async def removed(self) -> None:
        """Wait until the container is gone; refuse if the removal has failed for `RESTART_S`."""
        self.wanted_now.set()
        while not self.gone.is_set():
            await self.news.wait()
            if self.trouble is not None and trio.current_time() - self.failing_since >= RESTART_S:
                raise Refused(self.trouble)

    def record_attempt(self, trouble: SandboxError | None) -> None:
        """Record the result of an attempt at the removal: its error, or None if the container is gone."""
        if trouble is None:
            self.gone.set()
        elif self.trouble is None:
            self.failing_since = trio.current_time()
        self.trouble = trouble
        self.news.set()
        self.news = trio.Event()


class ContainerRegistry(Actor[RegistryMessage]):
    """Creates and removes containers for the sandbox actors, which are its siblings and stop before it."""

    concurrency = 4096  # simultaneous creates and removals, including waiting ones

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._registry: dict[str, _Registered] = {}
        self._listed = False
        """True after the engine has listed the containers of an earlier process: only then is it certain that
        a chat without a record has no container."""

    async def started(self) -> None:
        """List the leftover containers of an earlier process of this installation; start their removal."""
        with trio.move_on_after(LIST_S):
            if await self._sweep():
                return
        self.start_soon(self._sweep_later)

    @answers(Remove)
    async def remove(self, message: Remove) -> None:
        """Remove the chat's container, if it has one; return when it is gone."""
        if (entry := self._known(message.chat_id)) is not None:
            self._let_go(message.chat_id, entry)
            await entry.removed()

    async def stopped(self, reason: str) -> None:
        """Remove all containers of this installation. The next start removes any that are left."""
        if reason == "crashed":
            return  # the next incarnation finds all of them by their labels
        chat_ids = set(self._registry)
        try:
            chat_ids |= {container.chat_id for container in await self._engine.containers()}
        except SandboxError as error:
            log.warning("The sandboxes could not be listed at the end: %s", error)
        async with trio.open_nursery() as nursery:
            for chat_id in chat_ids:
                nursery.start_soon(self._remove_at_end, chat_id)

    def activity(self) -> str:
        """Return the numbers of active containers and of those being removed."""
        removing = sum(entry.unwanted for entry in self._registry.values())
        return f"{len(self._registry) - removing} active, {removing} being removed"

    @answers(Make)
    async def make(self, message: Make) -> Container:
        """Create a chat's container after the removal of the chat's previous one."""
        before = self._known(message.chat_id)
        while before is not None:
            self._let_go(message.chat_id, before)
            await before.removed()
            before = self._registry.get(message.chat_id)  # another Make may have been faster
        # Recorded before the create is sent, with no checkpoint in between: from the first moment at which a
        # container may exist, the registry knows about it.
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
        """Send a create request and record its answer; remove the container if no caller needs it."""
        try:
            entry.made = await self._engine.create(message.chat_id, message.workspace)
        except (SandboxError, OSError) as error:
            entry.made = _said(error)
        entry.settled.set()
        if entry.unwanted:
            self._let_go(message.chat_id, entry)

    def _let_go(self, chat_id: str, entry: _Registered) -> None:
        """Mark the container as unwanted; start its removal once its create request has been answered."""
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
        # Before the waiting tasks are woken: they may create the next container under this name.
        del self._registry[chat_id]
        entry.record_attempt(None)

    async def _sweep(self) -> bool:
        """Remove the leftovers of an earlier process; return False if the engine does not answer.

        Containers with this installation's labels but without a record are recorded and removed.
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
        """Return the chat's record; until the engine has listed its containers, assume that one exists."""
        entry = self._registry.get(chat_id)
        return entry if entry is not None or self._listed else self._leftover(chat_id)

    def _leftover(self, chat_id: str) -> _Registered:
        """Record a container that an earlier process may have left."""
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
    """Convert an engine error into one that a chat may see, without the names of other chats' containers."""
    if isinstance(error, SandboxError):
        return error
    return SandboxError(
        "This machine does not allow a sandbox to be made or removed: {reason}.",
        reason=os_error(error),
    )
