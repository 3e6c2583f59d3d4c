"""`rumi data`: its commands are those of `backup.py`, `restore.py` and `store.py` beside it."""

import click

from rumi.cli.speaking import Listing


@click.group(
    cls=Listing,
    default="show",
    members={
        "backup": "rumi.cli.backup",
        "copy": "rumi.cli.store:copy",
        "restore": "rumi.cli.restore",
        "show": "rumi.cli.store:show",
    },
)
def command() -> None:
    """Back up, restore, show and copy what Rumi stores.

    To move in from another assistant: rumi import
    """
