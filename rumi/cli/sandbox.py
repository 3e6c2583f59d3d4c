"""`rumi debug sandbox`."""

import os
from typing import TYPE_CHECKING

import click

from rumi.cli import run_async
from rumi.cli.printing import JSON, echo, echo_json
from rumi.cli.speaking import Listing, reader, say, translate

if TYPE_CHECKING:
    from rumi.platform.config.cascade import Loaded
    from rumi.platform.home import Home


@click.group(cls=Listing, default="status")
def command() -> None:
    """Build the sandbox, look at it, clean it up."""


@command.command()
def build() -> None:
    """Rebuild the sandbox's image and root file system."""

    run_async(_build)


@command.command()
@JSON
def status(as_json: bool) -> None:
    """Show the engine, its image or root file system, and this installation's containers."""

    run_async(_status, as_json)


@command.command()
def clean() -> None:
    """Remove this installation's containers. A running Rumi removes its own."""

    run_async(_clean)


def _here() -> "tuple[Home, Loaded]":
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home

    home = Home(home_from(os.environ)).make()
    return home, load_settings(home.root, os.environ, {})


async def _build() -> None:
    from rumi.app.engine import build_image, build_rootfs, find_engine
    from rumi.channels.terminal.progress import show_progress
    from rumi.cli.control import yield_home

    home, loaded = _here()
    engine = await find_engine(home, loaded)
    await engine.aclose()
    async with show_progress(reader()) as steps:
        if engine.kind == "docker":
            lines = await build_image(home, loaded, steps.step)  # running containers keep their image
        else:
            yield_home(home)
            with home.lock(
                "rumi debug sandbox build"
            ):  # running containers would lose their root file system
                lines = await build_rootfs(home, loaded, steps.step)
    for line in lines:
        echo(translate(line))


async def _status(as_json: bool) -> None:
    from rumi.app.engine import find_engine, sandbox_facts

    home, loaded = _here()
    engine = await find_engine(home, loaded)
    try:
        facts = await sandbox_facts(home, loaded, engine)
        if as_json:
            echo_json([{"name": name, "value": translate(value)} for name, value in facts], indent=2)
        for name, value in () if as_json else facts:
            echo(f"{translate(name):<12} {translate(value)}")
    finally:
        await engine.aclose()


async def _clean() -> None:
    from rumi.app.engine import find_engine, remove_leftovers
    from rumi.cli.control import yield_home

    home, loaded = _here()
    yield_home(home)
    with home.lock("rumi debug sandbox clean"):
        engine = await find_engine(home, loaded)
        try:
            removed = await remove_leftovers(home, engine)
        finally:
            await engine.aclose()
    for name in removed:
        say("removed {name}", name=name)
    if not removed:
        say("There was nothing to remove.")
