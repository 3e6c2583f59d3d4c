"""Leaving a chat: what is worth remembering is asked for, and saved as far as there is time."""

import logging
import signal
from collections.abc import Callable

import trio

from actors import ActorError
from rumi.chats.inbox import Inbox

logger = logging.getLogger(__name__)

MOMENT_S = 0.3
"""How long a person who leaves waits. What is not done by then is done at the next start."""

LEAVE_S = 5.0
"""The same of a program, which sits in front of nothing, and may be one of many that are all short."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def leave(
    inbox: Inbox, chat: str, saving: Callable[[], object], *, person: bool, for_now: bool = False
) -> None:
    """Ask for the chat's session to be learned from, and wait for that a moment; a signal ends the wait.

    Who leaves only `for_now` goes on with the session soon: then it is only waited for what is due anyway,
    which would otherwise never be done where one short process follows the other. `saving` is called before
    the wait of a program, if there is anything to wait for. Must be called in the main thread.
    """
    with trio.open_signal_receiver(*SIGNALS) as signals:
        try:
            async with trio.open_nursery() as nursery:
                nursery.cancel_scope.deadline = trio.current_time() + LEAVE_S
                publish = None if person else saving
                nursery.start_soon(_wait, inbox, None if for_now else chat, publish, nursery.cancel_scope)
                await anext(signals)
                nursery.cancel_scope.cancel()
        except* ActorError as error:
            logger.info("chat %s: not learned from when it was left: %r", chat, error)


async def _wait(
    inbox: Inbox, chat: str | None, saving: Callable[[], object] | None, scope: trio.CancelScope
) -> None:
    if chat is not None:
        await inbox.ask_to_learn(chat)
    if await inbox.has_to_learn():
        if saving is None:
            scope.deadline = trio.current_time() + MOMENT_S
        else:
            saving()
        await inbox.learn_now()
    scope.cancel()
