"""The webhook: Telegram delivers updates to the listener. Each is stored before the delivery is answered.

Any number of processes may take the deliveries of one bot: all compute the same secret, and the journal knows
each update by its number.
"""

import hashlib
import hmac
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Any, Final
from urllib.parse import urlsplit

import trio
from telegram import Bot

from actors import ActorError, ActorRef, ActorStopped, Backoff, MailboxFull, answers
from rumi.channels.telegram.api.bot import TokenRefused
from rumi.channels.telegram.messages import AlbumsCame, Deliver, StopPolling, WebhookMessage
from rumi.channels.telegram.receiving.fields import OddField
from rumi.channels.telegram.receiving.intake import Intake
from rumi.channels.telegram.receiving.receiver import WAITS, Receiver, ReceiverMemory
from rumi.channels.telegram.receiving.updates import ALLOWED, RawUpdate, ends_in_album, number_of
from rumi.errors import RumiError

logger = logging.getLogger(__name__)

PATH: Final = "/telegram"
"""Where the listener takes updates."""

SECRET_HEADER: Final = "x-telegram-bot-api-secret-token"  # noqa: S105  # a header's name
MOST_BYTES: Final = 1_000_000
"""The largest update; Telegram's are far smaller."""

AT_ONCE: Final = 40
"""How many deliveries Telegram makes at once, those of one chat one after the other."""

ALBUMS_LEFT_S: Final = 30.0
"""How often albums are looked for whose process was killed."""

LOOK_S: Final = 60.0
"""How often Telegram is asked if the webhook is still this one, and if it reaches it."""


def secret_of(token: str) -> str:
    """Return the secret that Telegram sends with each update: the same in all processes of a bot."""
    return hmac.new(token.encode(), b"rumi telegram webhook", hashlib.sha256).hexdigest()


def with_path(url: str, bot: str = "") -> str:
    """Return the address for Telegram: without a path of its own it gets that of the listener.

    The name of a bot that is not the first is the last part of its path.
    """
    if not urlsplit(url).path.strip("/"):
        url = url.rstrip("/") + PATH
    return f"{url.rstrip('/')}/{bot}" if bot else url


class Deliveries:
    """What the listener hands on to the webhook's actor: a `rumi.channels.http.listener_state.Taker`."""

    most_bytes = MOST_BYTES

    def __init__(self, bot: str = "") -> None:
        self.path = f"{PATH}/{bot}" if bot else PATH
        self.secret = ""
        self.actor: ActorRef[WebhookMessage] | None = None

    def refuses(self, headers: Mapping[str, str]) -> int:
        """Return 401 without the secret, 403 with a wrong one, else 0."""
        sent_secret = headers.get(SECRET_HEADER)
        if sent_secret is None:
            return 401
        right = bool(self.secret) and hmac.compare_digest(sent_secret.encode(), self.secret.encode())
        return 0 if right else 403

    def albums_came(self) -> None:
        """Tell the actor that other workers have stored parts of albums. Never waits."""
        if self.actor is not None:
            with suppress(MailboxFull, ActorStopped):
                self.actor.tell_nowait(AlbumsCame())

    async def take(self, body: bytes) -> bool | None:
        """Have an update stored. Return False if it cannot be stored now, None if it is not an update."""
        update = _update_in(body)
        if update is None:
            return None
        if self.actor is None:
            return False
        try:
            return await self.actor.ask(Deliver(update))
        except ActorError:
            return False


def _update_in(body: bytes) -> RawUpdate | None:
    try:
        found = json.loads(body)
        return found if isinstance(found, dict) and number_of(found) > 0 else None
    except (ValueError, RecursionError, OddField):
        return None


class Webhook(Receiver[WebhookMessage]):
    """Tells Telegram where to deliver, and stores what is delivered."""

    takes = "waits for deliveries"
    concurrency = AT_ONCE

    def __init__(
        self,
        bot: Bot,
        intake: Intake,
        memory: ReceiverMemory,
        *,
        url: str,
        secret: str,
        random: Random,
        grace_s: float = 10.0,
        waits: Backoff = WAITS,
    ) -> None:
        """`url` is where Telegram delivers."""
        super().__init__(bot, intake, memory, random=random, grace_s=grace_s, waits=waits)
        self._url = url
        self._secret = secret
        self._set = False
        self._waiting = 0  # updates that Telegram keeps, as it said last
        self._missed = ""  # why Telegram could not deliver, as it said last
        self._parts = trio.Event()  # of an album have come
        self._in_hand = 0
        self._idle = trio.Event()
        self._idle.set()

    async def started(self) -> None:
        """Begin to tell Telegram, unless receiving has ended for good.

        Raises:
            TokenRefused: An earlier incarnation found that the token is refused.
        """
        if self._memory.refused:
            raise TokenRefused(self._memory.variable)
        if not self._memory.ended:
            self.start_soon(self._keep_set)
            self.start_soon(self._keep_joining)

    async def receive(self, message: WebhookMessage) -> None:
        """Look for albums that are complete."""
        if isinstance(message, AlbumsCame):
            self._parts.set()

    def activity(self) -> str:
        """Return the description for `rumi status`."""
        missed = f" (Telegram says: {self._missed})" if self._missed and not self._memory.ended else ""
        return super().activity() + missed

    def metrics(self) -> Mapping[str, object]:
        """Return the figures of a receiver, and how many updates wait at Telegram."""
        return {**super().metrics(), "waiting": self._waiting, "set": self._set}

    @answers(Deliver)
    async def deliver(self, message: Deliver) -> bool:
        """Store an update. Return False if it cannot be stored now; then Telegram delivers it again."""
        me = self._memory.me
        if me is None or self._memory.ended:
            return False
        self._in_hand += 1
        self._idle = trio.Event() if self._in_hand == 1 else self._idle
        try:
            await self._intake.take([message.update], me, self.start_soon, apart=True)
        except RumiError as error:
            logger.warning("an update was not stored: %s", error.message)
            return False
        finally:
            self._in_hand -= 1
            if not self._in_hand:
                self._idle.set()
        if ends_in_album([message.update]):
            self._parts.set()
        return True

    @answers(StopPolling)
    async def stop_polling(self, message: StopPolling) -> None:
        """Take no more updates; returns when those in hand are stored. The webhook stays: updates wait at
        Telegram for the next process, or go to another one.
        """
        self._memory.ended = True
        self._asking.cancel()
        await self._idle.wait()

    async def _keep_set(self) -> None:
        try:
            if await self._introduced() is None:
                return
            while not self._memory.ended:
                with trio.CancelScope() as self._asking:
                    await self._patiently(self._set_unless_set)
                    await trio.sleep(LOOK_S)
        except TokenRefused:
            self._memory.refused = True
            raise

    async def _keep_joining(self) -> None:
        """Hand on albums when they are complete; now and then also those of a process that was killed."""
        while True:
            self._parts = trio.Event()
            next_s = await self._join_albums()
            with trio.move_on_after(ALBUMS_LEFT_S if next_s is None else next_s):
                await self._parts.wait()

    async def _set_unless_set(self) -> None:
        """Set the webhook at the start, and again if it has been changed."""
        with trio.fail_after(self._grace_s):
            if self._set:
                info: Any = await self._bot.get_webhook_info()
                self._waiting = info.pending_update_count
                self._missed = "" if info.last_error_message is None else info.last_error_message
                if info.url == self._url:
                    return
                logger.warning("this bot's webhook was changed; it is set again")
            await self._bot.set_webhook(
                self._url,
                secret_token=self._secret,
                allowed_updates=list(ALLOWED),
                max_connections=AT_ONCE,
            )
            self._set = True
            logger.info("Telegram delivers updates to the webhook")
