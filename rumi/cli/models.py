"""`rumi models`."""

import os
from typing import TYPE_CHECKING, Any, Final

import click

from rumi.cli import run_async
from rumi.cli.printing import JSON, echo, echo_json
from rumi.cli.speaking import Listing, reader, say, tr
from rumi.platform.texts.words import in_words

if TYPE_CHECKING:
    from rumi.platform.config.cascade import Loaded

EXIT_NO_ANSWER: Final = 4


@click.group(cls=Listing, default="list", members={"usage": "rumi.cli.usage"})
def command() -> None:
    """Show the models, and try out those that are configured."""


@command.command("list")
@JSON
def list_(as_json: bool) -> None:
    """List the models of the configuration, and those that Rumi knows.

    Prices are in USD per million tokens: of prompts, of replies, and of the cached part of prompts.
    """
    from rumi.app.model_calls import model_rows

    loaded = _loaded()
    rows = model_rows(loaded)
    if as_json:
        echo_json(rows, indent=2)
        return
    titles = (tr("model"), tr("used as"), tr("key"), tr("context"), tr("prompt"), tr("reply"))
    table = [(*titles, tr("cached"), tr("pictures")), *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@command.command()
@click.argument("names", nargs=-1, metavar="[PROVIDER:NAME]...")
@JSON
def test(names: tuple[str, ...], as_json: bool) -> None:
    """Make one short call of each model that is configured, or of those that are named.

    The exit code is 4 if one of them does not answer.
    """
    from rumi.app.model_calls import try_models
    from rumi.models.build import check_model_name
    from rumi.platform.config.model_names import configured

    loaded = _loaded()
    for name in names:
        check_model_name(loaded.settings.model.aliases.get(name, name))
    results: list[dict[str, Any]] = run_async(
        try_models, loaded, names or tuple(configured(loaded)), reader()
    )
    if as_json:
        echo_json(results, indent=2)
    else:
        for result in results:
            if result["ok"]:
                say(
                    "✓ {model} answered in {seconds} s",
                    model=result["model"],
                    seconds=f"{result['seconds']:.1f}",
                )
            else:
                echo(f"✗ {result['model']}: {result['told']}")
    if not all(result["ok"] for result in results):
        raise click.exceptions.Exit(EXIT_NO_ANSWER)


def _loaded() -> "Loaded":
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from

    return load_settings(home_from(os.environ), os.environ, {})


def _key_state(state: str) -> str:
    variable = state.removesuffix(" missing")
    if variable != state:
        return tr("{variable} missing", variable=variable)
    return in_words(reader(), state)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    price = (
        ("-", "-", "-") if row["usd_per_million"] is None else tuple(f"{n:g}" for n in row["usd_per_million"])
    )
    used = ", ".join(in_words(reader(), use) for use in row["used_as"]) or "-"
    pictures = tr("yes") if row["pictures"] else "-"
    return (row["model"], used, _key_state(row["key"]), f"{row['context']:,}", *price, pictures)
