"""`rumi config`."""

import os

import click

from rumi.cli.speaking import say


@click.group()
def command() -> None:
    """Show the configuration in force."""


@command.command()
def path() -> None:
    """Print the path of config.toml, which may not exist yet."""
    from rumi.config import home_from

    click.echo(home_from(os.environ) / "config.toml")


@command.command()
def show() -> None:
    """Print every key, its value and where the value comes from. For secrets, print only if they are set."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from rumi.config import home_from, load_settings

    loaded = load_settings(home_from(os.environ), os.environ, {})
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for row in loaded.rows():
        style = "dim" if row.origin in ("default", "") else ""
        table.add_row(Text(row.key), Text(row.value or "-"), Text(row.origin), style=style)
    console = Console()
    if console.is_terminal:
        console.print(table)
    else:  # a pipe gets whole lines of any length
        for row in loaded.rows():
            click.echo(f"{row.key} = {row.value or '-'}  # {row.origin or 'not set'}")
    for note in loaded.notes:
        say(note, err=True)
