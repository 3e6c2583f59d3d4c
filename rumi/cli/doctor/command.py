"""`rumi doctor`."""

import os
import shutil
import sys
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from rumi.cli import run_async
from rumi.cli.printing import Styled, echo, echo_json

if TYPE_CHECKING:
    from rumi.cli.doctor.check import Check

NAME = 15
MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failure": ("✗", "red")}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a list: name, verdict, found, fix.")
@click.option(
    "--online", is_flag=True, help="Ask the servers too: one short call of the model, the bot's name."
)
@click.pass_context
def command(context: click.Context, as_json: bool, online: bool) -> None:
    """Check everything that a working installation needs; exit code 1 if something must be fixed.

    The checks change nothing and do not interrupt a running Rumi. Verdicts: ok, warning, failure.
    """
    from functools import partial

    from rumi.cli.doctor.check import Check
    from rumi.cli.doctor.examining import examine
    from rumi.errors import ConfigError
    from rumi.platform.config.files import find_home
    from rumi.platform.home import Home

    report = (lambda _: None) if as_json else _show
    debug = bool(context.find_root().params.get("debug"))
    try:
        home = Home(find_home(os.environ))
    except ConfigError as error:
        from rumi.cli.speaking import translate

        checks = [Check("home", "failure", translate(error.message).rstrip("."), translate(error.advice))]
        report(checks[0])
    else:
        checks = run_async(partial(examine, home, ask_servers=online, report=report, debug=debug))
    if as_json:
        echo_json([asdict(check) for check in checks])
    if any(check.verdict == "failure" for check in checks):
        raise click.exceptions.Exit(1)


def _show(check: "Check") -> None:
    """Print a finding on one line, or on several in a narrow terminal. The fix stays on one line."""
    mark, colour = MARKS[check.verdict]
    begin, found = f"{check.name:<{NAME}} ", check.found
    if sys.stdout.isatty():
        wide = max(40, shutil.get_terminal_size().columns - 1)
        lines = textwrap.wrap(begin + found, wide - 2, subsequent_indent=" " * (NAME + 1))
        begin, found = "", "\n  ".join(lines)
    echo(Styled(mark, colour), f" {begin}{found}")
    if check.fix:
        echo(f"  {'':<{NAME}} → {check.fix}")
