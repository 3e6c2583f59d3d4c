"""`rumi models`."""

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from rumi.cli import run_async
from rumi.cli.model_names import configured, known_names
from rumi.cli.printing import JSON, echo, echo_json
from rumi.cli.speaking import Listing, reader, say, tr
from rumi.platform.texts.words import in_words

if TYPE_CHECKING:
    from rumi.models.settings import ModelSettings
    from rumi.platform.config.cascade import Loaded

TRY_S: Final = 30.0
"""Maximum time for a model to answer the test call, in seconds."""

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
    loaded = _loaded()
    rows = _rows(loaded)
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
    from rumi.models.build import check_model_name

    loaded = _loaded()
    for name in names:
        check_model_name(loaded.settings.model.aliases.get(name, name))
    results: list[dict[str, Any]] = run_async(_try_all, loaded, names or tuple(configured(loaded)))
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


def _rows(loaded: "Loaded") -> list[dict[str, Any]]:

    from rumi.app.settings import budget_rules_of
    from rumi.chats.budgets.prices import price_of
    from rumi.models.settings import context_tokens_of, model_settings_of, model_takes_pictures

    settings, prices = model_settings_of(loaded, "en", lenient=True), budget_rules_of(loaded).prices
    used = configured(loaded)
    rows = []
    for name in dict.fromkeys([*used, *known_names()]):
        price = price_of(name, prices, time.time())
        first = name == settings.default and settings.section.context_tokens
        rows.append(
            {
                "model": name,
                "used_as": list(used.get(name, ())),
                "key": _key(settings, name),
                "context": first or context_tokens_of(name),
                "usd_per_million": price and list(price.per_million_usd()),
                "pictures": model_takes_pictures(name, settings),
            }
        )
    return rows


def _key(settings: "ModelSettings", name: str) -> str:
    """Return the state of a model's API key: `set`, `not needed`, `command`, or why it is missing.

    `command` means that a command outputs the key; this function does not run that command.
    """
    from rumi.models.settings import missing_key
    from rumi.platform.config.providers import key_owner

    owner = key_owner(name)
    if owner in settings.secrets.faults:
        return "cannot be read"
    if owner in settings.secrets.unread:
        return "command"
    if variable := missing_key(settings, name):
        return f"{variable} missing"
    return "set" if settings.key_of(owner) else "not needed"


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


async def _try_all(loaded: "Loaded", names: Sequence[str]) -> list[dict[str, Any]]:
    import trio

    from rumi.models.settings import model_settings_of
    from rumi.platform.config.commands import read_keys

    settings = model_settings_of(await read_keys(loaded), reader(), lenient=True)
    # No fallbacks: another model must not answer for the one under test.
    settings = settings.changed(timeout_s=TRY_S, first_token_timeout_s=TRY_S, fallbacks=())
    results: list[dict[str, Any]] = [{} for _ in names]

    async def one(at: int, name: str) -> None:
        results[at] = await _tried(settings.changed(default=name), name)

    async with trio.open_nursery() as nursery:
        for at, name in enumerate(names):
            nursery.start_soon(one, at, name)
    return results


async def _tried(settings: "ModelSettings", name: str) -> dict[str, Any]:
    """Make one short model call; return its duration, or the error with its advice."""
    from rumi.errors import RumiError
    from rumi.models.build import build_models
    from rumi.models.trying import try_out
    from rumi.platform.texts.translation import error_text

    models = None
    try:
        models = build_models(settings)
        return {"model": name, "ok": True, "seconds": round(await try_out(models), 3)}
    except RumiError as error:
        return {
            "model": name,
            "ok": False,
            "error": error.message,
            "advice": error.advice,
            "told": error_text(reader(), error),
        }
    finally:
        if models is not None:
            await models.aclose()
