"""`rumi web`: serve the page; make a login link, list and end the logins of browsers."""

import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rumi.channels.qr_code import qr_rows
from rumi.cli.asking import ask
from rumi.cli.daemon import say
from rumi.cli.printing import JSON, cut, echo, echo_json, local_time
from rumi.cli.speaking import Listing, ntr, tr
from rumi.platform.extras import is_installed
from rumi.platform.printable import flat

if TYPE_CHECKING:
    from rumi.platform.home import Home


class _Web(Listing):
    """The group; `rumi web HOST:PORT` is `rumi web serve HOST:PORT`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and ":" in args[0] and not ctx.resilient_parsing:
            args = [self.default, *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Web, default="serve")
def command() -> None:
    """Serve the page; make login links for browsers, list and end their logins."""


@command.command()
@click.argument("where", metavar="[HOST:PORT]", default="127.0.0.1:8080")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def serve(where: str, debug: bool) -> None:
    """Serve the page without Telegram until SIGINT or SIGTERM, and print the link that logs a browser in.

    Without HOST:PORT it is at 127.0.0.1:8080.
    """
    from rumi.channels.registration import ServeFlags
    from rumi.cli.serve import serve_until_signal

    serve_until_signal("rumi web", ServeFlags(where, telegram=False, others=False))


async def _not_running(home: "Home", request: Mapping[str, object]) -> object:
    from rumi.channels.page_calls import PageCalls
    from rumi.platform.caller import TERMINAL
    from rumi.platform.calls import answer

    return await answer(PageCalls(), "page", TERMINAL, request)


_ask = partial(ask, "page", here=_not_running)


@command.command()
@JSON
def link(as_json: bool) -> None:
    """Make a link that logs a browser in, once; print it with a QR code and a code to type."""
    made = _ask("link")
    if as_json:
        echo_json(made, indent=2)
        return
    if sys.stdout.isatty() and is_installed("page"):
        echo(qr_code(made["link"]))
    echo(made["link"])
    say(
        tr(
            "It works once, for {minutes} minutes. Or type this code on the page: {code}",
            minutes=made["minutes"],
            code=made["code"],
        )
    )


@command.command()
@JSON
def sessions(as_json: bool) -> None:
    """List the browsers that are logged in: id, last use, login, browser."""
    found: list[dict[str, Any]] = _ask("sessions")
    if as_json:
        echo_json(found, indent=2)
        return
    if not found:
        say(tr("No browser is logged in. To log one in: rumi web link"))
    for one in found:
        times = f"{local_time(one['seen'])}  {local_time(one['created'])}"
        echo(cut(f"{flat(one['id'])}  {times}  {flat(one['name']) or tr('unknown browser')}"))


@command.command()
@click.argument("id", metavar="ID|all")
def revoke(id: str) -> None:
    """Log out the browser with that ID, or all browsers."""
    count = _ask("revoke", id=id)["revoked"]
    echo(ntr("Logged out {count} browser.", "Logged out {count} browsers.", count))


def qr_code(text: str) -> str:
    """Return a QR code in half blocks: two rows of modules in each line, light modules as blocks.

    So it is dark on light, as scanners expect, in the dark terminals that most people have; phones read the
    inverse of light terminals too.
    """
    rows = qr_rows(text)
    rows += [[0] * len(rows[0])] * (len(rows) % 2)
    blocks = {(0, 0): "█", (0, 1): "▀", (1, 0): "▄", (1, 1): " "}
    pairs = zip(rows[::2], rows[1::2], strict=True)
    return "\n".join("".join(blocks[one, two] for one, two in zip(*pair, strict=True)) for pair in pairs)
