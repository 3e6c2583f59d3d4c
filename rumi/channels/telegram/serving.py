"""Serves the bot until a signal ends it."""

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from rumi import texts
from rumi.channels.telegram.room import PATIENCE_S, Telegram
from rumi.chats import Inbox
from rumi.texts import Language


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
    telegram: Telegram,
    inbox: Inbox,
    language: Language,
    say: Callable[[str], None],
    told: Told,
    ending: Callable[[], None] = lambda: None,
) -> None:
    """Serve until told to end, and then wind down; a second signal shortens that.

    `say` shows a line to the user who started the program. `ending` is called when no message may be accepted
    any more.

    Raises:
        TokenRefused: Telegram does not know the token.
    """
    me = await telegram.introduce()
    say(texts.serving(language, me.username if me is not None else "", telegram.users))
    if not telegram.users:
        say(texts.nobody_allowed(language))
    await told.end.wait()
    say(texts.winding_down(language, PATIENCE_S))
    ending()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cut_short, told, nursery.cancel_scope)
        await telegram.wind_down(inbox)
        nursery.cancel_scope.cancel()


async def _cut_short(told: Told, scope: trio.CancelScope) -> None:
    await told.hurry.wait()
    scope.cancel()
