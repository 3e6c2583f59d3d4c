"""Model names on the command line: the option `--model` and its completion."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

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
    from rumi.platform.config.model_names import configured, known_names

    names = list(known_names())
    try:
        loaded = load_settings(find_home(os.environ), os.environ, {})
    except RumiError:  # shell completion cannot show an error
        pass
    else:
        names = [*loaded.settings.model.aliases, *configured(loaded), *names]
    return [CompletionItem(name) for name in dict.fromkeys(names) if name.startswith(begun)]
