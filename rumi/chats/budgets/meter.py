"""The meter of all model calls: reserves a call's estimated cost, then settles the actual cost.

Without a budget, calls do not wait for the disk: their usage is collected in memory and written once a
second. With a budget, a call begins only after its reservation is on the disk; one transaction checks the
budget and stores the reservation. An interrupted call is settled at its reserved amount, shortly after the
interruption or at the next start.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import tzinfo
from functools import partial
from typing import Any, Final
from uuid import uuid4

import trio

from actors import Actor, ActorError, ActorRef, Request, answers
from rumi.chats.budgets.amounts import amount_text, as_usd
from rumi.chats.budgets.periods import day_of, days_of, renewal
from rumi.chats.budgets.prices import Price, prepare, price_of
from rumi.models.metering import Account, Counted, Hold, Limit
from rumi.models.model import ModelError, Usage
from rumi.platform.config.providers import OFFLINE
from rumi.platform.grace import with_grace
from rumi.platform.texts import budgets as budget_texts
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.spending import (
    Bound,
    BudgetState,
    UsageRow,
    budget_states,
    read_usage,
    record_usage,
    reserve_call,
    settle_call,
)
from rumi.store.steps import Run
from rumi.texts import Language, gettext

logger = logging.getLogger(__name__)

GATHER_S: Final = 1.0
"""Interval at which gathered usage is written, in seconds."""

WRITE_S: Final = 5.0
"""Maximum time that a cancelled writer waits for the journal, in seconds."""

STOP_S: Final = 2.0
"""Maximum time that shutdown waits for the last write of usage, in seconds."""

MOST_TOOL_CHARS: Final = 64
"""Maximum stored length of a tool's name; models may invent longer names."""

MOST_NOTICES: Final = 1000
"""Maximum number of queued budget notices, which wait for the next reply of their chat."""

_KEY: Final = 8
"""Number of leading fields of a usage row that form its key; the others are counts."""
LEFT: Final = (
    (0.5, "more than half"),
    (0.2, "less than half"),
    (0.05, "less than a fifth"),
    (-math.inf, "almost nothing"),
)
"""Words for the share of a budget that is left, by the least share."""

_FIELDS: Final = tuple(dataclass_field.name for dataclass_field in fields(UsageRow))


@dataclass(frozen=True, slots=True)
class Rules:
    """The configured prices and cost limits. `reply_tokens` is the number of tokens reserved per reply."""

    prices: Mapping[str, Price] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    reply_tokens: int = 4096


class Budgets:
    """The meter of a process's model calls.

    `ask` sends requests to the journal; `zone` is the time zone in which days begin, by default the local
    one. The meter survives restarts of its `Ledger`, the actor that writes gathered usage.
    """

    def __init__(
        self, ask: AskJournal, rules: Rules, now: Callable[[], float], zone: tzinfo | None = None
    ) -> None:
        self.rules = rules
        self.now = now
        self.zone = zone
        self.ask = ask
        self.work = trio.Event()
        self.figures: dict[str, object] = {}
        self.calls = 0
        self.used = Usage()
        """The usage of all calls since the process started."""
        self._gathered: dict[tuple[Any, ...], list[int]] = {}
        self._unsettled: deque[tuple[Account, Run[tuple[BudgetState, ...]]]] = deque()
        self._notices: dict[str, tuple[str, BudgetState]] = {}

    # The meter

    async def reserve(
        self, account: Account, model: str, prompt_tokens: int, language: Language
    ) -> Hold | ModelError:
        """Reserve the cost of one attempt at a model call and return the reservation.

        Return an error instead if a budget does not allow the call, or if its cost is unknown. On
        cancellation, a stored reservation is released.
        """
        price = price_of(model, self.rules.prices, self.now())
        bounds = self._bounds(account) if model != OFFLINE else ()
        # The whole prompt may be written into the server's cache, which can cost more than reading it.
        whole = Usage(prompt_tokens, self.rules.reply_tokens, written_tokens=prompt_tokens)
        begun = _CallAttempt(self, uuid4().hex, account, model, self.today(), price, whole, bounds)
        if not bounds:
            return begun
        if price is None and any(bound.limit.unit == "usd" for bound in bounds):
            return ModelError(
                "budget",
                gettext(
                    language,
                    "⛔ There is a budget in money, and the price of {model} is not known. Set it in "
                    'config.toml, in USD per million tokens: [prices."{model}"] input = 0.15, output '
                    "= 0.60",
                    model=model,
                ),
                model=model,
            )
        try:
            refused = await self.ask(
                reserve_call(
                    begun.key,
                    account,
                    model,
                    begun.day,
                    whole.prompt_tokens,
                    whole.completion_tokens,
                    price.of(whole) if price is not None else 0,
                    price is not None,
                    bounds,
                )
            )
        except trio.Cancelled:
            # The journal may store the reservation nevertheless: settle it at nothing.
            self.settle_later(account, settle_call(begun.key, account, ()))
            raise
        if refused is not None:
            return ModelError("budget", self._refusal(refused, begun, language), model=model)
        return begun

    def _bounds(self, account: Account) -> tuple[Bound, ...]:
        """Return the budget limits that apply to a call, each with its current period, such as a day."""
        limits = (*self.rules.limits, *account.limits)
        return tuple(self.bound(limit) for limit in limits if account.name(limit.scope))

    def bound(self, limit: Limit) -> Bound:
        """Return a budget limit with its current period, such as a day or month."""
        return Bound(limit, *days_of(limit.period, self.now(), self.zone))

    def today(self) -> str:
        """Return the local date in ISO format."""
        return day_of(self.now(), self.zone).isoformat()

    def _refusal(self, state: BudgetState, begun: "_CallAttempt", language: Language) -> str:
        limit, whole = state.bound.limit, begun.whole
        need = 1 if limit.unit == "calls" else whole.prompt_tokens + whole.completion_tokens
        if limit.unit == "usd" and begun.price is not None:
            need = begun.price.of(whole)
        asked = amount_text(language, limit.unit, need)
        used, most = (
            amount_text(language, limit.unit, state.used),
            amount_text(language, limit.unit, state.most),
        )
        renews = renewal(limit.period, self.now(), self.zone)
        return budget_texts.budget_refused(language, limit.scope, limit.period, used, most, asked, renews)

    # What was used

    def gather(self, rows: tuple[UsageRow, ...]) -> None:
        """Add usage that the ledger will write soon."""
        for row in rows:
            values = [getattr(row, name) for name in _FIELDS]
            counts = self._gathered.setdefault(tuple(values[:_KEY]), [0] * len(values[_KEY:]))
            counts[:] = [sum(pair) for pair in zip(counts, values[_KEY:], strict=True)]
        self.work.set()

    def settle_later(self, account: Account, request: Run[tuple[BudgetState, ...]]) -> None:
        """Queue the settlement of a reservation; never wait.

        If the process ends before the ledger writes the settlement, the next start settles the reservation.
        """
        self._unsettled.append((account, request))
        self.work.set()

    async def write(self, grace_s: float = WRITE_S) -> None:
        """Write gathered usage and queued settlements. Calls must not overlap.

        On cancellation the current write may continue for `grace_s` seconds, so that no usage is written
        twice. The next call writes the settlements that are still queued.

        Raises:
            ActorError: the journal has stopped. Usage that was not stored is included in the next write.
        """
        # Both before the first await: calls that end during the write gather for the next one.
        self.work = trio.Event()
        gathered, self._gathered = self._gathered, {}
        if gathered:
            rows = tuple(UsageRow(*key, *counts) for key, counts in gathered.items())
            try:
                await with_grace(partial(self.ask, record_usage(rows)), grace_s)
            except ActorError:
                self.gather(rows)
                raise
        # A settlement is removed only after its write: unlike usage it is idempotent, so a cancelled write
        # may be repeated.
        while self._unsettled:
            account, request = self._unsettled[0]
            self.queue_notices(account, await with_grace(partial(self.ask, request), grace_s))
            self._unsettled.popleft()

    # Notices

    def queue_notices(self, account: Account, states: tuple[BudgetState, ...]) -> None:
        """Queue notices that a budget is nearly used up; the next reply in the account's chat shows them."""
        for state in states:
            if account.chat and len(self._notices) < MOST_NOTICES:
                self._notices.setdefault(state.key, (account.chat, state))

    def notices(self, chat: str, language: Language) -> tuple[tuple[str, str], ...]:
        """Return the notices for a chat's next reply, each with its key; `drop_notices` removes them."""
        return tuple(
            (key, self._notice(state, language)) for key, (of, state) in self._notices.items() if of == chat
        )

    def drop_notices(self, keys: Iterable[str]) -> None:
        """Remove notices that the journal has stored with a reply."""
        for key in keys:
            self._notices.pop(key, None)

    def _notice(self, state: BudgetState, language: Language) -> str:
        limit = state.bound.limit
        used, most = (
            amount_text(language, limit.unit, state.used),
            amount_text(language, limit.unit, state.most),
        )
        percent = state.used * 100 // max(1, state.most)
        renews = renewal(limit.period, self.now(), self.zone)
        return budget_texts.budget_notice(language, limit.scope, limit.period, used, most, percent, renews)

    async def left(self, owner: str, chat: str) -> str:
        """Return, for a model, how much of the tightest budget of a chat is left; empty without budgets.

        The words change only in large steps, so that prompts rarely state them again.
        """
        if not self.rules.limits:
            return ""
        bounds = tuple(self.bound(limit) for limit in self.rules.limits)
        states = await self.ask(budget_states(bounds, owner, chat))
        if not states:
            return ""
        share, state = min(
            ((1 - state.used / max(1, state.most), state) for state in states), key=lambda pair: pair[0]
        )
        most, period = amount_text("en", state.bound.limit.unit, state.most), state.bound.limit.period
        return f"{next(words for least, words in LEFT if share >= least)} of {most} a {period} is left"

    # For the status

    async def look(self) -> None:
        """Read today's and this month's usage and the state of the budgets into `figures`."""
        today, (first, last) = self.today(), days_of("month", self.now(), self.zone)
        sums = {}
        for name, days in (("today", (today, today)), ("month", (first, last))):
            rows = await self.ask(read_usage("all", *days))
            sums[name] = _figures(rows[0] if rows else UsageRow())
        bounds = tuple(self.bound(limit) for limit in self.rules.limits)
        states = await self.ask(budget_states(bounds)) if bounds else ()
        self.figures = {**sums, "budgets": [state_json(state, self) for state in states[:50]]}


def _figures(row: UsageRow) -> dict[str, object]:
    return {
        "calls": row.calls,
        "tokens": row.prompt + row.completion,
        "usd": as_usd(row.nano),
        "unpriced_tokens": row.unpriced,
    }


def state_json(state: BudgetState, budgets: Budgets) -> dict[str, object]:
    """Return the state of a budget as JSON, with money in USD."""
    limit = state.bound.limit
    money = limit.unit == "usd"
    renews = renewal(limit.period, budgets.now(), budgets.zone)
    amounts = {
        "limit": limit.most,
        "granted": state.granted,
        "used": state.used,
        "reserved": state.reserved,
    }
    return {
        "budget": f"{limit.scope}_{limit.unit}_per_{limit.period}",
        "of": state.name,
        **{name: as_usd(value) if money else value for name, value in amounts.items()},
        "share": round(state.used / max(1, state.most), 4),
        "renews": renews.isoformat() if renews is not None else None,
    }


class _CallAttempt:
    """The accounting of one attempt at a model call. A cost is reserved only if `bounds` has limits."""

    __slots__ = ("_bounds", "_budgets", "_over", "account", "day", "key", "model", "price", "whole")

    def __init__(
        self,
        budgets: Budgets,
        key: str,
        account: Account,
        model: str,
        day: str,
        price: Price | None,
        whole: Usage,
        bounds: tuple[Bound, ...],
    ) -> None:
        self._budgets = budgets
        self._bounds = bounds
        self._over = False
        self.key = key
        self.account = account
        self.model = model
        self.day = day
        self.price = price
        self.whole = whole

    @property
    def most_reply(self) -> int | None:
        """The number of tokens reserved for the reply; None if no budget applies."""
        return self.whole.completion_tokens if self._bounds else None

    async def settle(self, counted: Counted | None) -> Usage:
        """Record the call's usage and return it with its price. If `usage` is None, record an estimate.

        On cancellation, the usage is still recorded, but only after this call has ended.

        Raises:
            ActorError: the journal has stopped; the usage is recorded later.
        """
        if self._over:
            return Usage()
        self._over = True  # before the first await: the call must not be counted again by `abandon`
        rows, usage = self._rows(counted)
        if not self._bounds:
            self._budgets.gather(rows)
            return usage
        request = settle_call(self.key, self.account, rows if counted is not None else None, self._bounds)
        try:
            self._budgets.queue_notices(self.account, await self._budgets.ask(request))
        except (trio.Cancelled, ActorError):
            self._budgets.settle_later(self.account, request)
            raise
        self._budgets.work.set()
        return usage

    def abandon(self) -> None:
        """Record the reserved amount as used. Without a reservation, record only the prompt. Never wait."""
        if self._over:
            return
        self._over = True
        rows, _ = self._rows(None)
        if self._bounds:
            self._budgets.settle_later(self.account, settle_call(self.key, self.account, None, self._bounds))
        else:
            self._budgets.gather(rows)

    def _rows(self, counted: Counted | None) -> tuple[tuple[UsageRow, ...], Usage]:
        """Return the rows that record the call's usage, and this usage with its price."""
        if counted is None:
            whole = self.whole if self._bounds else replace(self.whole, completion_tokens=0)
            counted = Counted(whole, estimated=True)
        usage = counted.usage
        if usage == Usage():
            return (), usage
        usage = replace(usage, nano_usd=self.price.of(usage) if self.price is not None else 0)
        self._budgets.calls += 1
        self._budgets.used += usage
        tools = [name[:MOST_TOOL_CHARS] for name in counted.tools]
        tokens = usage.prompt_tokens + usage.completion_tokens
        row = UsageRow(
            *(self.day, self.account.owner, self.account.chat, self.account.task, self.account.bot),
            self.model,
            person=self.account.person,
            calls=1,
            prompt=usage.prompt_tokens,
            completion=usage.completion_tokens,
            cached=usage.cached_tokens,
            nano=usage.nano_usd,
            unpriced=tokens if self.price is None else 0,
            estimated=int(counted.estimated),
        )
        return tuple(_shared(row, tools)), usage


def _shared(row: UsageRow, tools: list[str]) -> list[UsageRow]:
    """Divide a reply's tokens and price equally among the called tools; the first also gets the remainder."""
    if not tools:
        return [row]
    parts = {
        name: (value // len(tools), value % len(tools))
        for name in ("prompt", "completion", "cached", "nano", "unpriced")
        for value in (getattr(row, name),)
    }
    first = {name: share + rest for name, (share, rest) in parts.items()}
    others = {name: share for name, (share, _) in parts.items()}
    return [
        replace(row, tool=tool, tool_calls=1, **first)
        if at == 0
        else replace(row, tool=tool, tool_calls=1, calls=0, estimated=0, **others)
        for at, tool in enumerate(tools)
    ]


@dataclass(frozen=True, slots=True)
class WriteNow(Request[None]):
    """A request to write all gathered usage; the reply comes after the write."""


class Ledger(Actor[WriteNow]):
    """Writes the usage of model calls, at most once a second. Looks up the prices of `models` ahead."""

    def __init__(self, budgets: Budgets, models: Sequence[str] = ()) -> None:
        self._budgets = budgets
        self._models = models
        self._writing = trio.Lock()

    async def started(self) -> None:
        """Start the tasks that write usage and look up prices."""
        self.start_soon(self._write)
        self.start_soon(prepare, self._models, self._budgets.rules.prices)

    async def _write(self) -> None:
        self._budgets.work.set()  # one round even without usage, so that the status has figures
        while True:
            await self._budgets.work.wait()
            await trio.sleep(GATHER_S)
            try:
                await self.write_now(WriteNow())
            except ActorError as error:  # the journal has crashed; the supervisor restarts this actor soon
                logger.info("usage is not written now: %r", error)

    @answers(WriteNow)
    async def write_now(self, message: WriteNow) -> None:
        """Write gathered usage and refresh the usage figures that the status shows."""
        async with self._writing:
            await self._budgets.write()
            await self._budgets.look()

    async def stopped(self, reason: str) -> None:
        """Write the remaining usage, within `STOP_S`."""
        try:
            with trio.move_on_after(STOP_S):
                await self._budgets.write(0.0)
        except ActorError as error:
            logger.warning("what model calls have used is not written: %r", error)

    def metrics(self) -> Mapping[str, object]:
        """Return the usage of today, this month and this process, and the state of the budgets."""
        used = self._budgets.used
        total = {
            "calls": self._budgets.calls,
            "prompt_tokens": used.prompt_tokens,
            "completion_tokens": used.completion_tokens,
            "cached_tokens": used.cached_tokens,
            "usd": as_usd(used.nano_usd),
        }
        return {**self._budgets.figures, "total": total}


@dataclass(frozen=True, slots=True)
class SharedLedger:
    """The ledger of a worker that shares its database with other workers.

    Chats are divided into partitions, each served by one worker; this class is a
    `rumi.store.cluster.partitions.Part`. It writes all usage and settlements before it hands partitions over,
    because the next worker counts any remaining reservation as used.
    """

    ledger: ActorRef[WriteNow]

    async def take_over(self, numbers: frozenset[int]) -> None:
        """Do nothing, because earlier workers leave a ledger no work in partitions."""
        await trio.lowlevel.checkpoint()

    async def hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        """Write gathered usage and queued settlements."""
        try:
            await self.ledger.ask(WriteNow())
        except ActorError as error:
            logger.warning("what model calls have used is not written: %r", error)
