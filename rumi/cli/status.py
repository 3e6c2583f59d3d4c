"""`rumi status`."""

import json
from typing import Any, cast

import click


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the dump as JSON.")
@click.option("--watch", is_flag=True, help="Refresh every second until Ctrl-C.")
def command(as_json: bool, watch: bool) -> None:
    """Show what the running Rumi does: the tree of its actors."""
    import trio

    trio.run(_show, as_json, watch)


async def _show(as_json: bool, watch: bool) -> None:
    import trio
    from rich.console import Console
    from rich.live import Live

    from rumi.cli.attach import connected
    from rumi.control.view import render

    console = Console()
    async with connected() as client:

        async def status() -> dict[str, Any]:
            return cast(dict[str, Any], await client.call("status"))

        if as_json and not watch:
            click.echo(json.dumps(await status(), ensure_ascii=False))
        elif as_json:
            while True:
                click.echo(json.dumps(await status(), ensure_ascii=False))
                await trio.sleep(1)
        elif not watch:
            console.print(render(await status()))
        elif not console.is_terminal:  # nothing can be drawn over there: one table after the other
            while True:
                console.print(render(await status()))
                await trio.sleep(1)
        else:
            with Live(console=console, screen=True, auto_refresh=False) as live:
                while True:
                    live.update(render(await status()), refresh=True)
                    await trio.sleep(1)
