"""Steps that record model calls and enforce budgets.

Before a call, its maximum usage is reserved. After the call, its actual usage is counted once: the call is
settled.

The table `usage` contains the totals of settled calls, with one row for each day, account, model and tool.
The table `reservations` contains the running calls. A budget counts both, so that simultaneous calls cannot
exceed the budget together.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rumi.models.metering import Account, Limit, Scope, Unit
from rumi.store.journal.scopes import of_chat
from rumi.store.journal.transaction import clean, mine
from rumi.store.steps import Transaction, step

By: TypeAlias = Literal["chat", "owner", "person", "model", "tool", "day", "all"]


@dataclass(frozen=True, slots=True)
class UsageRow:
    """Usage of model calls. `day` is the local date on which the calls began, such as 2026-11-23.

    `tool` is the tool that a reply called, empty if the reply is text. If a reply called several tools, its
    tokens are divided among them. `nano` is the price in billionths of a USD. `unpriced` is the number of
    tokens whose price is unknown. `estimated` is the number of calls whose server did not report their usage.
    """

    day: str = ""
    owner: str = ""
    chat: str = ""
    task: int = 0
    bot: str = ""
    model: str = ""
    tool: str = ""
    person: str = ""
    calls: int = 0
    tool_calls: int = 0
    prompt: int = 0
    completion: int = 0
    cached: int = 0
    nano: int = 0
    unpriced: int = 0
    estimated: int = 0


@dataclass(frozen=True, slots=True)
class Bound:
    """A budget limit for the period from the day `first` to the day `last`, both included."""

    limit: Limit
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class BudgetState:
    """The state of one budget. `used` includes `reserved`, which is the part for running calls."""

    bound: Bound
    name: str
    used: int
    reserved: int = 0
    granted: int = 0

    @property
    def most(self) -> int:
        """Return the limit plus the additionally granted amount."""
        return self.bound.limit.most + self.granted

    @property
    def key(self) -> str:
        """Return the key under which notifications about this budget in this period are recorded.

        When an additional amount is granted, the key changes, so that people are notified again about the
        larger budget.
        """
        limit = self.bound.limit
        return ":".join(
            (limit.scope, self.name, limit.unit, limit.period, self.bound.first, str(self.granted))
        )


NOTICE_SHARE: Final = 0.8
"""Fraction of a budget. When this fraction is used, the people who use the budget are notified."""

_USED: Final = {"usd": ("nano", "nano"), "tokens": ("prompt + completion",) * 2, "calls": ("1", "calls")}
"""SQL expressions for the amounts in `reservations` and in `usage`, by unit."""

_GRANTED: Final = {"usd": "nano", "tokens": "tokens", "calls": "0"}
_KEY: Final = "day, owner, chat, task, bot, model, tool, person"
_COUNTS: Final = "calls, tool_calls, prompt, completion, cached, nano, unpriced, estimated"
_ADD: Final = ", ".join(f"{name} = usage.{name} + excluded.{name}" for name in _COUNTS.split(", "))
_OFFLINE: Final = "offline"  # calls of this model do not count towards budgets
_TASK: Final = "CAST(coalesce(nullif(?3, ''), '0') AS BIGINT)"


@step(shared=True)
def reserve_call(
    transaction: Transaction,
    key: str,
    account: Account,
    model: str,
    day: str,
    prompt: int,
    completion: int,
    nano: int,
    priced: bool,
    bounds: tuple[Bound, ...],
) -> BudgetState | None:
    """Reserve the maximum usage of a model call, or return the budget that does not allow the call."""
    # Comparison and reservation share a transaction of the one writer: no other call fits in between.
    tokens = prompt + completion
    for bound in bounds:
        state = _state(transaction, bound, account.name(bound.limit.scope), account)
        more = {"usd": nano, "tokens": tokens, "calls": 1}[bound.limit.unit]
        if state.used + more > state.most:
            return state
    transaction.db.execute(
        "INSERT INTO reservations"
        " (key, day, owner, chat, task, bot, person, model, prompt, completion, nano, priced, created)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            *(key, day, account.owner, account.chat, account.task, account.bot),
            *(
                account.person,
                clean(model),
                prompt,
                completion,
                nano,
                priced,
            ),
            transaction.now(),
        ),
    )
    return None


@step(shared=True)
def settle_call(
    transaction: Transaction,
    key: str,
    account: Account,
    rows: tuple[UsageRow, ...] | None,
    bounds: tuple[Bound, ...] = (),
) -> tuple[BudgetState, ...]:
    """End a reservation; count its usage `rows`, or the reserved amount if `rows` is None.

    Repeating this request has no effect. Return the budgets that are nearly used up and about which nobody
    was notified yet.
    """
    if not _settle(transaction, key, rows):
        return ()
    states = (_state(transaction, bound, account.name(bound.limit.scope), account) for bound in bounds)
    return tuple(
        state
        for state in states
        if state.used >= NOTICE_SHARE * state.most
        and not transaction.db.execute("SELECT 1 FROM budget_notices WHERE key = ?", (state.key,)).fetchone()
    )


@step(shared=True)
def settle_left(transaction: Transaction, partitions: frozenset[int] | None = None) -> int:
    """Settle reservations left by an earlier process: count the reserved amounts.

    Return the number of settled reservations. `partitions` restricts this to reservations in these
    partitions.
    """
    # The process that made them has ended: how much its calls used is not known.
    left = transaction.db.execute(
        f"SELECT key FROM reservations WHERE TRUE{mine(transaction, only=partitions)}"
    ).fetchall()
    for (key,) in left:
        _settle(transaction, key, None)
    return len(left)


@step(shared=True)
def record_usage(transaction: Transaction, rows: tuple[UsageRow, ...]) -> None:
    """Record the usage of calls that no budget limits."""
    for row in rows:
        _count(transaction, row)


@step(shared=True)
def mark_noticed(transaction: Transaction, keys: tuple[str, ...]) -> None:
    """Record that people were notified about these budgets, which are nearly used up."""
    record_notices(transaction, keys)


def record_notices(transaction: Transaction, keys: tuple[str, ...]) -> None:
    """Record in the open transaction that people were notified about these budgets."""
    for key in keys:
        transaction.db.execute(
            "INSERT INTO budget_notices (key, created) VALUES (?, ?) ON CONFLICT DO NOTHING",
            (key, transaction.now()),
        )


@step()
def is_noticed(transaction: Transaction, key: str) -> bool:
    """Return True if people were notified about a budget in its period."""
    found = transaction.db.execute("SELECT 1 FROM budget_notices WHERE key = ?", (key,)).fetchone()
    return found is not None


@step(of_chat, shared=True)
def grant_budget(
    transaction: Transaction, chat: str, owner: str, day: str, nano: int = 0, tokens: int = 0
) -> None:
    """Grant an additional amount on one day to a chat, to its owner, and to the total budget."""
    transaction.db.execute(
        "INSERT INTO grants (day, owner, chat, nano, tokens, created) VALUES (?, ?, ?, ?, ?, ?)",
        (day, owner, chat, nano, tokens, transaction.now()),
    )


@step(reads=True)
def read_usage(
    transaction: Transaction, by: By, first: str, last: str, owner: str = "", chat: str = "", person: str = ""
) -> tuple[UsageRow, ...]:
    """Return the usage from the day `first` to the day `last`, both included, grouped `by` one column.

    If not empty, `owner`, `chat` and `person` restrict the usage.
    """
    column = by if by != "all" else None
    sums = ", ".join(f"sum({name})" for name in _COUNTS.split(", "))
    rows = transaction.db.execute(
        f"SELECT {column or 'NULL'}, {sums} FROM usage WHERE day >= ?1 AND day <= ?2"
        " AND (owner = ?3 OR ?3 = '') AND (chat = ?4 OR ?4 = '') AND (person = ?5 OR ?5 = '')"
        f" {f'GROUP BY {column} ORDER BY' if column else 'HAVING count(*) > 0 ORDER BY'}"
        f" {'1' if by == 'day' else 'sum(nano) DESC, sum(prompt + completion) DESC, 1'}",
        (first, last, owner, chat, person),
    )
    return tuple(
        UsageRow(**({column: name} if column else {}), **dict(zip(_COUNTS.split(", "), counts, strict=True)))
        for name, *counts in rows
    )


@step(reads=True)
def budget_states(
    transaction: Transaction, bounds: tuple[Bound, ...], owner: str = "", chat: str = "", person: str = ""
) -> tuple[BudgetState, ...]:
    """Return the state of budgets: the budgets of an `owner`, a `chat` and a `person`, or all budgets."""
    found = []
    for bound in bounds:
        for name in _names(transaction, bound, owner, chat, person):
            account = Account(
                chat=name if bound.limit.scope == "chat" else chat,
                owner=name if bound.limit.scope == "owner" else owner,
                person=name if bound.limit.scope == "person" else person,
            )
            found.append(_state(transaction, bound, name, account))
    return tuple(found)


def merge_chat(transaction: Transaction, chat: str) -> None:
    """Remove the id of a chat from its usage rows. The owner's budget and all totals stay the same."""
    # Usage rows are unique without the chat: merge a row with the one of earlier deleted chats.
    counts = _KEY.replace("chat", "''", 1)
    transaction.db.execute(
        f"INSERT INTO usage ({_KEY}, {_COUNTS}, created) SELECT {counts}, {_COUNTS}, created FROM usage"
        f" WHERE chat = ? ON CONFLICT ({_KEY}) DO UPDATE SET {_ADD}",
        (chat,),
    )
    transaction.db.execute("DELETE FROM usage WHERE chat = ?", (chat,))
    for table in ("reservations", "grants"):
        transaction.db.execute(f"UPDATE {table} SET chat = '' WHERE chat = ?", (chat,))


def _settle(transaction: Transaction, key: str, rows: tuple[UsageRow, ...] | None) -> bool:
    """End a reservation and count its call. Return False, and count nothing, if it has already ended."""
    found = transaction.db.execute(
        "SELECT day, owner, chat, task, bot, person, model, prompt, completion, nano, priced"
        " FROM reservations WHERE key = ?",
        (key,),
    ).fetchone()
    if found is None:
        return False
    transaction.db.execute("DELETE FROM reservations WHERE key = ?", (key,))
    day, owner, chat, task, bot, person, model, prompt, completion, nano, priced = found
    if rows is None:
        rows = (
            UsageRow(
                *(day, owner, chat, task, bot, model, "", person),
                calls=1,
                prompt=prompt,
                completion=completion,
                nano=nano,
                unpriced=0 if priced else prompt + completion,
                estimated=1,
            ),
        )
    for row in rows:
        _count(transaction, row)
    return True


def _count(transaction: Transaction, row: UsageRow) -> None:
    transaction.db.execute(
        f"INSERT INTO usage ({_KEY}, {_COUNTS}, created) VALUES (?{', ?' * 16})"
        f" ON CONFLICT ({_KEY}) DO UPDATE SET {_ADD}",
        (
            *(row.day, row.owner, row.chat, row.task, row.bot, clean(row.model), clean(row.tool)),
            row.person,
            *(row.calls, row.tool_calls, row.prompt, row.completion, row.cached, row.nano),
            *(row.unpriced, row.estimated, transaction.now()),
        ),
    )


def _state(transaction: Transaction, bound: Bound, name: str, account: Account) -> BudgetState:
    """Return the state of a budget: settled and reserved usage, and the granted amount."""
    limit = bound.limit
    scope, days = limit.scope, (bound.first, bound.last)
    of = _of(scope)
    reserved, settled = (
        _sum(
            transaction, f"SELECT sum({amount}) FROM {table} WHERE {of} AND model != '{_OFFLINE}'", days, name
        )
        for table, amount in zip(("reservations", "usage"), _USED[limit.unit], strict=True)
    )
    granted = _granted(transaction, limit.unit, scope, days, account)
    return BudgetState(bound, name, settled + reserved, reserved, granted)


def _granted(
    transaction: Transaction, unit: Unit, scope: Scope, days: tuple[str, str], account: Account
) -> int:
    """Return the amount granted to a budget.

    For the total budget, all grants count; for others, the grants to the budget's owner or chat.
    """
    theirs = {"total": ("1 = 1 OR ?3 = ''", ""), "owner": ("owner = ?3", account.owner)}
    which, name = theirs.get(scope, ("chat = ?3", account.chat))
    sql = f"SELECT sum({_GRANTED[unit]}) FROM grants WHERE day >= ?1 AND day <= ?2 AND ({which})"
    return int(transaction.db.execute(sql, (*days, name)).fetchone()[0] or 0)


def _sum(transaction: Transaction, sql: str, days: tuple[str, str], name: str) -> int:
    return int(transaction.db.execute(sql, (*days, name)).fetchone()[0] or 0)


def _of(scope: Scope) -> str:
    """Return the SQL condition that selects the rows of a budget scope."""
    days = "day >= ?1 AND day <= ?2"
    if scope == "total":
        return f"{days} AND ?3 != ''"
    return f"{days} AND {scope} = {_TASK if scope == 'task' else '?3'}"


def _names(transaction: Transaction, bound: Bound, owner: str, chat: str, person: str) -> tuple[str, ...]:
    """Return the names (such as owners or chats) whose budgets in the bound's scope are requested."""
    scope = bound.limit.scope
    if scope == "total":
        return ("total",) if not owner else ()
    if scope == "person" and (owner or person):
        return (person,) if person else ()
    if owner and scope in ("owner", "chat"):
        return (owner if scope == "owner" else chat,)
    nothing = "0" if scope == "task" else "''"
    rows = transaction.db.execute(
        f"SELECT DISTINCT {scope} FROM usage WHERE day >= ?1 AND day <= ?2 AND {scope} != {nothing}"
        " AND (owner = ?3 OR ?3 = '') ORDER BY 1 LIMIT 200",
        (bound.first, bound.last, owner),
    )
    return tuple(str(name) for (name,) in rows)
