"""`rumi doctor`."""

import json
import os
from dataclasses import asdict

import click

MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failure": ("✗", "red")}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(as_json: bool) -> None:
    """Check everything that a working installation needs; exit code 1 if something has to be mended."""
    import trio

    from rumi.config import home_from
    from rumi.doctor import examine
    from rumi.home import Home

    checks = trio.run(examine, Home(home_from(os.environ)).make())
    if as_json:
        click.echo(json.dumps([asdict(check) for check in checks], ensure_ascii=False))
    else:
        for check in checks:
            mark, colour = MARKS[check.verdict]
            click.echo(f"{click.style(mark, fg=colour)} {check.name:<13} {check.found}")
            if check.mend:
                click.echo(f"  {'':<13} → {check.mend}")
    if any(check.verdict == "failure" for check in checks):
        raise click.exceptions.Exit(1)
