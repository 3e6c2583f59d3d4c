"""Control calls for models, and what `rumi models` shares with them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import trio

from rumi.app.settings import budget_rules_of
from rumi.chats.budgets.prices import price_of
from rumi.errors import RumiError, UsageError
from rumi.models.build import build_models, check_model_name
from rumi.models.settings import (
    ModelSettings,
    context_tokens_of,
    missing_key,
    model_settings_of,
    model_takes_pictures,
)
from rumi.models.trying import try_out
from rumi.platform.caller import Caller
from rumi.platform.calls import call
from rumi.platform.config.cascade import Loaded
from rumi.platform.config.commands import read_keys
from rumi.platform.config.model_names import configured, known_names
from rumi.platform.config.providers import key_owner
from rumi.platform.texts.translation import error_text
from rumi.platform.threads import Offload
from rumi.texts import Language

TRY_S: Final = 30.0
"""Maximum time for a model to answer the test call, in seconds."""

MOST_TRIED: Final = 20
"""Maximum number of models that one request tries."""


def model_rows(loaded: Loaded) -> list[dict[str, Any]]:
    """Return a row for each configured or known model: use, state of the key, context size and price.

    No key is ever part of a row. The price is in USD per million tokens: of prompts, of replies, and of the
    cached part of prompts; None if it is unknown.
    """
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
                "key": key_state(settings, name),
                "context": first or context_tokens_of(name),
                "usd_per_million": price and list(price.per_million_usd()),
                "pictures": model_takes_pictures(name, settings),
            }
        )
    return rows


def key_state(settings: ModelSettings, name: str) -> str:
    """Return the state of a model's API key: `set`, `not needed`, `command`, or why it is missing.

    `command` means that a command outputs the key; this function does not run that command.
    """
    owner = key_owner(name)
    if owner in settings.secrets.faults:
        return "cannot be read"
    if owner in settings.secrets.unread:
        return "command"
    if variable := missing_key(settings, name):
        return f"{variable} missing"
    return "set" if settings.key_of(owner) else "not needed"


async def try_models(loaded: Loaded, names: Sequence[str], language: Language) -> list[dict[str, Any]]:
    """Make one short call of each of these models at the same time; return how each answered.

    A result has the `model`, `ok`, and the `seconds`, or the `error`, the `advice`, and both as `told` in the
    `language`. On cancellation, the calls are ended.
    """
    settings = model_settings_of(await read_keys(loaded), language, lenient=True)
    # No fallbacks: another model must not answer for the one under test.
    settings = settings.changed(timeout_s=TRY_S, first_token_timeout_s=TRY_S, fallbacks=())
    results: list[dict[str, Any]] = [{} for _ in names]

    async def one(at: int, name: str) -> None:
        results[at] = await _tried(settings.changed(default=name), name, language)

    async with trio.open_nursery() as nursery:
        for at, name in enumerate(names):
            nursery.start_soon(one, at, name)
    return results


async def _tried(settings: ModelSettings, name: str, language: Language) -> dict[str, Any]:
    """Make one short model call; return its duration, or the error with its advice."""
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
            "told": error_text(language, error),
        }
    finally:
        if models is not None:
            await models.aclose()


@dataclass(frozen=True, slots=True)
class ModelCalls:
    """The control calls for models. `figures` returns the state of permits and limits of the servers."""

    loaded: Loaded
    offload: Offload
    figures: Callable[[], Mapping[str, object]] = field(default=dict)

    @call("models.list", rights="all")
    async def list(self, caller: Caller) -> object:
        """Return the configured and the known models: use, state of the key (never the key), context, price.

        `default` is the model of chats that have chosen no other, `aliases` are further names of models, and
        `servers` has the permits and limits of the servers that are in use.
        """
        model = self.loaded.settings.model
        return {
            "models": await self.offload(partial(model_rows, self.loaded)),
            "default": model.aliases.get(model.default, model.default),
            "aliases": dict(model.aliases),
            "servers": dict(self.figures()),
        }

    @call("models.check", rights="all")
    async def check(self, caller: Caller, *, models: Sequence[str] = (), language: Language = "en") -> object:
        """Make one short call of each of these models, by default of each configured one.

        Raises:
            UsageError: One of the names is not a model's, or there are too many.
        """
        names = tuple(models) or tuple(configured(self.loaded))
        if len(names) > MOST_TRIED:
            raise UsageError("At most {most} models are tried at once.", most=MOST_TRIED)
        for name in names:
            check_model_name(self.loaded.settings.model.aliases.get(name, name))
        return await try_models(self.loaded, names, language)
