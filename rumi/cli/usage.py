"""`rumi usage`."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from rumi.cli import run_async
from rumi.cli.asking import when_free
from rumi.cli.daemon import say
from rumi.cli.printing import echo, echo_json
from rumi.cli.speaking import reader
from rumi.platform.printable import flat

if TYPE_CHECKING:
    from rumi.platform.home import Home


@click.command()
@click.option(
    "--by",
    type=click.Choice(["chat", "owner", "person", "model", "tool", "day"]),
    default="model",
    show_default=True,
    help="What to sum up by.",
)
@click.option("--from", "first", metavar="DAY", help="The first day, as 2026-11-01; by default this month's.")
@click.option("--to", "last", metavar="DAY", help="The last day.")
@click.option("--owner", help="Only what this owner has used.")
@click.option("--chat", help="Only what this chat has used.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def command(
    by: str, first: str | None, last: str | None, owner: str | None, chat: str | None, as_json: bool
) -> None:
    """Show what model calls have used and cost, and how far the budgets are used."""
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home

    home = Home(home_from(os.environ)).make()
    asked = {"by": by, "first": first, "last": last, "owner": owner, "chat": chat}
    found: Any = run_async(when_free, home, "usage", used_here, asked)
    if as_json:
        echo_json(found, indent=2)
    else:
        _show(found)


async def used_here(home: "Home", request: Mapping[str, object]) -> object:
    """Execute the request on the database of a home that no process has locked."""
    import time

    from rumi.app.budget_calls import UsageCalls
    from rumi.app.settings import budget_rules_of
    from rumi.chats.budgets.meter import Budgets
    from rumi.cli.stored import stored_of
    from rumi.platform.caller import TERMINAL
    from rumi.platform.calls import answer
    from rumi.platform.chat_ids import BUILT_IN
    from rumi.platform.config.cascade import load_settings
    from rumi.store.journal.actor import open_journal

    rules = budget_rules_of(load_settings(home.root, os.environ, {}))
    with home.lock("rumi usage"):
        async with open_journal(stored_of(home).state) as ask:
            calls = UsageCalls(Budgets(ask, rules, time.time), BUILT_IN)
            return await answer(calls, "usage", TERMINAL, request)


def _show(found: Mapping[str, Any]) -> None:
    """Print a table of usage, and the budgets below it."""
    from rumi.platform.texts import budgets as budget_texts

    language, by = reader(), found["by"]
    if not found["rows"]:
        say(budget_texts.usage_none(language))
    rows = [budget_texts.usage_columns(language, by)] if found["rows"] else []
    nothing = budget_texts.usage_in_words(language) if by == "tool" else "-"
    rows.extend(_cells(flat(str(row[by])) or nothing, row) for row in found["rows"])
    if found["rows"]:
        rows.append(_cells(budget_texts.usage_total(language), found["total"]))
    widths = [max(len(row[at]) for row in rows) for at in range(6)] if rows else []
    for name, *figures in rows:
        cells = (figure.rjust(width) for figure, width in zip(figures, widths[1:], strict=True))
        echo("  ".join((name.ljust(widths[0]), *cells)))
    if found["total"]["unpriced_tokens"]:
        echo(budget_texts.usage_unpriced(language, f"{found['total']['unpriced_tokens']:,} tokens"))
    for budget in found["budgets"]:
        limit = budget["limit"] + budget["granted"]
        echo(f"{budget['budget']} {budget['of']}: {budget['used']:g} / {limit:g} ({budget['share']:.0%})")


def _cells(name: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    counts = (row["calls"], row["prompt_tokens"], row["cached_tokens"], row["completion_tokens"])
    return (name, *(f"{count:,}" for count in counts), f"{row['usd']:.4f}")
