"""A connection to the process that holds the home for what goes on: windows, live events."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from rumi.control.wire import LineWire, Wire
from rumi.errors import RumiError

MAX_ANSWER_BYTES = 256_000_000
"""Of what the process sends, which is trusted: more than any reply or any output has."""


class NotRunning(RumiError):
    """No process answers on this home."""

    def __init__(self) -> None:
        super().__init__("No Rumi is running on this home.", "Start one with: rumi chat")


@asynccontextmanager
async def open_stream(path: Path, name: str, **fields: object) -> AsyncIterator[Wire]:
    """Ask for the stream `name` at the control socket; the connection, which ends with the block.

    Raises:
        NotRunning: nothing listens there.
        WireClosed: it went away just then.
    """
    try:
        stream = await trio.open_unix_socket(path)
    except OSError:
        raise NotRunning from None
    async with stream:
        wire = LineWire(stream, MAX_ANSWER_BYTES)
        await wire.send({"stream": name, **fields})
        yield wire
