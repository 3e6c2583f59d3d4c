"""`rumi config`."""

import os
import sys
from typing import TYPE_CHECKING

import click

from rumi.cli.printing import console, echo, prompt
from rumi.cli.speaking import say, tr

if TYPE_CHECKING:
    from pathlib import Path


@click.group()
def command() -> None:
    """Show and change the configuration."""


@command.command()
def path() -> None:
    """Print the path of config.toml, which may not exist yet."""
    from rumi.platform.config.files import home_from

    echo(str(home_from(os.environ) / "config.toml"))


@command.command()
def show() -> None:
    """Print every key, its value and where the value comes from. For secrets, print only if they are set."""
    from rich.table import Table
    from rich.text import Text

    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from

    loaded = load_settings(home_from(os.environ), os.environ, {})
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for row in loaded.rows():
        style = "dim" if row.origin in ("default", "") else ""
        table.add_row(Text(row.key), Text(row.value or "-"), Text(row.origin), style=style)
    screen = console()
    if screen.is_terminal:
        screen.print(table)
    else:  # a table would be cut to the width of a terminal that a pipe does not have
        for row in loaded.rows():
            echo(f"{row.key} = {row.value or '-'}  # {row.origin or 'not set'}")
    for note in loaded.notes:
        say(note, err=True)


@command.command("set")
@click.argument("pairs", nargs=-1, required=True, metavar="KEY VALUE...")
def set_(pairs: tuple[str, ...]) -> None:
    """Set KEY to VALUE in config.toml; comments stay. Several pairs are set together.

    A list is JSON: '[1, 2]'. An empty VALUE takes an optional key away. A key of a service, such as
    GROQ_API_KEY, goes into .env; as VALUE, - reads one line of standard input, so that no shell stores it; a
    terminal does not show it.
    """
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.editing import as_toml, set_keys, set_variables
    from rumi.platform.config.files import home_from
    from rumi.platform.config.secrets import NAMES
    from rumi.platform.home import Home
    from rumi.platform.redact import Redactor

    if len(pairs) % 2:
        raise click.UsageError(tr("Each KEY needs a VALUE."))
    values = {key: _value(key, text) for key, text in zip(pairs[::2], pairs[1::2], strict=True)}
    root = home_from(os.environ)
    known = {*NAMES, *_referenced(root)}
    secrets = {key: text for key, text in values.items() if key in known}
    keys = {key: text for key, text in values.items() if key not in known}
    if keys:
        for key, value in set_keys(root / "config.toml", keys).items():
            echo(Redactor(()).text(f"{key} = {as_toml(value) or '-'}"))
    if secrets:
        set_variables(root / ".env", secrets)
        for key in secrets:
            say("{key} is set in {root}.", key=key, root=root / ".env")
    loaded = load_settings(root, os.environ, {})
    for key in values:
        origin = loaded.origins.get(key) or loaded.secrets.origins.get(key, "")
        if origin not in ("", "default", "config.toml", ".env"):
            variable = key if origin == "environment" else origin
            say("The variable {variable} of the environment overrides it here.", variable=variable, err=True)
    if lock_holder := Home(root).lock_holder():
        say("{lock_holder} uses it after its next start.", lock_holder=lock_holder, err=True)


def _value(key: str, text: str) -> str:
    """Return a value of the command line; `-` reads a line, which a terminal does not show."""
    if text != "-":
        return text
    if sys.stdin.isatty():
        return str(prompt(key, hide_input=True, default="", show_default=False)).strip()
    return sys.stdin.readline().strip()


def _referenced(root: "Path") -> set[str]:
    """Return the environment variables that the configuration refers to; none if it is invalid."""
    from rumi.errors import ConfigError
    from rumi.platform.config.cascade import load_settings, variables_of
    from rumi.platform.config.secrets import key_references
    from rumi.platform.config.sources import key_source

    try:
        settings = load_settings(root, {}, {}).settings
    except ConfigError:  # `rumi config set` must still be able to correct an invalid configuration
        return set()
    keys = {key_source(text).variable for text in key_references(settings).values()} - {""}
    return {*keys, *variables_of(settings)}
