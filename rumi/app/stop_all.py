"""Stops everything at once: turns, tasks, and what would begin more of them."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

import trio

from actors import ActorError
from rumi.chats.commands import ChatCommand
from rumi.chats.inbox import Inbox
from rumi.errors import RumiError
from rumi.platform.chat_ids import LOCAL, ChatIds
from rumi.platform.texts import stopping as stop_texts
from rumi.platform.texts.language import Language
from rumi.platform.texts.translation import error_text
from rumi.store.journal.records import Incoming
from rumi.tasks.tasks import Tasks

logger = logging.getLogger(__name__)

STOP_ALL_S: Final = 20.0
"""How long the answer waits for the end of what runs. The rest is named in it, and goes on ending."""

Others = Callable[[Language], Awaitable[Mapping[str, str | RumiError]]]
"""Stops everything on the other workers of a database; returns what they say, by their names."""

Pause = Callable[[], Awaitable[int]]
"""Pauses what begins turns or tasks by itself; returns how many were paused."""


@dataclass(frozen=True, slots=True)
class Everything:
    """All that works in this process. `pauses` are the rooms that begin work by themselves, by name.

    A turn and a task have ended when no process of them is left: what ends them proves it. `_asking` has, by
    chat, the number of the `/stop all` that is being done there.
    """

    inbox: Inbox
    tasks: Tasks
    ids: ChatIds
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    others: Others | None = None
    _asking: dict[str, int] = field(default_factory=dict)

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        """Do `/stop all` for an admin, or for the owner of this installation."""
        if not (message.admin or self.ids.owner_of(message.chat) == LOCAL):
            await trio.lowlevel.checkpoint()
            return f"❌ {stop_texts.stop_all_refused(language)}"
        self._asking[message.chat] = message.id
        try:
            return await self.stop(language)
        finally:
            if self._asking.get(message.chat) == message.id:
                del self._asking[message.chat]

    async def stop(self, language: Language, *, alone: bool = False) -> str:
        """Stop everything, and say what was stopped and paused, and what is left after `STOP_ALL_S`.

        The other workers stop all of theirs meanwhile, unless this one is to do it `alone`.
        """
        if alone or self.others is None:
            return await self._stop(language)
        said: dict[str, str | RumiError] = {}

        async def stop_others(others: Others) -> None:
            with trio.move_on_after(STOP_ALL_S):
                said.update(await others(language))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_others, self.others)
            here = await self._stop(language)
        return stop_texts.stopped_everywhere(
            language,
            here,
            {
                name: outcome if isinstance(outcome, str) else error_text(language, outcome)
                for name, outcome in said.items()
            },
        )

    async def _stop(self, language: Language) -> str:
        """Stop what this process does.

        What runs is told to stop before anything is written: a full disk keeps no turn going. What a turn
        or a schedule has begun by the time that it is stopped or paused is stopped too.
        Cancelled, what was told to stop stops all the same.
        """
        messages, tasks = self._messages(), self.tasks.open_tasks()
        paused: dict[str, int | None] = dict.fromkeys(self.pauses)
        with trio.move_on_after(STOP_ALL_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.inbox.chats.stop_all, messages)
                nursery.start_soon(self.tasks.stop_all, tuple(tasks))
                for name, pause in self.pauses.items():
                    paused[name] = await self._paused(name, pause)
                fired = self._messages() - messages
                messages |= fired
                nursery.start_soon(self.inbox.chats.stop_all, fired)
            begun = self.tasks.open_tasks()
            tasks = begun | tasks
            await self.tasks.stop_all(tuple(begun))
        chats = {chat for chat, _ in messages}  # of which each has one turn
        working = sorted({chat for chat, _ in messages & self.inbox.chats.unanswered()})
        left = sorted(tasks.keys() & self.tasks.open_tasks().keys())
        sessions = [(task.bot, id) for id, task in sorted(tasks.items()) if task.bot and id not in left]
        return stop_texts.stopped_all(language, len(chats), len(tasks), paused, working, left, sessions)

    def _messages(self) -> frozenset[tuple[str, int]]:
        """Return the messages that have no final reply: each one's chat and number.

        A `/stop all` and what stands behind it in its chat are not among them, besides a turn that runs: they
        wait for this, so this must not wait for them.
        """
        return frozenset(
            (chat, number)
            for chat, number in self.inbox.chats.unanswered()
            if number < self._asking.get(chat, inf) or number == self.inbox.chats.at_work(chat)
        )

    async def _paused(self, name: str, pause: Pause) -> int | None:
        """Pause, and return how many were paused; None if that failed."""
        try:
            return await pause()
        except (RumiError, ActorError) as error:
            logger.warning("%s are not paused: %r", name, error)
            return None
