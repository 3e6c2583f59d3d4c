"""Stops everything at once: turns, tasks, and what would begin more of them."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import trio

from actors import ActorError
from rumi import texts
from rumi.chat_ids import LOCAL, ChatIds
from rumi.chats import ChatCommand, Inbox
from rumi.errors import RumiError
from rumi.journal import Incoming
from rumi.tasks import Tasks
from rumi.texts import Language

logger = logging.getLogger(__name__)

STOP_ALL_S: Final = 20.0
"""How long the answer waits for the end of what runs. The rest is named in it, and goes on ending."""

Pause = Callable[[], Awaitable[int]]
"""Pauses what begins turns or tasks by itself; returns how many were paused."""


@dataclass(frozen=True, slots=True)
class Everything:
    """All that works in this process. `pauses` are the rooms that begin work by themselves, by name.

    A turn and a task have ended when no process of them is left: what ends them proves it.
    """

    inbox: Inbox
    tasks: Tasks
    ids: ChatIds
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    _asking: set[int] = field(default_factory=set)

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        """Do `/stop all` for an admin, or for the owner of this installation."""
        if not (message.admin or self.ids.owner_of(message.chat) == LOCAL):
            await trio.lowlevel.checkpoint()
            return f"❌ {texts.stop_all_refused(language)}"
        self._asking.add(message.id)  # two who ask at once do not wait for each other
        try:
            return await self.stop(language)
        finally:
            self._asking.discard(message.id)

    async def stop(self, language: Language) -> str:
        """Stop everything, and say what was stopped, and what is left after `STOP_ALL_S`.

        Cancelled, what was told to stop stops all the same.
        """
        paused = {name: await self._paused(name, pause) for name, pause in self.pauses.items()}
        messages = {each for each in self.inbox.unanswered() if each[1] not in self._asking}
        tasks = self.tasks.open_ids()
        with trio.move_on_after(STOP_ALL_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.inbox.stop_all, messages)
                nursery.start_soon(self.tasks.stop_all, tasks)
        chats = {chat for chat, _ in messages}  # of which each has one turn
        working = sorted({chat for chat, _ in messages & self.inbox.unanswered()})
        left = sorted(tasks & self.tasks.open_ids())
        return texts.stopped_all(language, len(chats), len(tasks), paused, working, left)

    async def _paused(self, name: str, pause: Pause) -> int:
        try:
            return await pause()
        except (RumiError, ActorError) as error:
            logger.warning("%s are not paused: %r", name, error)
            return 0
