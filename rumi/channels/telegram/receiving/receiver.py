"""Base class of the poller and the webhook: the bot's identity, retries, and the end of receiving."""

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Final, TypeVar

import trio
from telegram import Bot
from telegram.error import Conflict, InvalidToken, RetryAfter, TelegramError, TimedOut
from typing_extensions import override

from actors import Actor, ActorError, Backoff
from rumi.channels.telegram.api.bot import (
    VARIABLE,
    Me,
    TokenRefused,
    about_webhook,
    in_words,
    introduce,
    wait_of,
)
from rumi.channels.telegram.receiving.intake import Intake
from rumi.channels.telegram.receiving.registration import register_commands

logger = logging.getLogger(__name__)
T = TypeVar("T")
M = TypeVar("M", contravariant=True)

WAITS: Final = Backoff(first_s=2.0, factor=2.0, cap_s=30.0)
"""Pauses between attempts, in seconds. Each is randomly shortened by up to a half, so that two programs do
not keep colliding.
"""

REFUSALS: Final = 3
"""Number of retries of a refused token, because a server under repair may refuse any token."""


ALBUMS_AGAIN_S: Final = 5.0
"""Pause before the next check for albums if the journal was unreachable, in seconds."""


@dataclass(slots=True)
class ReceiverMemory:
    """State that outlives restarts of the poller or the webhook. It is created once per bot.

    `me` is the bot's identity, once known. `ended` is True when no more updates are accepted. `refused` is
    True if Telegram does not know the token, so that no restart would help. `registered` is True if the bot's
    commands are registered with Telegram. `variable` names the environment variable that contains the token.
    """

    me: Me | None = None
    ended: bool = False
    refused: bool = False
    registered: bool = False
    variable: str = VARIABLE


class Receiver(Actor[M]):
    """Gets updates from Telegram until a `StopPolling` message ends receiving permanently."""

    takes: ClassVar[str] = "polling"
    """Text that `rumi status` shows as the activity while nothing happens."""

    def __init__(
        self,
        bot: Bot,
        intake: Intake,
        memory: ReceiverMemory,
        *,
        random: Random,
        grace_s: float,
        waits: Backoff,
    ) -> None:
        """Create the actor. `grace_s` is the time limit of a short request to Telegram, in seconds."""
        self._bot = bot
        self._intake = intake
        self._memory = memory
        self._random = random
        self._grace_s = grace_s
        self._waits = waits
        self._asking = trio.CancelScope()
        self._doing = self.takes
        self._waits_until: float | None = None
        self._trouble = ""

    @override
    def activity(self) -> str:
        """Return the text that `rumi status` shows as this actor's activity."""
        if self._memory.ended:
            return "takes no more updates"
        now, last = trio.current_time(), self._intake.last
        if self._waits_until is not None:
            return f"waits {max(0.0, self._waits_until - now):.0f} s: {self._trouble}"
        if self._memory.me is None:
            return "asks Telegram who the bot is"
        return f"{self._doing}, {'no update yet' if last is None else f'last update {now - last:.0f} s ago'}"

    @override
    def metrics(self) -> Mapping[str, object]:
        """Return the age of the last update, the current error, and the counts of updates."""
        last = self._intake.last
        last_s = None if last is None else round(trio.current_time() - last, 3)
        waits = self._waits_until is not None
        figures: dict[str, Any] = {"last_update_s": last_s, "trouble": self._trouble if waits else None}
        if self._memory.me is None:
            figures["unready"] = "Telegram has not said yet who the bot is"
        return figures | self._intake.counts

    async def _introduced(self) -> Me | None:
        """Start to register the bot's commands. Return the bot's identity; None if receiving ends first."""
        me = self._memory.me
        if me is None and not self._memory.ended:
            with trio.CancelScope() as self._asking:
                me = self._memory.me = await self._patiently(self._introduce)
        if not self._memory.registered and not self._memory.ended:
            self.start_soon(self._register)
        return me

    async def _join_albums(self) -> float | None:
        """Pass on complete albums, including albums that an earlier process stored and did not pass on."""
        try:
            return await self._intake.join_albums()
        except ActorError as error:
            logger.info("albums wait for the journal: %r", error)
            return ALBUMS_AGAIN_S

    async def _introduce(self) -> Me:
        with trio.fail_after(self._grace_s):
            return await introduce(self._bot, self._memory.variable)

    async def _register(self) -> None:
        who = self._intake.who
        self._memory.registered = await register_commands(self._bot, who.language, who.default)

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `call`, retrying as often as necessary.

        Raises:
            TokenRefused: No attempt can succeed.
        """
        attempt = refusals = 0
        while True:
            try:
                found = await call()
            except InvalidToken as error:
                refusals += 1
                if refusals > REFUSALS:
                    raise TokenRefused(self._memory.variable) from None
                await self._wait(attempt, in_words(error))
            except trio.TooSlowError:
                await self._wait(attempt, in_words(TimedOut()))
            except TelegramError as error:
                if isinstance(error, Conflict) and about_webhook(error):
                    await self._resolve_conflict()
                least_s = wait_of(error) if isinstance(error, RetryAfter) else 0.0
                await self._wait(attempt, in_words(error), least_s)
            else:
                if attempt:
                    logger.info("Telegram answers again")
                return found
            attempt += 1

    async def _wait(self, attempt: int, trouble: str, least_s: float = 0.0, most_s: float = math.inf) -> None:
        """Pause before the next attempt. The pause grows with each failed attempt."""
        if attempt == 0 or trouble != self._trouble:
            logger.warning("no updates: %s", trouble)
        wait_s = max(least_s, self._waits.delay_s(attempt) * self._random.uniform(0.5, 1.0))
        wait_s = min(wait_s, most_s)
        self._trouble, self._waits_until = trouble, trio.current_time() + wait_s
        try:
            await trio.sleep(wait_s)
        finally:
            self._waits_until = None

    async def _resolve_conflict(self) -> None:
        """Handle a conflict with a webhook that receives the bot's updates. The base class does nothing."""
