"""Serving until somebody says to end."""

import signal
from collections.abc import AsyncIterator, Callable

import trio

from rumi import texts
from rumi.chats import Inbox
from rumi.telegram.room import PATIENCE_S, Telegram
from rumi.texts import Language

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def serve(telegram: Telegram, inbox: Inbox, language: Language, say: Callable[[str], None]) -> None:
    """Serve until a signal comes, and then wind down; a second signal cuts that short.

    `say` shows a line to whoever started the program. Must be called in the main thread.

    Raises:
        TokenRefused: Telegram does not know the token.
    """
    with trio.open_signal_receiver(*SIGNALS) as signals:
        me = await telegram.introduce()
        say(texts.serving(language, me.username if me is not None else "", telegram.users))
        if not telegram.users:
            say(texts.nobody_allowed(language))
        await anext(signals)
        say(texts.winding_down(language, PATIENCE_S))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cut_short, signals, nursery.cancel_scope)
            await telegram.wind_down(inbox)
            nursery.cancel_scope.cancel()


async def _cut_short(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    await anext(signals)
    scope.cancel()
