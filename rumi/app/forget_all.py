"""`/forget_everything`: deletes all data of one owner permanently."""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import trio

from actors import ActorError, ActorRef
from rumi.chats.commands import ChatCommand
from rumi.chats.inbox import Inbox
from rumi.errors import RumiError
from rumi.platform.chat_ids import LOCAL, ChatIds
from rumi.platform.logs.audit import AuditLog
from rumi.platform.texts import recall as recall_texts
from rumi.store.journal.forgetting import forget_chat, truncate_log
from rumi.store.journal.reading import list_chats
from rumi.store.journal.records import Incoming
from rumi.store.journal.tasks import list_tasks
from rumi.store.journal.transaction import JournalMessage
from rumi.tasks.schedules.schedules import Schedules
from rumi.tasks.tasks import Tasks
from rumi.texts import Language, gettext

logger = logging.getLogger(__name__)

Deleter: TypeAlias = Callable[[str], Awaitable[int]]
"""Deletes the data that one package stores about an owner; returns the number of deleted entries."""

SLICE_PAUSE_S: Final = 0.01
TRACE_TRIES: Final = 20
TRACE_PAUSE_S: Final = 0.25
MOST_CHATS: Final = 1_000_000
SURE: Final = frozenset({"yes", "sí", "si", "sim"})


@dataclass(frozen=True, slots=True)
class Forgetting:
    """Deletes an owner's data.

    The `deleters` run first; then the owner's chats are deleted; then `follows` delete data derived from the
    chats. The names in both mappings are shown in the reply.
    """

    journal: ActorRef[JournalMessage]
    inbox: Inbox
    ids: ChatIds
    audit: AuditLog
    deleters: Mapping[str, Deleter] = field(default_factory=dict)
    follows: Mapping[str, Deleter] = field(default_factory=dict)

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        """If the command contains a yes, delete the data; otherwise list it and ask for a confirmation."""
        owner = self.ids.owner_of(message.chat)
        if self.ids.may_be_group(message.chat) and not message.admin and owner != LOCAL:
            await trio.lowlevel.checkpoint()
            return gettext(language, "❌ In a group only an admin can delete everything.")
        if command.rest.casefold() not in SURE:
            await trio.lowlevel.checkpoint()
            return gettext(
                language,
                "This deletes for good everything I know about {owner}: facts, the history of all its "
                "chats, the index, recordings, tasks, schedules, the browser's profile, and, of the owner of "
                "this Rumi, the logins at servers of tools. Files stay, and what is in calendars and "
                "mailboxes. To do it, write `/forget_everything yes`.",
                owner=owner,
            )
        counts = await self.forget(owner, message)
        await self.inbox.accept(message.chat, "/reset", language, unattended=True)
        return recall_texts.everything_forgotten(language, counts)

    async def forget(self, owner: str, asked: Incoming | None = None) -> dict[str, int | None]:
        """Delete all data of an owner; return the number of deleted entries by name.

        If a deletion failed, its number is None. The chat of the message `asked`, which requested this,
        continues to exist. A repeated call does no harm. If cancelled, only a part of the data is deleted.
        """
        self.audit.write("forget_everything", chat_id=asked.chat if asked is not None else "", owner=owner)
        counts: dict[str, int | None] = {}
        chats: dict[str, Deleter] = {"chats": lambda owner: self._chats(owner, asked)}
        for name, delete in {**self.deleters, **chats, **self.follows}.items():
            try:
                counts[name] = await delete(owner)
            except (RumiError, ActorError) as error:
                logger.warning("%s of %s are not deleted: %r", name, owner, error)
                counts[name] = None
        if not await self._leave_no_trace():
            counts["traces"] = None
        return counts

    async def _leave_no_trace(self) -> bool:
        """Remove the deleted data also from the database's WAL; return False if a reader prevents this."""
        with contextlib.suppress(ActorError, RumiError):
            for _ in range(TRACE_TRIES):
                if await self.journal.ask(truncate_log()):
                    return True
                await trio.sleep(TRACE_PAUSE_S)
        return False

    async def _chats(self, owner: str, asked: Incoming | None) -> int:
        listed = await self.journal.ask(list_chats(limit=MOST_CHATS))
        chats = [stored_chat.chat for stored_chat in listed if self.ids.owner_of(stored_chat.chat) == owner]
        for chat in chats:
            if asked is None or chat != asked.chat:
                await self.inbox.chats.delete(chat, files=False)
                continue
            while await self.journal.ask(forget_chat(chat, asked.id)):  # noqa: ASYNC110  # others go first
                await trio.sleep(SLICE_PAUSE_S)
            await self.inbox.chats.forget_copies(chat)
        return len(chats)


def schedules_of(schedules: Schedules) -> Deleter:
    """Return a function that deletes an owner's schedules and zone; it returns the number of schedules."""

    async def delete(owner: str) -> int:
        found = await schedules.listed(owner)
        for schedule in found:
            await schedules.delete(schedule.id, owner)
        await schedules.forget_zone(owner)
        return len(found)

    return delete


def tasks_of(journal: ActorRef[JournalMessage], tasks: Tasks) -> Deleter:
    """Return a function that stops an owner's tasks and deletes them with their files."""

    async def delete(owner: str) -> int:
        await tasks.stop_all(tuple(id for id, task in tasks.open_tasks().items() if task.owner == owner))
        count = 0
        while found := await journal.ask(list_tasks(owner)):
            for task in found:
                await tasks.delete(task.id, owner)
            count += len(found)
        return count

    return delete
