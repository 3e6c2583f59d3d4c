"""Budgets: the chat commands `/usage` and `/allow`, and the control calls about usage and budgets."""

import builtins
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

import trio
from pydantic import AfterValidator

from actors import ActorError, ActorRef
from rumi.chats.budgets.amounts import Amount, amount_text, parse_amount
from rumi.chats.budgets.meter import Budgets, WriteNow, state_json
from rumi.chats.budgets.periods import days_of
from rumi.chats.budgets.report import left_of, report
from rumi.chats.commands import ChatCommand
from rumi.chats.people.people import People
from rumi.errors import RumiError, UsageError
from rumi.models.metering import Period
from rumi.platform.caller import Caller
from rumi.platform.calls import call
from rumi.platform.chat_ids import CHAT_ID, LOCAL, ChatIds, check_chat_id
from rumi.platform.logs.audit import AuditLog
from rumi.platform.texts import budgets as budget_texts
from rumi.platform.texts.translation import error_text
from rumi.store.journal.members import members_of
from rumi.store.journal.records import Incoming
from rumi.store.journal.spending import UsageRow, budget_states, grant_budget, read_usage
from rumi.texts import Language, gettext

logger = logging.getLogger(__name__)


MOST_BUDGETS: Final = 20
"""Maximum number of budgets that a reply lists."""

MOST_PEOPLE: Final = 20
"""Maximum number of people that a reply lists."""

_ALLOW: Final = re.compile(r"(.+?)\s+(?:today|hoy)(?:\s+(\S+))?", re.IGNORECASE | re.DOTALL)
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


async def _nothing_gathered() -> None:
    await trio.lowlevel.checkpoint()


class BudgetCommands:
    """Serves `/usage` and `/allow`. `ledger` is the actor that stores the buffered usage records."""

    def __init__(
        self,
        budgets: Budgets,
        ledger: ActorRef[WriteNow],
        ids: ChatIds,
        audit: AuditLog,
        people: People | None = None,
    ) -> None:
        self._budgets = budgets
        self._ledger = ledger
        self._ids = ids
        self._audit = audit
        self._people = people or People(ids)

    async def written(self) -> None:
        """Write all usage that was recorded so far to the database."""
        await self._ledger.ask(WriteNow())

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        """Execute `/usage` or `/allow`; return the reply."""
        try:
            if command.name == "allow":
                return await self._allow(message, language, command.rest)
            await self.written()
            return await self._usage(message, language)
        except RumiError as error:
            return f"❌ {error_text(language, error)}"
        except ActorError as error:
            logger.warning("budgets do not answer: %r", error)
            return f"❌ {gettext(language, 'The budgets do not answer. Try again in a moment.')}"

    def _is_admin(self, message: Incoming) -> bool:
        """Return True if the sender is the home's owner (on terminal or page), or an admin of a channel."""
        return message.admin or self._ids.owner_of(message.chat) == LOCAL

    async def _usage(self, message: Incoming, language: Language) -> str:
        budgets, everybody = self._budgets, self._is_admin(message)
        owner = "" if everybody else self._ids.owner_of(message.chat)
        sums = []
        for period in ("day", "month"):
            days = days_of("day" if period == "day" else "month", budgets.now(), budgets.zone)
            rows = await budgets.ask(read_usage("all", *days, owner))
            row = rows[0] if rows else UsageRow()
            tokens = amount_text(language, "tokens", row.prompt + row.completion)
            sums.append((row.calls, tokens, amount_text(language, "usd", row.nano)))
        bounds = tuple(budgets.bound(limit) for limit in budgets.rules.limits)
        states = (
            await budgets.ask(budget_states(bounds, owner, message.chat if owner else "")) if bounds else ()
        )
        shown = [
            (
                state.bound.limit.scope,
                state.name,
                state.bound.limit.period,
                amount_text(language, state.bound.limit.unit, state.used),
                amount_text(language, state.bound.limit.unit, state.most),
            )
            for state in states[:MOST_BUDGETS]
        ]
        text = budget_texts.usage_text(language, sums[0], sums[1], shown, everybody=everybody)
        if self._ids.may_be_group(message.chat):
            text += f"\n\n{await self._usage_in_group(message, language)}"
        return text

    async def _usage_in_group(self, message: Incoming, language: Language) -> str:
        """Return what people have used in the message's group: all of them for an admin, else the sender."""
        budgets, owner = self._budgets, self._ids.owner_of(message.chat)
        sender = self._people.of(message)
        mine = "" if sender.rights.admin else sender.name
        by_person: list[dict[str, UsageRow]] = []
        periods: tuple[Period, ...] = ("day", "month")
        for period in periods:
            days = days_of(period, budgets.now(), budgets.zone)
            rows = await budgets.ask(read_usage("person", *days, owner, "", mine))
            by_person.append({row.person: row for row in rows})
        today, month = by_person
        callings = {
            f"#{member.user}": f"{member.name} #{member.user}"
            for member in await budgets.ask(members_of(owner))
        }
        principals = {principal.name: principal for principal in self._people.all}
        shown = []
        for name, whole in list(month.items())[:MOST_PEOPLE]:
            row, principal = today.get(name, UsageRow()), principals.get(name)
            limits = () if principal is None else principal.rights.limits
            left = await left_of(budgets, limits, message.chat, name, language)
            shown.append(
                (callings.get(name, name), *_amounts(language, row), *_amounts(language, whole), left)
            )
        more = len(month) - len(shown)
        return budget_texts.group_usage(language, shown, everybody=sender.rights.admin, more=more)

    async def allow(self, chat: str, amount: Amount, by: str) -> None:
        """Allow a chat, its owner and the total budget an additional amount today; `by` is for the audit log.

        On cancellation, the amount may or may not be allowed.
        """
        nano, tokens = (amount.most, 0) if amount.unit == "usd" else (0, amount.most)
        await self._budgets.ask(
            grant_budget(chat, self._ids.owner_of(chat), self._budgets.today(), nano, tokens)
        )
        shown = amount_text("en", amount.unit, amount.most)
        self._audit.write("budget_allowed", chat_id=chat, amount=shown, by=by)

    async def _allow(self, message: Incoming, language: Language, said: str) -> str:
        if not self._is_admin(message):
            return gettext(language, "⛔ Only an admin can allow more.")
        found = _ALLOW.fullmatch(said)
        if found is None:
            return budget_texts.allow_usage(language)
        amount, chat = parse_amount(found[1]), found[2] or message.chat
        if CHAT_ID.fullmatch(chat) is None:
            return budget_texts.allow_usage(language)
        await self.allow(chat, amount, message.chat)
        shown = amount_text(language, amount.unit, amount.most)
        return gettext(language, "✅ The chat {chat} may use {amount} more today.", chat=chat, amount=shown)


def _amounts(language: Language, row: UsageRow) -> tuple[str, str]:
    """Return the tokens and the money of a usage row."""
    tokens = amount_text(language, "tokens", row.prompt + row.completion)
    return tokens, amount_text(language, "usd", row.nano)


def _day(text: str) -> str:
    """Return the text of a day unchanged; an empty text stands for no day.

    Raises:
        UsageError: The text is not a day.
    """
    if text and not _DAY.fullmatch(text):
        raise UsageError("{filters} is not a day.", "Write it like 2026-11-23.", filters=repr(text))
    return text


Day: TypeAlias = Annotated[str, AfterValidator(_day)]
Chat: TypeAlias = Annotated[str, AfterValidator(check_chat_id)]


@dataclass(frozen=True, slots=True)
class UsageCalls:
    """The control calls about usage and budgets. A caller sees only what is in its scope.

    `allow` allows a chat more today; None if no process runs that uses budgets.
    """

    budgets: Budgets
    ids: ChatIds
    written: Callable[[], Awaitable[None]] = _nothing_gathered
    allow: Callable[[str, Amount, str], Awaitable[None]] | None = None

    @call("usage")
    async def usage(
        self,
        caller: Caller,
        *,
        by: str = "model",
        owner: str = "",
        chat: str = "",
        first: Day = "",
        last: Day = "",
        period: Period = "month",
    ) -> object:
        """Return the usage from the day `first` to the day `last`, grouped by the property named in `by`.

        Without these days, it is the usage of today, or of this month, as `period` says. The request may
        select an `owner` or a `chat`.

        Raises:
            UsageError: The request is invalid.
        """
        scope = caller.scope_in(owner or None) or ""
        if chat:
            caller.chat_in(chat, self.ids.owner_of)
        await self.written()
        if not (first or last):
            first, last = days_of(period, self.budgets.now(), self.budgets.zone)
        return await report(self.budgets, by or "model", owner=scope, chat=chat, first=first, last=last)

    @call("budgets.list")
    async def list(self, caller: Caller, *, chat: str = "") -> object:
        """Return the budgets: limit, used and reserved amount, share, and when the period ends.

        With a `chat`, return only the budgets that apply to it.
        """
        if chat:
            caller.chat_in(chat, self.ids.owner_of)
        await self.written()
        return await self._states(caller.scope or "", chat)

    @call("budgets.allow", rights="all")
    async def allow_more(self, caller: Caller, *, amount: str, chat: Chat) -> object:
        """Allow a chat, its owner and the total budget more today, such as `2 usd`; return its budgets.

        Raises:
            UsageError: The amount is not valid.
        """
        assert self.allow is not None, "only a complete app can allow more"
        await self.allow(chat, parse_amount(amount), caller.channel)
        return await self._states("", chat)

    async def _states(self, owner: str, chat: str) -> builtins.list[dict[str, object]]:
        bounds = tuple(self.budgets.bound(limit) for limit in self.budgets.rules.limits)
        states = await self.budgets.ask(budget_states(bounds, owner, chat)) if bounds else ()
        return [state_json(state, self.budgets) for state in states]
