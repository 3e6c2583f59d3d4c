"""The old name `rumi web` of `rumi serve`."""

import click

from rumi.cli.serve import serve_until_signal


@click.command()
@click.argument("where", metavar="[HOST:PORT]", default="127.0.0.1:8080")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(where: str, debug: bool) -> None:
    """Serve the page without Telegram until SIGINT or SIGTERM, and print the link that logs a browser in.

    Without HOST:PORT it is at 127.0.0.1:8080.
    """
    serve_until_signal("rumi web", web=lambda loaded: where, telegram=lambda loaded: False, listens=False)
