"""Chat commands about people: `/whoami`; `/share` and `/unshare`, for sharing facts with a group."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from actors import ActorError
from rumi.chats.budgets.amounts import amount_text
from rumi.chats.budgets.meter import Budgets
from rumi.chats.commands import ChatCommand
from rumi.chats.people.people import People
from rumi.errors import RumiError
from rumi.memory.actor import AskMemory
from rumi.memory.rows import share_key, shared_with, unshare_key
from rumi.memory.writing import written
from rumi.platform.texts import people as people_texts
from rumi.platform.texts.translation import error_text
from rumi.store.journal.records import Incoming
from rumi.store.journal.spending import BudgetState, budget_states
from rumi.texts import Language, gettext

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PeopleCommands:
    """Handles commands about people.

    `used` is called before a budget is shown: it writes the usage of model calls from memory to the journal,
    so that the remaining budget is correct.
    """

    people: People
    budgets: Budgets
    used: Callable[[], Awaitable[None]]
    memory: AskMemory

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        """Run a command for the message's sender and return the reply."""
        try:
            if command.name == "whoami":
                return await self._whoami(message, language)
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
        limits = (*self.budgets.rules.limits, *account.limits)
        bounds = tuple(self.budgets.bound(limit) for limit in limits if limit.scope == "person")
        states: tuple[BudgetState, ...] = ()
        if bounds and account.person:
            states = await self.budgets.ask(budget_states(bounds, "", message.chat, account.person))
        left = [
            (
                state.bound.limit.period,
                amount_text(language, state.bound.limit.unit, max(0, state.most - state.used)),
                amount_text(language, state.bound.limit.unit, state.most),
            )
            for state in states
        ]
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
