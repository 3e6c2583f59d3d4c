"""`rumi config`."""

import os
import sys
from typing import TYPE_CHECKING

import click

from rumi.cli.printing import JSON, console, echo, echo_json, prompt
from rumi.cli.speaking import Listing, say, tr
from rumi.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from rumi.platform.config.cascade import Loaded


@click.group(cls=Listing, default="show", members={"people": "rumi.cli.people"})
def command() -> None:
    """Show and change the configuration.

    `rumi plugins` switches plugins on and off.
    """


@command.command()
@JSON
def path(as_json: bool) -> None:
    """Print the path of config.toml, which may not exist yet."""
    from rumi.platform.config.files import home_from

    file = home_from(os.environ) / "config.toml"
    if as_json:
        echo_json({"path": str(file), "exists": file.exists()})
    else:
        echo(str(file))


@command.command()
@JSON
def show(as_json: bool) -> None:
    """Print every key, its value and where the value comes from. For secrets, print only if they are set."""
    from rich.table import Table
    from rich.text import Text

    loaded = _loaded()
    if as_json:
        echo_json([row.to_json() for row in loaded.rows()], indent=2)
        return
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


@command.command()
@click.argument("key")
@JSON
def get(key: str, as_json: bool) -> None:
    """Print the value of KEY, or the keys of a section such as model. For a secret, print only if it is set.

    --json also says where the value comes from: default, config.toml, a variable RUMI_…, .env, environment.
    """
    rows = _loaded().rows()
    one = next((row for row in rows if row.key == key), None)
    section = [row for row in rows if row.key.startswith(f"{key}.")]
    if one is None and not section:
        raise _unknown(key, [row.key for row in rows])
    if one is None:
        if as_json:
            echo_json([row.to_json() for row in section], indent=2)
        for row in () if as_json else section:
            echo(f"{row.key} = {row.value or '-'}  # {row.origin or 'not set'}")
        return
    if as_json:
        echo_json(one.to_json(), indent=2)
        return
    value = one.to_json()["value"]
    echo(value if isinstance(value, str) else one.value)
    if one.origin.startswith("RUMI_"):
        say("The variable {variable} of the environment sets it.", variable=one.origin, err=True)


def _unknown(key: str, known: list[str]) -> UsageError:
    from difflib import get_close_matches

    near = get_close_matches(key, known, n=1)
    if near:
        return UsageError("Unknown key {key}.", "Did you mean {meant}?", key=key, meant=near[0])
    return UsageError("Unknown key {key}.", "See all of them: rumi config show", key=key)


@command.command("set")
@click.argument("pairs", nargs=-1, required=True, metavar="KEY VALUE...")
def set_(pairs: tuple[str, ...]) -> None:
    """Set KEY to VALUE in config.toml; comments stay. Several pairs are set together.

    A list is JSON: '[1, 2]'. An empty VALUE takes an optional key away. A key of a service, such as
    GROQ_API_KEY, goes into .env; as VALUE, - reads one line of standard input, so that no shell stores it; a
    terminal does not show it.
    """
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
    _note_what_still_counts(tuple(values))
    if lock_holder := Home(root).lock_holder():
        say("{lock_holder} uses it after its next start.", lock_holder=lock_holder, err=True)


@command.command()
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
def unset(keys: tuple[str, ...]) -> None:
    """Remove KEY from config.toml, so that its default counts again; comments stay. KEY may be a section.

    A key of a service, such as GROQ_API_KEY, is removed from .env.
    """
    from rumi.platform.config.editing import set_variables, unset_keys
    from rumi.platform.config.files import home_from
    from rumi.platform.config.secrets import NAMES
    from rumi.platform.home import Home

    root = home_from(os.environ)
    known = {*NAMES, *_referenced(root), *_variables(root)}
    secrets = [key for key in keys if key in known]
    had = unset_keys(root / "config.toml", [key for key in keys if key not in known])
    if secrets and set_variables(root / ".env", dict.fromkeys(secrets)):
        had += secrets
    for key in keys:
        if key in had:
            say("{key} is unset.", key=key)
        else:
            file = root / (".env" if key in known else "config.toml")
            say("{key} was not set in {file}.", key=key, file=file, err=True)
    _note_what_still_counts(keys)
    if had and (lock_holder := Home(root).lock_holder()):
        say("{lock_holder} uses it after its next start.", lock_holder=lock_holder, err=True)


def _note_what_still_counts(keys: tuple[str, ...]) -> None:
    """Name the variables of the environment that still set these keys; none if the file has other errors."""
    from rumi.errors import ConfigError

    try:
        loaded = _loaded()
    except ConfigError:
        return
    for key in keys:
        origin = loaded.origins.get(key) or loaded.secrets.origins.get(key, "")
        if origin not in ("", "default", "config.toml", ".env"):
            variable = key if origin == "environment" else origin
            say("The variable {variable} of the environment overrides it here.", variable=variable, err=True)


def _loaded() -> "Loaded":
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from

    return load_settings(home_from(os.environ), os.environ, {})


def _variables(root: "Path") -> set[str]:
    """Return the names of the variables in .env."""
    from io import StringIO

    from dotenv.parser import parse_stream

    from rumi.platform.config.files import read_text

    return {binding.key for binding in parse_stream(StringIO(read_text(root / ".env"))) if binding.key}


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
