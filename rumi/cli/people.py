"""`rumi config people`."""

import os
from typing import TYPE_CHECKING

import click

from rumi.cli.printing import JSON, echo, echo_json
from rumi.cli.speaking import Listing, tr

if TYPE_CHECKING:
    from rumi.platform.config.cascade import Loaded
    from rumi.platform.home import Home


@click.group(cls=Listing, default="list")
def command() -> None:
    """List, add and remove the people who may talk to Rumi, and their roles."""


@command.command("list")
@JSON
def list_(as_json: bool) -> None:
    """List the people, their roles and rights, and what they used today."""
    from datetime import datetime

    from rumi.app.people_calls import person_rows
    from rumi.cli.asking import ask
    from rumi.cli.speaking import reader
    from rumi.platform.texts import people as people_texts

    _, loaded = _home()
    today = f"{datetime.now().astimezone():%Y-%m-%d}"
    used = ask("usage", "usage", by="person", first=today, last=today)
    rows = person_rows(loaded, {row["person"]: row for row in used["rows"]})
    if as_json:
        echo_json(rows, indent=2)
        return
    for row in rows:
        echo(people_texts.person_line(reader(), **row))


@command.command()
@click.argument("name")
@click.option("--telegram", "ids", type=int, multiple=True, required=True, help="Their Telegram id.")
@click.option("--role", default="member", show_default=True, help="admin, member, guest, or one of yours.")
def add(name: str, ids: tuple[int, ...], role: str) -> None:
    """Write the section [people.NAME] into config.toml. A running Rumi reads it at its next start."""
    from rumi.app.people_calls import set_person

    home, _ = _home()
    set_person(home.root, name, ids, role)
    echo(tr("{name} has the role {role} from the next start on.", name=name, role=role))


@command.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove the section [people.NAME] from config.toml. Lists of [telegram] stay as they are."""
    from rumi.app.people_calls import remove_person

    home, loaded = _home()
    remove_person(home.root, loaded, name)
    echo(tr("{name} is removed from the next start on.", name=name))


def _home() -> "tuple[Home, Loaded]":
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home

    home = Home(home_from(os.environ)).make()
    return home, load_settings(home.root, os.environ, {})
