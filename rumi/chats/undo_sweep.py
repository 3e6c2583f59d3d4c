"""Deletes old files of undo: leftovers of a crash, and snapshots and recordings past their retention time."""

from functools import partial
from typing import Final, Never, Protocol

import trio

from actors import Actor, ActorRef
from rumi.chats.services import Undo
from rumi.store.journal.inbox import knows_chat
from rumi.store.journal.transaction import JournalMessage
from rumi.store.journal.undo import find_undo

SWEEP_S: Final = 3600.0


class StoredTurns(Protocol):
    """A store of files about the last turns of chats: snapshots or recordings."""

    def chats(self) -> tuple[str, ...]:
        """Return the chats with stored files."""
        ...

    def forget(self, chat: str) -> None:
        """Delete the stored files of a chat."""
        ...

    def expire(self, retention_s: float) -> None:
        """Delete files that are older than `retention_s` seconds."""
        ...


class UndoSweep(Actor[Never]):
    """Deletes staged files of interrupted restores at startup, and expired files every hour.

    The actor starts before the chats, so that it removes staged files before a chat builds new ones. Every
    `SWEEP_S` seconds it deletes the snapshots and recordings of deleted chats, and those older than
    `retention_s` seconds; if `retention_s` is 0, none is deleted because of its age. If other workers share
    the home (`alone` is false), staged files are not deleted, because these workers may be using them.
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
        """Remove staged files, except those that a chat needs to complete a restore when it starts."""
        undo = self._undo
        for chat in await undo.offload(undo.snapshots.chats) if self._alone else ():
            if await self._journal.ask(find_undo(chat)) is None:
                await undo.offload(partial(undo.restoring.discard, chat))
        self.start_soon(self._sweep)

    async def _sweep(self) -> None:
        offload = self._undo.offload
        while True:
            for store in self._stores:
                for chat in await offload(store.chats):
                    if not await self._journal.ask(knows_chat(chat)):
                        await offload(partial(store.forget, chat))
                if self._retention_s:
                    await offload(partial(store.expire, self._retention_s))
            await trio.sleep(SWEEP_S)
