"""`rumi status`."""

from dataclasses import replace

import click

from rumi.cli import run_async
from rumi.cli.speaking import reader


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the dump as JSON; docs/status.md describes it.")
@click.option("--watch", is_flag=True, help="Refresh every second until Ctrl-C; keys sort, stop and reset.")
@click.option("--all", "-a", "every", is_flag=True, help="Show every chat, also idle ones.")
def command(as_json: bool, watch: bool, every: bool) -> None:
    """Show what the running Rumi does: the tree of its actors."""
    from rumi.cli.attach import status_of_holder

    if as_json and not watch:
        click.echo(status_of_holder())
        return
    if not watch:
        import json

        from rich.console import Console

        from rumi.control.view import Choice, render

        choice = Choice(language=reader())
        if every:
            choice = replace(choice, most=1_000_000, many=1_000_000)
        Console().print(render(json.loads(status_of_holder()), choice))
        return

    from rumi.cli.attach import control_path
    from rumi.control.watch import watch as keep_watching

    raise click.exceptions.Exit(run_async(keep_watching, control_path(), as_json, reader()))
