"""Chat commands about people: `/whoami` and `/people`; `/share` and `/unshare`, for a group's facts."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from actors import ActorError
from rumi.chats.budgets.meter import Budgets
from rumi.chats.budgets.report import left_of
from rumi.chats.commands import ChatCommand
from rumi.chats.people.people import People
from rumi.errors import RumiError
from rumi.memory.actor import AskMemory
from rumi.memory.rows import share_key, shared_with, unshare_key
from rumi.memory.writing import written
from rumi.platform.config.schema import GroupSection
from rumi.platform.texts import people as people_texts
from rumi.platform.texts.translation import error_text
from rumi.store.journal.members import members_of
from rumi.store.journal.records import Incoming
from rumi.texts import Language, gettext

logger = logging.getLogger(__name__)

MOST_SHOWN: Final = 50
"""Maximum number of people that a reply lists."""


@dataclass(frozen=True, slots=True)
class PeopleCommands:
    """Handles commands about people.

    `used` is called before a budget is shown: it writes the usage of model calls from memory to the journal,
    so that the remaining budget is correct. `group_of` returns the settings of the group of a chat.
    """

    people: People
    budgets: Budgets
    used: Callable[[], Awaitable[None]]
    memory: AskMemory
    group_of: Callable[[str], GroupSection] = lambda chat: GroupSection()

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        """Run a command for the message's sender and return the reply."""
        try:
            if command.name == "whoami":
                return await self._whoami(message, language)
            if command.name == "people":
                return await self._people(message, language)
            return await self._share(message, language, command)
        except RumiError as error:
            return f"❌ {error_text(language, error)}"
        except ActorError as error:
            logger.warning("people are not served: %r", error)
            return f"❌ {gettext(language, 'The budgets do not answer. Try again in a moment.')}"

    async def _whoami(self, message: Incoming, language: Language) -> str:
        """Return a reply with the sender's name, id, role and rights, and the remaining budget."""
        await self.used()
        principal, account = self.people.of(message), self.people.account(message)
        left = await left_of(self.budgets, account.limits, message.chat, account.person, language)
        rights = principal.rights
        return people_texts.who_you_are(
            language,
            name="" if principal.name.startswith("#") else principal.name,
            id=str(message.user or ""),
            role=rights.role,
            tools=rights.tools,
            models=rights.models,
            schedules=rights.schedules,
            bots=rights.bots,
            left=left,
        )

    async def _people(self, message: Incoming, language: Language) -> str:
        """Return a reply with the people who have written to the assistant in the message's group.

        Only an admin sees their ids, and who else may talk to the assistant.
        """
        people, ids = self.people, self.people.ids
        if not ids.may_be_group(message.chat):
            return people_texts.people_in_groups_only(language)
        members = await self.budgets.ask(members_of(ids.owner_of(message.chat)))
        admin, rows = people.of(message).rights.admin, []
        for member in members[:MOST_SHOWN]:
            principal = people.persons.get(member.user)
            name = "" if principal is None or principal.name.startswith("#") else principal.name
            role = "" if principal is None else principal.rights.role
            since = datetime.fromtimestamp(member.since, self.budgets.zone)
            rows.append((name, role, member.name, member.user if admin else 0, since))
        here = {people.persons[member.user].name for member in members if member.user in people.persons}
        others = sorted({principal.name for principal in people.persons.values()} - here) if admin else []
        settings = self.group_of(message.chat)
        return people_texts.group_people(
            language,
            rows,
            more=len(members) - len(rows),
            others=others[:MOST_SHOWN],
            listen=settings.listen,
            quiet=settings.quiet,
        )

    async def _share(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        """Share a fact of the sender with the group, or stop sharing it; without a key, list shared facts."""
        ids, key = self.people.ids, written(command.rest)
        if not ids.may_be_group(message.chat) or message.user is None:
            return gettext(
                language,
                "Facts are shared in a group: send `/share KEY` there, and `/unshare KEY` to take it back.",
            )
        group, owner = ids.owner_of(message.chat), ids.private_owner(message.chat, message.user)
        if not key:
            shared = await self.memory(shared_with(group, owner))
            return people_texts.shared_facts(language, [fact.key for _, fact in shared])
        if command.name == "unshare":
            return people_texts.unshared(language, key, await self.memory(unshare_key(owner, key, group)))
        return people_texts.shared_now(language, key, await self.memory(share_key(owner, key, group)))
