"""Stops all work at once: turns and tasks, and the schedules and other sources that start new work."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

import trio

from actors import ActorError
from rumi.chats.commands import ChatCommand, may_stop_everything
from rumi.chats.inbox import Inbox
from rumi.errors import RumiError
from rumi.platform.chat_ids import ChatIds
from rumi.platform.texts import stopping as stop_texts
from rumi.platform.texts.translation import error_text
from rumi.store.journal.records import Incoming
from rumi.tasks.tasks import Tasks
from rumi.texts import Language, gettext

logger = logging.getLogger(__name__)

STOP_ALL_S: Final = 20.0
"""Maximum seconds to wait for the work to end before the command replies.

The reply names the work that has not ended by then.
"""

Others = Callable[[Language], Awaitable[Mapping[str, str | RumiError]]]
"""Stops everything on the other workers of a shared database; returns their replies or errors, by name."""

Pause = Callable[[], Awaitable[int]]
"""Pauses a source of new work, such as the schedules; returns how many entries were paused."""


@dataclass(frozen=True, slots=True)
class Everything:
    """Stops all work of this process. `pauses` are functions by name; each pauses one source of new work.

    A turn or task counts as ended only when none of its processes is left, which is checked when it is
    stopped.
    `_asking` maps a chat to the message number of the `/stop all` that is being executed there.
    """

    inbox: Inbox
    tasks: Tasks
    ids: ChatIds
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    others: Others | None = None
    _asking: dict[str, int] = field(default_factory=dict)

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        """Execute `/stop all` for an admin, or for the owner of this installation."""
        if not may_stop_everything(message, self.ids):
            await trio.lowlevel.checkpoint()
            refused = gettext(
                language, "Only an admin may stop everything. /stop stops what I am doing here."
            )
            return f"❌ {refused}"
        self._asking[message.chat] = message.id
        try:
            return await self.stop(language)
        finally:
            if self._asking.get(message.chat) == message.id:
                del self._asking[message.chat]

    async def stop(self, language: Language, *, alone: bool = False) -> str:
        """Stop everything; return a text that lists what was stopped, what was paused, and what still runs.

        This takes at most `STOP_ALL_S`. The other workers stop all their work at the same time, unless
        `alone` is True.
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
        """Stop the work of this process.

        Running work is told to stop before anything is written, so that a full disk cannot keep a turn
        running. Work that a turn or schedule started before it was stopped or paused is stopped too. If
        cancelled, the work that was told to stop before the cancellation stops all the same.
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
        """Return the messages without a final reply, as pairs of chat and number.

        The result excludes a `/stop all` that is being executed and the messages queued after it in the same
        chat, because they wait for this call. A message whose turn is running is always included.
        """
        return frozenset(
            (chat, number)
            for chat, number in self.inbox.chats.unanswered()
            if number < self._asking.get(chat, inf) or number == self.inbox.chats.at_work(chat)
        )

    async def _paused(self, name: str, pause: Pause) -> int | None:
        """Call `pause`; return how many entries were paused, or None if that failed."""
        try:
            return await pause()
        except (RumiError, ActorError) as error:
            logger.warning("%s are not paused: %r", name, error)
            return None
