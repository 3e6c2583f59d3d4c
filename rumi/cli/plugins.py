"""`rumi plugins`: the installed plugins, and switching them on and off."""

import os
from typing import TYPE_CHECKING

import click

from rumi.cli.printing import JSON, echo, echo_json, flat_lines
from rumi.cli.speaking import Listing, say, tr, translate
from rumi.platform.printable import flat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rumi.platform.config.cascade import Loaded
    from rumi.platform.home import Home


@click.group(cls=Listing, default="list")
def command() -> None:
    """Show the plugins, which extend Rumi, and switch them on and off."""


def _loaded() -> "tuple[Home, Loaded]":
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home

    home = Home(home_from(os.environ))
    return home, load_settings(home.root, os.environ, {})


@command.command("list")
@JSON
def list_(as_json: bool) -> None:
    """List the installed plugins: name, version, what they add, and what is wrong with them.

    Plugins that are switched on are loaded to check them; the others are not.
    """
    from rumi.app.plugin_rows import checked_rows, with_problems

    home, loaded = _loaded()
    rows = with_problems(checked_rows(loaded.plugins), _running_problems(home))
    if as_json:
        echo_json([row.to_json() for row in rows], indent=2)
        return
    if not rows:
        say("No plugin is installed. Plugins are Python packages: install one where Rumi is installed.")
    for row in rows:
        state = tr("on") if row.enabled else tr("off")
        echo(f"{flat(row.name)}  {flat(row.version) or '-'}  {state}")
        for added in row.adds:
            echo(f"  {flat(added)}")
        for problem in row.problems:
            echo(flat_lines(f"  ✗ {translate(problem)}"))


def _running_problems(home: "Home") -> "Mapping[str, tuple[str, ...]]":
    """Return the problems that the running process knows of each plugin; empty if none runs or answers."""
    from rumi.cli.control import daemon_status
    from rumi.errors import RumiError

    if not home.lock_holder():
        return {}
    try:
        rows = daemon_status().get("plugins", [])
    except RumiError:
        return {}
    return {row["name"]: tuple(row["problems"]) for row in rows}


@command.command()
@click.argument("name")
def enable(name: str) -> None:
    """Switch on the plugin NAME: from the next start on, Rumi loads its code.

    A plugin runs with all rights of Rumi, so install only plugins that you trust.
    """
    _switch(name, on=True)


@command.command()
@click.argument("name")
def disable(name: str) -> None:
    """Switch off the plugin NAME, from the next start on."""
    _switch(name, on=False)


def _switch(name: str, *, on: bool) -> None:
    from rumi.app.plugin_rows import require_installed
    from rumi.platform.config.editing import set_keys

    home, loaded = _loaded()
    if on or name not in loaded.settings.plugins:
        require_installed(loaded.plugins, name)
    set_keys(home.make().root / "config.toml", {f"plugins.{name}.enabled": on})
    if on:
        say("{name} is on. Its code runs with all rights of Rumi.", name=name)
    else:
        say("{name} is off.", name=name)
    if lock_holder := home.lock_holder():
        say("{lock_holder} uses it after its next start.", lock_holder=lock_holder, err=True)
