"""`rumi doctor`."""

import json
import os
from dataclasses import asdict

import click

MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failure": ("✗", "red")}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a list: name, verdict, found, mend.")
@click.option(
    "--online", is_flag=True, help="Ask the servers too: one short call of the model, the bot's name."
)
def command(as_json: bool, online: bool) -> None:
    """Check everything that a working installation needs; exit code 1 if something has to be mended.

    Nothing is changed, and a Rumi that runs goes on meanwhile. Verdicts: ok, warning, failure.
    """
    from functools import partial

    import trio

    from rumi.config import home_from
    from rumi.doctor import examine
    from rumi.home import Home

    home = Home(home_from(os.environ)).make()
    checks = trio.run(partial(examine, home, ask_servers=online))
    if as_json:
        click.echo(json.dumps([asdict(check) for check in checks], ensure_ascii=False))
    else:
        for check in checks:
            mark, colour = MARKS[check.verdict]
            click.echo(f"{click.style(mark, fg=colour)} {check.name:<15} {check.found}")
            if check.mend:
                click.echo(f"  {'':<15} → {check.mend}")
    if any(check.verdict == "failure" for check in checks):
        raise click.exceptions.Exit(1)
