"""Cleans up what taking turns back leaves on the disk: after a crash, and when it is older than it may be."""

from functools import partial
from typing import Final, Never

import trio

from actors import Actor, ActorRef
from rumi.chats.services import Undo
from rumi.journal import FindUndo, JournalMessage, Knows

SWEEP_S: Final = 3600.0


class UndoSweep(Actor[Never]):
    """Starts before the chats: what was built and is not to be put in place goes, before a chat builds.

    Snapshots older than `keep_s` go every hour, and those of chats that were deleted; 0 keeps them.
    """

    def __init__(self, journal: ActorRef[JournalMessage], undo: Undo, keep_s: float) -> None:
        self._journal = journal
        self._undo = undo
        self._keep_s = keep_s

    async def started(self) -> None:
        """Remove what an interrupted restore left, unless the chat's start completes it."""
        undo = self._undo
        for chat in await undo.offload(undo.snapshots.chats):
            if await self._journal.ask(FindUndo(chat)) is None:
                await undo.offload(partial(undo.restoring.discard, chat))
        self.start_soon(self._sweep)

    async def _sweep(self) -> None:
        undo = self._undo
        while True:
            for chat in await undo.offload(undo.snapshots.chats):
                if not await self._journal.ask(Knows(chat)):
                    await undo.offload(partial(undo.snapshots.forget, chat))
            if self._keep_s:
                await undo.offload(partial(undo.snapshots.expire, self._keep_s))
            await trio.sleep(SWEEP_S)
