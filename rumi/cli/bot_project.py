"""`rumi bot diff` and `rumi bot apply`: show and apply a bot's changes to its copy of a project folder."""

import os
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import click

from rumi.cli.daemon import say
from rumi.cli.printing import JSON, confirm, echo, echo_json
from rumi.cli.speaking import reader

if TYPE_CHECKING:
    from rumi.sandbox.project.changes import Changes
    from rumi.tasks.bots.project.link import Project

NAME = click.argument("name")


@click.command()
@NAME
@click.option("--stat", is_flag=True, help="Print only the names, each with a letter for what changed.")
@JSON
def diff(name: str, stat: bool, as_json: bool) -> None:
    """Print what the bot NAME changed in its project, as a unified diff.

    A is a new file, D a deleted one, M a changed one, R a moved one, m one whose mode changed.
    """
    from rumi.platform.texts import bots as bot_texts

    _, opened = _changed(name)
    with opened as changes:
        if not changes.all:
            say(bot_texts.bot_unchanged(reader(), name))
        if as_json:
            _print_json(changes)
        else:
            _print(changes, stat=stat)


@click.command()
@NAME
@click.option("--yes", is_flag=True, help="Do not ask.")
def apply(name: str, yes: bool) -> None:
    """Show the changes of the bot NAME, and after your yes make them in the folder that it got.

    If that folder has changed in the same places, nothing is applied.
    """
    from rumi.platform.openat import shown
    from rumi.platform.texts import bots as bot_texts
    from rumi.platform.texts import folders as folder_texts
    from rumi.tasks.bots.project.applying import apply as carry_out

    language = reader()
    project, opened = _changed(name)
    with opened as changes:
        if not changes.all:
            _print(changes, stat=True)
            say(bot_texts.bot_unchanged(language, name))
            return
        link = project.needed()
        _print(changes, stat=False)
        echo()
        _print_stat(changes)
        folder = shown(link.folder)
        question = folder_texts.apply_question(language, len(changes.all), folder)
        if not yes and not confirm(question, err=True):
            raise click.exceptions.Exit(1)
        echo(folder_texts.applied(language, carry_out(project, link, changes), folder))


def _changed(name: str) -> "tuple[Project, AbstractContextManager[Changes]]":
    """Return a bot's project folder, and a context manager that opens the bot's changes to its copy."""
    from rumi.app.engine import sandbox_limits
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home
    from rumi.sandbox.project.tree import ProjectLimits
    from rumi.tasks.bots.files import BotFiles

    home = Home(home_from(os.environ)).make()
    loaded = load_settings(home.root, os.environ, {})
    files = BotFiles(home.root, home.with_files(loaded.settings.store.workspaces).files)
    files.read(name)
    limits = sandbox_limits(loaded)
    project = files.project(name)
    return project, project.changed(ProjectLimits(limits.workspace_bytes, limits.workspace_files))


def _print(changes: "Changes", *, stat: bool) -> None:
    from rumi.platform.texts import folders as folder_texts
    from rumi.sandbox.project.changes import unified

    for path, reason in changes.left_out:
        say(folder_texts.left_out(reader(), path, reason))
    if stat:
        _print_stat(changes)
    else:
        for line in unified(changes):
            echo(line)


def _print_json(changes: "Changes") -> None:
    from rumi.sandbox.project.changes import stat_lines, unified

    found = {
        "files": [{"letter": letter, "path": what} for letter, what in stat_lines(changes)],
        "left_out": [list(pair) for pair in changes.left_out],
        "lines": list(unified(changes)),
    }
    echo_json(found, indent=2)


def _print_stat(changes: "Changes") -> None:
    from rumi.sandbox.project.changes import stat_lines

    for letter, what in stat_lines(changes):
        echo(f"{letter} {what}")
