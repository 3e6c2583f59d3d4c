"""Reaching the process that holds the home, for the commands that ask it."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rumi.config import home_from
from rumi.control import ControlClient, NotRunning, connect, socket_path
from rumi.home import Home


@asynccontextmanager
async def connected() -> AsyncIterator[ControlClient]:
    """A connection to the running Rumi of this home.

    Raises:
        NotRunning: there is none.
    """
    home = Home(home_from(os.environ))
    if not home.holder():
        raise NotRunning(f"No Rumi is running on {home.root}.", "Start one with: rumi chat")
    async with connect(socket_path(home.run, home.installation())) as client:
        yield client


def say(chat: str, call: str) -> None:
    """Ask the running Rumi to do something to a chat, and print its answer."""
    import click
    import trio

    async def ask() -> str:
        async with connected() as client:
            return str(await client.call(call, chat=chat))

    click.echo(trio.run(ask))
