"""`rumi debug`: what a person needs to see why something happened. Each command has its own module."""

import click

from rumi.cli.speaking import Listing


@click.group(
    cls=Listing,
    members={
        "fetch": "rumi.cli.fetch",
        "logs": "rumi.cli.logs",
        "replay": "rumi.cli.replay",
        "report": "rumi.cli.report",
        "sandbox": "rumi.cli.sandbox",
    },
)
def command() -> None:
    """Read the audit log, run a recorded turn again or pack it for a report, try a fetch or the sandbox."""
