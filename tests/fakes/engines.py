"""Real engines that tests make, and what becomes of their boxes."""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import trio

from rumi.sandbox.engine import Engine, SandboxError, SandboxLimits

MakeEngine: TypeAlias = Callable[[SandboxLimits, str], Engine]
"""Makes an engine with these limits, for the installation of this name."""


@asynccontextmanager
async def cleaned_up(engine: Engine) -> AsyncIterator[Engine]:
    """The engine, whose boxes are all removed at the end however the test went."""
    try:
        yield engine
    finally:
        with trio.CancelScope(shield=True), trio.move_on_after(60):
            while left := await engine.containers():
                for box in left:
                    # A busy daemon may take longer than the engine waits for it.
                    with contextlib.suppress(SandboxError):
                        await engine.remove(box.chat_id)
            await engine.aclose()
