"""Cleans up what taking turns back leaves on the disk: after a crash, and when it is older than it may be."""

from functools import partial
from typing import Final, Never, Protocol

import trio

from actors import Actor, ActorRef
from rumi.chats.services import Undo
from rumi.store.journal.inbox import Knows
from rumi.store.journal.transaction import JournalMessage
from rumi.store.journal.undo import FindUndo

SWEEP_S: Final = 3600.0


class StoredTurns(Protocol):
    """What is kept of the last turns of chats, in files."""

    def chats(self) -> tuple[str, ...]:
        """Return the chats of which something is kept."""
        ...

    def forget(self, chat: str) -> None:
        """Delete what is kept of a chat."""
        ...

    def expire(self, retention_s: float) -> None:
        """Delete what is older than so many seconds."""
        ...


class UndoSweep(Actor[Never]):
    """Starts before the chats: what was built and is not to be put in place goes, before a chat builds.

    Snapshots and recordings older than `keep_s` go every hour, and those of chats that were deleted; 0 keeps
    them. What an interrupted restore left stays if this process is not `alone`: workers may share it.
    """

    def __init__(
        self,
        journal: ActorRef[JournalMessage],
        undo: Undo,
        retention_s: float,
        recordings: StoredTurns | None = None,
        *,
        alone: bool = True,
    ) -> None:
        self._alone = alone
        self._stores: tuple[StoredTurns, ...] = (undo.snapshots, *((recordings,) if recordings else ()))
        self._journal = journal
        self._undo = undo
        self._retention_s = retention_s

    async def started(self) -> None:
        """Remove what an interrupted restore left, unless the chat's start completes it."""
        undo = self._undo
        for chat in await undo.offload(undo.snapshots.chats) if self._alone else ():
            if await self._journal.ask(FindUndo(chat)) is None:
                await undo.offload(partial(undo.restoring.discard, chat))
        self.start_soon(self._sweep)

    async def _sweep(self) -> None:
        offload = self._undo.offload
        while True:
            for store in self._stores:
                for chat in await offload(store.chats):
                    if not await self._journal.ask(Knows(chat)):
                        await offload(partial(store.forget, chat))
                if self._retention_s:
                    await offload(partial(store.expire, self._retention_s))
            await trio.sleep(SWEEP_S)
