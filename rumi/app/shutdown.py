"""Serves channels until a signal ends the process, and shuts down in bounded time."""

import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final

import trio

from actors import ActorError
from rumi.channels.channel import Channel
from rumi.chats.chats import Chats
from rumi.chats.fact_extraction import FactExtraction
from rumi.texts import Language, gettext

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 20.0
"""Maximum time that running turns may continue after a signal, in seconds."""

REPORT_S: Final = 15.0
"""Maximum seconds, after `PATIENCE_S`, in which the remaining turns are ended and reported."""

FLUSH_S: Final = 10.0
"""Maximum time for a channel to store its last messages, and to send its last replies, in seconds.

The next process sends the remaining replies.
"""

EXTRACTION_WAIT_S: Final = 5.0
"""Maximum time at shutdown to extract facts from open sessions, in seconds."""


@dataclass(frozen=True, slots=True)
class StopSignals:
    """The stop signals received so far: the first one sets `end`, the second one sets `hurry`."""

    end: trio.Event = field(default_factory=trio.Event)
    hurry: trio.Event = field(default_factory=trio.Event)


@asynccontextmanager
async def stop_signals() -> AsyncIterator[StopSignals]:
    """Handle the signals that end a program, until the block ends. Must be called in the main thread.

    The supervision tree must run inside the block: the tree ends in bounded time, and an unhandled signal
    would kill the process before it has removed its containers.
    """
    stop = StopSignals()

    async def receive(signals: AsyncIterator[int]) -> None:
        async for _ in signals:
            (stop.hurry if stop.end.is_set() else stop.end).set()

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored, as nohup sets it
        numbers.append(signal.SIGHUP)
    with trio.open_signal_receiver(*numbers) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive, signals)
            yield stop
            nursery.cancel_scope.cancel()


async def serve_channels(
    channels: Sequence[Channel],
    chats: Chats,
    fact_extraction: FactExtraction,
    language: Language,
    say: Callable[[str], None],
    stop: StopSignals,
    ending: Callable[[], None],
    drain: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    drain_s: float = 0.0,
) -> None:
    """Serve channels until a stop signal, then wind down; a second signal shortens the winding down.

    `say` shows a line to the user who started the program. `ending` is called when the process must stop
    accepting messages. `drain` hands the chats over to other workers, in about `drain_s` seconds.

    Raises:
        RumiError: A channel has an error that retrying cannot fix.
    """
    for channel in channels:
        await channel.introduce(say)
    await stop.end.wait()
    say(
        gettext(
            language,
            "Ending: waiting up to {patience_s} s for running work. Press Ctrl-C again to end now.",
            patience_s=f"{PATIENCE_S:.0f}",
        )
    )
    ending()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_when_hurried, stop, nursery.cancel_scope)
        await wind_down(channels, chats, fact_extraction, drain, drain_s)
        nursery.cancel_scope.cancel()


async def _cancel_when_hurried(stop: StopSignals, scope: trio.CancelScope) -> None:
    await stop.hurry.wait()
    scope.cancel()


async def wind_down(
    channels: Sequence[Channel],
    chats: Chats,
    fact_extraction: FactExtraction,
    drain: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    drain_s: float = 0.0,
) -> None:
    """Stop receiving messages, let turns finish or report them as interrupted, send replies, extract facts.

    Each step has a time limit. If cancelled, the remaining work is left to the shutdown of the tree and to
    the next process.
    """
    for channel in channels:
        with _bounded_step(channel.name, FLUSH_S):
            await channel.stop_receiving()
    if drain_s:
        with _bounded_step("partitions", drain_s + REPORT_S):
            await drain()
    with _bounded_step("turns", PATIENCE_S + REPORT_S):
        await chats.wind_down(PATIENCE_S, REPORT_S)
    for channel in channels:
        with _bounded_step(channel.name, FLUSH_S):
            await channel.flush()
    with _bounded_step("facts", EXTRACTION_WAIT_S):  # the rest at the next start
        if await fact_extraction.request_extraction():
            await fact_extraction.extract_now()


@contextmanager
def _bounded_step(what: str, seconds: float) -> Iterator[None]:
    """Run one step of the shutdown with a time limit; log an actor's failure, so that the next step runs."""
    try:
        with trio.move_on_after(seconds):
            yield
    except ActorError as error:
        logger.warning("the end was not orderly (%s): %r", what, error)
