"""The old name `rumi telegram` of `rumi serve`."""

import click

from rumi.channels.registration import ServeFlags
from rumi.cli.serve import serve_until_signal


@click.command()
@click.option("--web", metavar="HOST:PORT", help="Serve a page there too: 127.0.0.1:8080, say.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(web: str | None, debug: bool) -> None:
    """Serve the Telegram bot until SIGINT or SIGTERM."""
    serve_until_signal("rumi telegram", ServeFlags(web or "", telegram=True))
