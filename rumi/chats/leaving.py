"""Leaving a chat: what is worth remembering is saved, as far as there is time."""

import logging
import signal
from collections.abc import Callable

import trio

from actors import ActorError
from rumi.chats.inbox import Inbox

logger = logging.getLogger(__name__)

LEAVE_S = 5.0
"""How long who leaves waits. What is not done by then is done at the next start."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def leave(inbox: Inbox, chat: str, saving: Callable[[], object], *, for_now: bool = False) -> None:
    """Have the chat's session learned from, and wait for that a moment; a signal ends the wait.

    Who leaves only `for_now` goes on with the session soon: then it is only waited for what is due anyway,
    which would otherwise never be done where one short process follows the other. `saving` is called before
    the wait, if there is anything to wait for. Must be called in the main thread.
    """
    with trio.open_signal_receiver(*SIGNALS) as signals:
        try:
            async with trio.open_nursery() as nursery:
                nursery.cancel_scope.deadline = trio.current_time() + LEAVE_S
                nursery.start_soon(_wait, inbox, None if for_now else chat, saving, nursery.cancel_scope)
                await anext(signals)
                nursery.cancel_scope.cancel()
        except* ActorError as error:
            logger.info("chat %s: not learned from when it was left: %r", chat, error)


async def _wait(
    inbox: Inbox, chat: str | None, saving: Callable[[], object], scope: trio.CancelScope
) -> None:
    if chat is not None:
        await inbox.ask_to_learn(chat)
    if await inbox.has_to_learn():
        saving()
        await inbox.learn_now()
    scope.cancel()
