"""`rumi models usage`."""

from collections.abc import Mapping
from typing import Any

import click

from rumi.cli.asking import ask
from rumi.cli.daemon import say
from rumi.cli.printing import JSON, echo, echo_json
from rumi.cli.speaking import reader
from rumi.platform.printable import flat
from rumi.texts import gettext


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
@JSON
def command(
    by: str, first: str | None, last: str | None, owner: str | None, chat: str | None, as_json: bool
) -> None:
    """Show what model calls have used and cost, and how far the budgets are used."""
    found = ask("usage", "usage", by=by, first=first, last=last, owner=owner, chat=chat)
    if as_json:
        echo_json(found, indent=2)
    else:
        _show(found)


def _show(found: Mapping[str, Any]) -> None:
    """Print a table of usage, and the budgets below it."""
    from rumi.platform.texts import budgets as budget_texts

    language, by = reader(), found["by"]
    if not found["rows"]:
        say(gettext(language, "Nothing was used yet."))
    rows = [budget_texts.usage_columns(language, by)] if found["rows"] else []
    nothing = gettext(language, "(answer)") if by == "tool" else "-"
    rows.extend(_cells(flat(str(row[by])) or nothing, row) for row in found["rows"])
    if found["rows"]:
        rows.append(_cells(gettext(language, "total"), found["total"]))
    widths = [max(len(row[at]) for row in rows) for at in range(6)] if rows else []
    for name, *figures in rows:
        cells = (figure.rjust(width) for figure, width in zip(figures, widths[1:], strict=True))
        echo("  ".join((name.ljust(widths[0]), *cells)))
    if found["total"]["unpriced_tokens"]:
        echo(
            gettext(
                language,
                "{tokens} are of models without a known price: [prices] in config.toml.",
                tokens=f"{found['total']['unpriced_tokens']:,} tokens",
            )
        )
    for budget in found["budgets"]:
        limit = budget["limit"] + budget["granted"]
        echo(f"{budget['budget']} {budget['of']}: {budget['used']:g} / {limit:g} ({budget['share']:.0%})")


def _cells(name: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    counts = (row["calls"], row["prompt_tokens"], row["cached_tokens"], row["completion_tokens"])
    return (name, *(f"{count:,}" for count in counts), f"{row['usd']:.4f}")
