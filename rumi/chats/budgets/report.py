"""The usage report, a JSON document from which reports for people are also made."""

from collections.abc import Sequence
from typing import Final, get_args

from rumi.chats.budgets.amounts import amount_text, as_usd
from rumi.chats.budgets.meter import Budgets, state_json
from rumi.chats.budgets.periods import days_of
from rumi.chats.budgets.prices import prices_source
from rumi.errors import UsageError
from rumi.models.metering import Limit
from rumi.store.journal.spending import By, UsageRow, budget_states, read_usage
from rumi.texts import Language

WAYS: Final = tuple(option for option in get_args(By) if option != "all")


async def report(
    budgets: Budgets, by: str, *, owner: str = "", chat: str = "", first: str = "", last: str = ""
) -> dict[str, object]:
    """Return the usage between two dates (by default, of this month): its total, and grouped `by` a field.

    With an `owner` or a `chat`, only their usage is included.

    Raises:
        UsageError: usage cannot be grouped by the field.
    """
    way = next((option for option in get_args(By) if option == by and option != "all"), None)
    if way is None:
        raise UsageError("Usage is not summed up by {by}.", "It is by {ways}.", by=by, ways=", ".join(WAYS))
    month_first, month_last = days_of("month", budgets.now(), budgets.zone)
    first, last = first or month_first, last or month_last
    rows = await budgets.ask(read_usage(way, first, last, owner, chat))
    whole = await budgets.ask(read_usage("all", first, last, owner, chat))
    bounds = tuple(budgets.bound(limit) for limit in budgets.rules.limits)
    states = await budgets.ask(budget_states(bounds, owner, chat)) if bounds else ()
    return {
        "from": first,
        "to": last,
        "by": by,
        "total": counts(whole[0] if whole else UsageRow()),
        "rows": [{by: getattr(row, by), **counts(row)} for row in rows],
        "budgets": [state_json(state, budgets) for state in states],
        "prices_of": prices_source(),
    }


async def left_of(
    budgets: Budgets, limits: Sequence[Limit], chat: str, person: str, language: Language
) -> list[tuple[str, str, str]]:
    """Return what is left of a person's budgets: of each, its period, the amount left, and its limit.

    `limits` are the limits of the person's role, in addition to the configured ones.
    """
    limits = (*budgets.rules.limits, *limits)
    bounds = tuple(budgets.bound(limit) for limit in limits if limit.scope == "person")
    if not bounds or not person:
        return []
    return [
        (
            state.bound.limit.period,
            amount_text(language, state.bound.limit.unit, max(0, state.most - state.used)),
            amount_text(language, state.bound.limit.unit, state.most),
        )
        for state in await budgets.ask(budget_states(bounds, "", chat, person))
    ]


def counts(row: UsageRow) -> dict[str, object]:
    """Return the counts of a usage row as JSON, with money in USD."""
    return {
        "calls": row.calls,
        "tool_calls": row.tool_calls,
        "prompt_tokens": row.prompt,
        "cached_tokens": row.cached,
        "completion_tokens": row.completion,
        "usd": as_usd(row.nano),
        "unpriced_tokens": row.unpriced,
        "estimated_calls": row.estimated,
    }
