"""Texts for people about budgets and the usage of model calls."""

from collections.abc import Sequence
from datetime import datetime

from rumi.platform.texts.formats import day_and_month
from rumi.texts import Language, gettext


def budget_name(language: Language, scope: str, period: str) -> str:
    """Return the name of a budget, for use in sentences."""
    whose = {
        "total": gettext(language, "the budget for everything"),
        "owner": gettext(language, "this user's budget"),
        "chat": gettext(language, "this chat's budget"),
        "task": gettext(language, "this task's budget"),
        "bot": gettext(language, "this bot's budget"),
        "person": gettext(language, "this person's budget"),
    }[scope]
    when = {
        "day": gettext(language, " for today"),
        "month": gettext(language, " for this month"),
    }.get(period, "")
    return whose + when


def budget_refused(
    language: Language, scope: str, period: str, used: str, most: str, asked: str, renews: datetime | None
) -> str:
    """Say that a budget does not allow a model call, and when the budget is renewed."""
    name = budget_name(language, scope, period)
    again = gettext(language, "It is not renewed.")
    if renews is not None:
        when = _when(language, renews)
        again = gettext(language, "It is renewed on {when}.", when=when)
    allow = gettext(language, "An admin can allow more: `/allow 2 USD today`.")
    return gettext(
        language,
        "⛔ {name} is used up: {used} of {most} is used, and the next call needs up to {asked}. {again} "
        "{allow}",
        name=f"{name[0].upper()}{name[1:]}",
        used=used,
        most=most,
        asked=asked,
        again=again,
        allow=allow,
    )


def budget_notice(
    language: Language, scope: str, period: str, used: str, most: str, percent: int, renews: datetime | None
) -> str:
    """Say that a budget is nearly used up."""
    name = budget_name(language, scope, period)
    again = ""
    if renews is not None:
        when = _when(language, renews)
        again = gettext(language, " It is renewed on {when}.", when=when)
    return gettext(
        language,
        "⚠️ {percent} % of {name} is used: {used} of {most}.{again}",
        percent=percent,
        name=name,
        used=used,
        most=most,
        again=again,
    )


def allow_usage(language: Language) -> str:
    """Say how to use `/allow`."""
    return gettext(
        language,
        "Write it like this: `/allow 2 USD today`, or `/allow 50000 tokens today`. To allow it for "
        "another chat, add that chat's id.",
    )


def usage_text(
    language: Language,
    today: tuple[int, str, str],
    month: tuple[int, str, str],
    budgets: Sequence[tuple[str, str, str, str, str]],
    *,
    everybody: bool,
) -> str:
    """Return the usage of today and of this month in model calls, tokens and money, and the state of budgets.

    Each row of `budgets` has the budget's scope, name and period, the used amount, and the limit.
    """
    whose = gettext(language, "of everybody") if everybody else gettext(language, "yours")
    lines = [gettext(language, "📊 Usage ({whose})", whose=whose)]
    for name, (calls, tokens, money) in (
        (gettext(language, "Today"), today),
        (gettext(language, "This month"), month),
    ):
        lines.append(
            gettext(
                language,
                "- {name}: {calls} model calls, {tokens}, {money}",
                name=name,
                calls=calls,
                tokens=tokens,
                money=money,
            )
        )
    if not month[0]:
        lines[1:] = [gettext(language, "- No model was called this month. The demo is not counted.")]
    for scope, who, period, used, most in budgets:
        named = f" ({who})" if scope not in ("total",) else ""
        name = budget_name(language, scope, period)
        lines.append(
            gettext(
                language,
                "- {budget}{name}{named}: {used} of {most}",
                budget=name[0].upper(),
                name=name[1:],
                named=named,
                used=used,
                most=most,
            )
        )
    if not budgets:
        lines.append(gettext(language, "- There are no budgets."))
    return "\n".join(lines)


def group_usage(
    language: Language,
    rows: Sequence[tuple[str, str, str, str, str, Sequence[tuple[str, str, str]]]],
    *,
    everybody: bool,
    more: int = 0,
) -> str:
    """Return what each person has used in a group: tokens and money of today, then of this month.

    Each row begins with the person's name, which is empty for what the group itself has used. At its end, the
    row has the period, the amount left and the limit of each of the person's budgets. `more` is the number of
    people who are left out. If `everybody` is False, only the reader's own usage is shown.
    """
    lines = [
        gettext(language, "In this group, by person:")
        if everybody
        else gettext(language, "Yours, in this group:")
    ]
    for name, tokens, money, month_tokens, month_money, left in rows:
        who = f"`{name.replace('`', chr(39))}`" if name else gettext(language, "nobody in particular")
        line = gettext(
            language,
            "- {who}: today {tokens}, {money}; this month {month_tokens}, {month_money}",
            who=who,
            tokens=tokens,
            money=money,
            month_tokens=month_tokens,
            month_money=month_money,
        )
        for period, rest, most in left:
            when = {"day": gettext(language, "today")}.get(period, gettext(language, "this month"))
            line += gettext(language, "; left {when}: {rest} of {most}", when=when, rest=rest, most=most)
        lines.append(line)
    if not rows:
        lines.append(gettext(language, "- nothing this month"))
    if more:
        lines.append(gettext(language, "- and {more} more", more=more))
    return "\n".join(lines)


def usage_columns(language: Language, by: str) -> tuple[str, ...]:
    """Return the column titles of the table that `rumi models usage` prints."""
    first = {
        "chat": gettext(language, "chat"),
        "owner": gettext(language, "owner"),
        "person": gettext(language, "person"),
        "model": gettext(language, "model"),
        "tool": gettext(language, "tool"),
        "day": gettext(language, "day"),
    }[by]
    return (
        first,
        gettext(language, "calls"),
        gettext(language, "prompt"),
        gettext(language, "cached"),
        gettext(language, "reply"),
        "USD",
    )


def _when(language: Language, time: datetime) -> str:
    return gettext(language, "{day} at {time}", day=day_and_month(language, time), time=f"{time:%H:%M}")
