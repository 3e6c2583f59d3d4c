"""The webhook: stores each update that Telegram delivers to the listener before answering the delivery.

Any number of processes may accept the deliveries of one bot: all processes compute the same secret, and the
journal stores each update only once, by its number.
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
from typing_extensions import override

from actors import ActorError, ActorRef, ActorStopped, Backoff, MailboxFull, answers
from rumi.channels.takers import NOT_STORED, Answer
from rumi.channels.telegram.api.bot import TokenRefused
from rumi.channels.telegram.messages import AlbumsCame, Deliver, StopPolling, WebhookMessage
from rumi.channels.telegram.receiving.intake import Intake
from rumi.channels.telegram.receiving.receiver import WAITS, Receiver, ReceiverMemory
from rumi.channels.telegram.receiving.updates import ALLOWED, OddField, RawUpdate, ends_in_album, number_of
from rumi.errors import RumiError

logger = logging.getLogger(__name__)

PATH: Final = "/telegram"
"""URL path on the listener that accepts updates."""

SECRET_HEADER: Final = "x-telegram-bot-api-secret-token"  # noqa: S105  # a header's name
MOST_BYTES: Final = 1_000_000
"""Maximum size of an update, in bytes. Telegram's updates are far smaller."""

AT_ONCE: Final = 40
"""Maximum number of concurrent deliveries. Telegram delivers the updates of a single chat one by one."""

ALBUMS_LEFT_S: Final = 30.0
"""Interval of checks for albums that a killed process left behind unfinished, in seconds."""

LOOK_S: Final = 60.0
"""Interval at which the webhook asks Telegram whether it is still registered and reachable, in seconds."""


def secret_of(token: str) -> str:
    """Return the secret that Telegram sends with each update.

    All processes of a bot compute the same secret.
    """
    return hmac.new(token.encode(), b"rumi telegram webhook", hashlib.sha256).hexdigest()


def with_path(url: str, bot: str = "") -> str:
    """Return the URL to register with Telegram. The listener's `PATH` is added to a URL without a path.

    The name of an additional bot is appended as the last segment of the path.
    """
    if not urlsplit(url).path.strip("/"):
        url = url.rstrip("/") + PATH
    return f"{url.rstrip('/')}/{bot}" if bot else url


class Deliveries:
    """Forwards deliveries from the listener to the webhook's actor.

    Implements the listener's interface for delivery handlers, `rumi.channels.http.listener_state.Taker`.
    """

    most_bytes = MOST_BYTES

    def __init__(self, bot: str = "") -> None:
        self.path = f"{PATH}/{bot}" if bot else PATH
        self.secret = ""
        self.actor: ActorRef[WebhookMessage] | None = None

    def refuses(self, headers: Mapping[str, str]) -> int:
        """Return 401 if the secret is missing, 403 if it is wrong, and 0 if it is correct."""
        sent_secret = headers.get(SECRET_HEADER)
        if sent_secret is None:
            return 401
        # Before `connect` there is no secret: an empty header must not match it.
        right = bool(self.secret) and hmac.compare_digest(sent_secret.encode(), self.secret.encode())
        return 0 if right else 403

    def albums_came(self) -> None:
        """Notify the actor that other workers stored album parts. Does not block."""
        if self.actor is not None:
            with suppress(MailboxFull, ActorStopped):
                self.actor.tell_nowait(AlbumsCame())

    async def take(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Store an update. If it cannot be stored now, Telegram delivers it again."""
        update = _update_in(body)
        if update is None:
            return Answer(400, "This is not an update.")
        if self.actor is None:
            return NOT_STORED
        try:
            return Answer(200) if await self.actor.ask(Deliver(update)) else NOT_STORED
        except ActorError:
            return NOT_STORED


def _update_in(body: bytes) -> RawUpdate | None:
    try:
        found = json.loads(body)
        return found if isinstance(found, dict) and number_of(found) > 0 else None
    except (ValueError, RecursionError, OddField):
        return None


class Webhook(Receiver[WebhookMessage]):
    """Registers the webhook with Telegram, and stores the delivered updates."""

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
        """Create the actor. Telegram delivers to `url`, and sends `secret` with each delivery."""
        super().__init__(bot, intake, memory, random=random, grace_s=grace_s, waits=waits)
        self._url = url
        self._secret = secret
        self._set = False
        self._waiting = 0  # updates that are queued at Telegram, as last reported
        self._missed = ""  # why Telegram could not deliver, as last reported
        self._parts = trio.Event()  # set when album parts are stored
        self._in_hand = 0
        self._idle = trio.Event()
        self._idle.set()

    async def started(self) -> None:
        """Start to register the webhook, unless receiving has ended permanently.

        Raises:
            TokenRefused: An earlier incarnation found that Telegram refuses the token.
        """
        if self._memory.refused:
            raise TokenRefused(self._memory.variable)
        if not self._memory.ended:
            self.start_soon(self._keep_set)
            self.start_soon(self._keep_joining)

    @override
    async def receive(self, message: WebhookMessage) -> None:
        """Handle the notification of stored album parts: check whether albums are complete."""
        if isinstance(message, AlbumsCame):
            self._parts.set()

    @override
    def activity(self) -> str:
        missed = f" (Telegram says: {self._missed})" if self._missed and not self._memory.ended else ""
        return super().activity() + missed

    @override
    def metrics(self) -> Mapping[str, object]:
        """Return the metrics of every receiver, and the number of updates queued at Telegram."""
        return {**super().metrics(), "waiting": self._waiting, "set": self._set}

    @answers(Deliver)
    async def deliver(self, message: Deliver) -> bool:
        """Store an update. Return False if it cannot be stored now, so that Telegram delivers it again."""
        # Without the bot's identity, mentions and commands for it cannot be recognised.
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
        """Accept no more updates; return when the updates in progress are stored.

        The webhook stays registered: Telegram keeps new updates for the next process, or delivers them to
        another worker.
        """
        # Before the wait: `deliver` refuses from now on, so the number in progress only falls.
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
        """Pass on complete albums; at intervals, also albums that a killed process did not pass on."""
        while True:
            # Before the check: parts that are stored during it set the new event.
            self._parts = trio.Event()
            next_s = await self._join_albums()
            with trio.move_on_after(ALBUMS_LEFT_S if next_s is None else next_s):
                await self._parts.wait()

    async def _set_unless_set(self) -> None:
        """Register the webhook at startup, and again if someone changed the registration."""
        with trio.fail_after(self._grace_s):
            if self._set:
                info: Any = await self._bot.get_webhook_info()
                self._waiting = info.pending_update_count
                self._missed = "" if info.last_error_message is None else info.last_error_message
                if info.url == self._url and set(info.allowed_updates or ()) == set(ALLOWED):
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
