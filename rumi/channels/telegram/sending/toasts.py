"""Short notices to a person who pressed a button. A notice also ends the button's loading animation."""

import logging
from typing import Final

import trio
from telegram.error import BadRequest, RetryAfter, TelegramError

from rumi.channels.telegram.api.bot import in_words, wait_of
from rumi.channels.telegram.sending.destination import Destination, Sent, SharedDelivery, bounded, timeouts

logger = logging.getLogger(__name__)

TOAST_S: Final = 5.0
"""Time limit of one attempt, in seconds."""

ATTEMPTS: Final = 3
PAUSE_S: Final = 1.0

MOST: Final = 64
"""Maximum number of notices in progress, so that many people who press buttons do not delay others."""


class Toasts:
    """Shows notices concurrently. Its methods never raise an error."""

    def __init__(self, wire: SharedDelivery) -> None:
        self._wire = wire
        self._under_way = 0

    async def say(self, query: str, text: str) -> None:
        """Show the text to the person who pressed the button. Retries only briefly: presses expire soon."""
        if self._under_way >= MOST:
            logger.info("a press was not answered: too many are")
            return
        self._under_way += 1
        try:
            for attempt in range(ATTEMPTS):
                pause_s = await self._attempt(query, text)
                if pause_s is None or attempt + 1 == ATTEMPTS:
                    return
                await trio.sleep(pause_s)
        finally:
            self._under_way -= 1

    async def _attempt(self, query: str, text: str) -> float | None:
        """Try once to show the text; return the pause before a retry, in seconds, or None to stop trying."""
        call = self._wire.bot.answer_callback_query(query, text=text, **timeouts(TOAST_S))
        try:
            await bounded(TOAST_S, call)
        except BadRequest as error:
            logger.info("a press was not answered: %s", in_words(error))
        except TelegramError as error:
            logger.info("a press was not answered yet: %s", in_words(error))
            return min(wait_of(error), TOAST_S) if isinstance(error, RetryAfter) else PAUSE_S
        except Exception:  # a notice may fail
            logger.exception("a press was not answered")
        return None

    async def disarm(self, to: Destination, message: Sent) -> None:
        """Remove the buttons of a question that is no longer pending. Makes a few attempts."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await to.turn()
                await to.disarm(message)
            except TelegramError as error:
                logger.info("a message kept its buttons: %s", in_words(error))
                if isinstance(error, BadRequest):
                    return
                to.note_error(error)
                await trio.sleep(PAUSE_S * attempt)
            except Exception:
                logger.exception("a message kept its buttons")
                return
            else:
                return
