"""Serves channels until a signal ends the process."""

import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final

import trio

from actors import ActorError
from rumi.channels.channel import Channel
from rumi.chats.inbox import Inbox
from rumi.chats.lessons import Lessons
from rumi.platform import texts
from rumi.platform.texts import Language

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 20.0
"""How long running turns may continue after a signal."""

REPORT_S: Final = 15.0
"""How long ending and reporting the remaining turns may then take."""

FLUSH_S: Final = 10.0
"""How long a channel may take to store its last messages, and to send its last replies; the next process
sends the rest."""

LEARN_S: Final = 5.0
"""How long the extraction of facts from open sessions may then take."""


@dataclass(frozen=True, slots=True)
class Told:
    """The signals so far: to end, and then to end quickly."""

    end: trio.Event = field(default_factory=trio.Event)
    hurry: trio.Event = field(default_factory=trio.Event)


@asynccontextmanager
async def listening_to_signals() -> AsyncIterator[Told]:
    """Handle the signals that end a program, until the block ends. Must be called in the main thread.

    The tree belongs inside the block: it ends in bounded time, and a signal that killed the process meanwhile
    would leave containers behind.
    """
    told = Told()

    async def listen(signals: AsyncIterator[int]) -> None:
        async for _ in signals:
            (told.hurry if told.end.is_set() else told.end).set()

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored, as nohup sets it
        numbers.append(signal.SIGHUP)
    with trio.open_signal_receiver(*numbers) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, signals)
            yield told
            nursery.cancel_scope.cancel()


async def serve(
    channels: Sequence[Channel],
    inbox: Inbox,
    lessons: Lessons,
    language: Language,
    say: Callable[[str], None],
    told: Told,
    ending: Callable[[], None],
    drain: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    drain_s: float = 0.0,
) -> None:
    """Serve until told to end, and then wind down; a second signal shortens that.

    `say` shows a line to the user who started the program. `ending` is called when no message may be accepted
    any more. `drain` hands the chats over to other workers, in about `drain_s`.

    Raises:
        RumiError: A channel can never work.
    """
    for channel in channels:
        await channel.introduce(say)
    await told.end.wait()
    say(texts.winding_down(language, PATIENCE_S))
    ending()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cut_short, told, nursery.cancel_scope)
        await wind_down(channels, inbox, lessons, drain, drain_s)
        nursery.cancel_scope.cancel()


async def _cut_short(told: Told, scope: trio.CancelScope) -> None:
    await told.hurry.wait()
    scope.cancel()


async def wind_down(
    channels: Sequence[Channel],
    inbox: Inbox,
    lessons: Lessons,
    drain: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    drain_s: float = 0.0,
) -> None:
    """Take no more messages, let turns finish or report them, send the last replies, extract facts. All
    bounded.

    Cancelled, it leaves the rest to the end of the tree and to the next process.
    """
    for channel in channels:
        with _as_far_as_possible(channel.name, FLUSH_S):
            await channel.stop_receiving()
    if drain_s:
        with _as_far_as_possible("partitions", drain_s + REPORT_S):
            await drain()
    with _as_far_as_possible("turns", PATIENCE_S + REPORT_S):
        await inbox.wind_down(PATIENCE_S, REPORT_S)
    for channel in channels:
        with _as_far_as_possible(channel.name, FLUSH_S):
            await channel.flush()
    with _as_far_as_possible("facts", LEARN_S):  # the rest at the next start
        if await lessons.ask_to_learn():
            await lessons.learn_now()


@contextmanager
def _as_far_as_possible(what: str, seconds: float) -> Iterator[None]:
    """Run a step of the shutdown. If an actor fails in it, log that, so that the next step still runs."""
    try:
        with trio.move_on_after(seconds):
            yield
    except ActorError as error:
        logger.warning("the end was not orderly (%s): %r", what, error)
