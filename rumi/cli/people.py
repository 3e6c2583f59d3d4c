"""`rumi config people`."""

import json
import os
from typing import TYPE_CHECKING, Any

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

    from rumi.cli.asking import ask
    from rumi.cli.speaking import reader
    from rumi.platform.texts import people as people_texts

    _, loaded = _home()
    today = f"{datetime.now().astimezone():%Y-%m-%d}"
    used = ask("usage", "usage", by="person", first=today, last=today)
    rows = _rows(loaded, {row["person"]: row for row in used["rows"]})
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
    from rumi.platform.config.editing import set_keys

    home, _ = _home()
    values = {f"people.{name}.telegram": json.dumps(ids), f"people.{name}.role": role}
    set_keys(home.root / "config.toml", values)
    echo(tr("{name} has the role {role} from the next start on.", name=name, role=role))


@command.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove the section [people.NAME] from config.toml. Lists of [telegram] stay as they are."""
    from rumi.errors import UsageError
    from rumi.platform.config.editing import edit_toml, section_in

    home, loaded = _home()
    if name not in loaded.settings.people:
        raise UsageError("Unknown person {name}.", "Look at the list: rumi config people list", name=name)
    edit_toml(home.root / "config.toml", lambda document: section_in(document, ("people",)).pop(name, None))
    echo(tr("{name} is removed from the next start on.", name=name))


def _home() -> "tuple[Home, Loaded]":
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home

    home = Home(home_from(os.environ)).make()
    return home, load_settings(home.root, os.environ, {})


def _rows(loaded: "Loaded", used: "dict[str, dict[str, Any]]") -> list[dict[str, Any]]:
    """Return a row for each person, the owner of the home first."""
    from rumi.app.settings import people_of
    from rumi.chats.people.people import OWNER
    from rumi.platform.chat_ids import BUILT_IN

    principals = {person.name: person for person in (OWNER, *people_of(loaded, BUILT_IN).persons.values())}
    rows = []
    for name, principal in principals.items():
        rights, today = principal.rights, used.get(name, {})
        rows.append(
            {
                "name": name,
                "ids": list(principal.users),
                "role": rights.role,
                "tools": None if rights.tools is None else list(rights.tools),
                "schedules": rights.schedules,
                "bots": rights.bots,
                "tokens": today.get("prompt_tokens", 0) + today.get("completion_tokens", 0),
                "usd": today.get("usd", 0.0),
            }
        )
    return rows
