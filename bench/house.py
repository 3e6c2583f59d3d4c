"""A Rumi for benchmarks: the real app in this process, with a temporary home."""

import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from rumi.app.app import App, open_app
from rumi.app.engine import ready_engine
from rumi.chats.hub import reply_to
from rumi.platform.config.cascade import load_settings
from rumi.platform.home import Home


@asynccontextmanager
async def app(
    flags: Mapping[str, object], env: Mapping[str, str] | None = None, folder: Path | None = None
) -> AsyncIterator[App]:
    """Start it with these settings; everything of it is gone afterwards.

    With a `folder`, the home is there and stays, so that the next start need not build the sandbox.
    """
    with tempfile.TemporaryDirectory(prefix="rumi-bench-") as temporary:
        home = Home((folder or Path(temporary)) / "home").make()
        loaded = load_settings(home.root, env or {}, flags)
        with home.lock("a benchmark"):
            engine = await ready_engine(home, loaded, lambda step: None)
            async with open_app(home, loaded, engine) as running:
                yield running


async def turn(running: App, chat: str, text: str) -> str:
    """One message and its reply."""
    with running.services.hub.listening(chat) as events:
        return (await reply_to(events, await running.inbox.accept(chat, text))).text


def run(main: object) -> None:
    """Run an async main with the environment's Rumi variables out of the way."""
    for name in [name for name in os.environ if name.startswith("RUMI_")]:
        del os.environ[name]
    trio.run(main)  # type: ignore[arg-type]
