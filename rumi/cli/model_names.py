"""Model names on the command line: the option `--model`, its completion, and the configured models."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from rumi.platform.config.cascade import Loaded

F = TypeVar("F", bound=Callable[..., Any])


def model_option(*names: str, default: str | None = None) -> Callable[[F], F]:
    """Return the option that chooses a model, with shell completion of its value."""
    return click.option(
        *(names or ("--model",)),
        default=default,
        metavar="PROVIDER:NAME",
        shell_complete=complete,
        help="The model, an alias of one, or offline.",
    )


def complete(context: click.Context, parameter: click.Parameter, begun: str) -> list["CompletionItem"]:
    """Return the model names that begin with `begun`: aliases, configured models, and known models."""
    from click.shell_completion import CompletionItem

    from rumi.errors import RumiError
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import find_home

    names = list(known_names())
    try:
        loaded = load_settings(find_home(os.environ), os.environ, {})
    except RumiError:  # shell completion cannot show an error
        pass
    else:
        names = [*loaded.settings.model.aliases, *configured(loaded), *names]
    return [CompletionItem(name) for name in dict.fromkeys(names) if name.startswith(begun)]


def known_names() -> tuple[str, ...]:
    """Return the full names of the models in the provider table, and `offline`."""
    from rumi.platform.config.providers import OFFLINE, PROVIDERS

    names = (
        f"{scheme}:{model.name}"
        for scheme, row in PROVIDERS.items()
        for model in row.models
        if not model.name.endswith("*")
    )
    return (*names, OFFLINE)


def configured(loaded: "Loaded") -> dict[str, tuple[str, ...]]:
    """Return the models that the configuration names, each with its uses, in order of first use."""
    model, research = loaded.settings.model, loaded.settings.research.model
    used: dict[str, tuple[str, ...]] = {}
    for name, use in (
        (model.default, "default"),
        *((name, "fallback") for name in model.fallbacks),
        *([(research, "research")] if research else []),
        *((name, f"alias {alias}") for alias, name in model.aliases.items()),
        *((f"custom:{name}", "custom") for name in model.custom),
    ):
        true = model.aliases.get(name, name)
        used[true] = (*used.get(true, ()), use)
    return used
