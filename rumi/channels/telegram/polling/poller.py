"""The poller: receives updates from Telegram, stores them, and only then confirms them.

It waits for no chat: the inbox hands the stored messages on.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Protocol, TypeVar

import trio
from telegram import Bot
from telegram.error import Conflict, InvalidToken, RetryAfter, TelegramError, TimedOut

from actors import Actor, Backoff, answers
from rumi import texts
from rumi.channels.telegram.address import Address
from rumi.channels.telegram.api.bot import Me, TokenRefused, about_webhook, in_words, introduce, wait_of
from rumi.channels.telegram.messages import PollerMessage, Say, StopPolling
from rumi.channels.telegram.moves import Moves, moves_in
from rumi.channels.telegram.polling.presses import Presses, read_presses
from rumi.channels.telegram.polling.reading import Stranger, Who, read_batch
from rumi.channels.telegram.polling.registration import register_commands
from rumi.channels.telegram.polling.strangers import Strangers
from rumi.channels.telegram.polling.updates import RawUpdate, ends_in_album, number_of, raw_updates, update_of
from rumi.errors import NotTaken
from rumi.journal import Incoming

logger = logging.getLogger(__name__)
T = TypeVar("T")

WAITS: Final = Backoff(first_s=2.0, factor=2.0, cap_s=30.0)
"""Seconds between attempts, reduced by up to a half at random, so that two programs do not keep colliding."""

REFUSALS: Final = 3
"""How often a token that worked a moment ago is tried again: a server under repair may refuse anything."""

CONFIRM_S: Final = 2.0
"""How long the last confirmation may take: without it the next process receives a few known updates again."""

ALBUM_PAUSE_S: Final = 0.5
ALBUM_LOOKS: Final = 4
"""The messages of an album are separate updates and may come one after the other. While the last waiting
update belongs to one, the poller asks for more, at most this often.
"""

LEAST_POLL_S: Final = 0.1
"""The minimum time between two polls, for a server that answers at once with nothing."""


UNSTORED_S: Final = 1.0
"""How soon the poller tries again to store updates, and looks for a later `/stop`."""


class Accepts(Protocol):
    """Stores messages: `rumi.chats.Inbox`."""

    async def accept_all(self, messages: Sequence[Incoming]) -> list[bool]:
        """Store them all, or raise. Return for each: True if it is new."""
        ...


@dataclass(slots=True)
class PollerMemory:
    """State that outlives the poller's incarnations. The maker of the poller makes it once.

    `me` is the bot's identity, once it is known; `ended`: no more updates are taken; `refused`: Telegram does
    not know the token, and no restart would help; `registered`: the commands are registered.
    """

    me: Me | None = None
    ended: bool = False
    refused: bool = False
    registered: bool = False


class Poller(Actor[PollerMessage]):
    """Polls until it is told to stop, and never again after that, also after a restart."""

    def __init__(
        self,
        bot: Bot,
        inbox: Accepts,
        strangers: Strangers,
        presses: Presses,
        who: Who,
        memory: PollerMemory,
        *,
        moves: Moves,
        hears: bool,
        random: Random,
        say: Callable[[Say], object] = lambda words: None,
        poll_s: float = 25.0,
        grace_s: float = 10.0,
        waits: Backoff = WAITS,
    ) -> None:
        """`poll_s` is how long Telegram may hold an answer back; `grace_s` later a poll is abandoned.

        `hears`: voice messages can be transcribed. `say` sends words to a chat, if that is possible at once.
        """
        self._bot = bot
        self._inbox = inbox
        self._strangers = strangers
        self._presses = presses
        self._who = who
        self._memory = memory
        self._hears = hears
        self._random = random
        self._moves = moves
        self._say = say
        self._unstored = 0  # failed attempts in a row to store the updates
        self._told: set[str] = set()  # chats that got a notice
        self._poll_s = poll_s
        self._grace_s = grace_s
        self._waits = waits
        self._offset: int | None = None
        self._repeated = 0
        self._asking = trio.CancelScope()
        self._done = trio.Event()
        self._doing = "polling"
        self._last: float | None = None
        self._waits_until: float | None = None
        self._trouble = ""

    # Life

    async def started(self) -> None:
        """Begin to poll, unless polling has ended for good.

        Raises:
            TokenRefused: An earlier incarnation found that the token is refused.
        """
        if self._memory.refused:
            raise TokenRefused
        if self._memory.ended:
            self._done.set()
        else:
            self.start_soon(self._poll)

    @answers(StopPolling)
    async def stop_polling(self, message: StopPolling) -> None:
        """Take no more updates; returns when what came is stored."""
        self._memory.ended = True
        self._asking.cancel()
        await self._done.wait()

    async def stopped(self, reason: str) -> None:
        """Confirm the stored updates, within a time limit."""
        if reason != "crashed":
            await self._confirm()

    def activity(self) -> str:
        """Return the description for `rumi status`."""
        if self._memory.ended:
            return "takes no more updates"
        now = trio.current_time()
        if self._waits_until is not None:
            return f"waits {max(0.0, self._waits_until - now):.0f} s: {self._trouble}"
        if self._memory.me is None:
            return "asks Telegram who the bot is"
        last = "no update yet" if self._last is None else f"last update {now - self._last:.0f} s ago"
        return f"{self._doing}, {last}"

    def metrics(self) -> Mapping[str, object]:
        """Return when the last update came, and the error that prevents more."""
        last_s = None if self._last is None else round(trio.current_time() - self._last, 3)
        waits = self._waits_until is not None
        return {"last_update_s": last_s, "trouble": self._trouble if waits else None}

    # Polling

    async def _poll(self) -> None:
        try:
            await self._take()
        except TokenRefused:
            self._memory.refused = True
            raise

    async def _take(self) -> None:
        me = self._memory.me
        if me is None and not self._memory.ended:
            with trio.CancelScope() as self._asking:
                me = self._memory.me = await self._patiently(self._introduce)
        if not self._memory.registered and not self._memory.ended:
            self.start_soon(self._register)
        while me is not None and not self._memory.ended:
            updates: Sequence[RawUpdate] = ()
            # The end cancels only the poll: received updates are stored.
            with trio.CancelScope() as self._asking:
                updates = await self._patiently(self._updates)
            if updates:
                await self._try_to_store(updates, me)
        self._done.set()
        await self._confirm()

    async def _introduce(self) -> Me:
        with trio.fail_after(self._grace_s):
            return await introduce(self._bot)

    async def _register(self) -> None:
        self._memory.registered = await register_commands(self._bot, self._who.language, self._who.default)

    async def _updates(self) -> Sequence[RawUpdate]:
        """Return the next updates, in order; none if none came within a poll."""
        if self._repeated > 1:  # a restart can only cause this once
            await self._wait(self._repeated - 2, "Telegram repeats what was confirmed")
        began = trio.current_time()
        updates = await self._ask(self._poll_s)
        if not updates:
            await trio.sleep(max(0.0, began + LEAST_POLL_S - trio.current_time()))
        for _ in range(ALBUM_LOOKS):
            if not ends_in_album(updates):
                break
            await trio.sleep(ALBUM_PAUSE_S)
            more = await self._ask(0)
            if len(more) <= len(updates):
                break
            updates = more
        return updates

    async def _ask(self, wait_s: float) -> Sequence[RawUpdate]:
        """Make one poll. It confirms the updates below the offset, which do not come again."""
        limit_s = wait_s + self._grace_s
        with trio.fail_after(limit_s):
            updates = await raw_updates(self._bot, offset=self._offset, wait_s=wait_s, read_timeout_s=limit_s)
        # After a quiet week Telegram numbers updates from a new random start. An old offset could then be
        # above the next numbers, and confirm them unread. So the offset is sent until a poll with it returns
        # nothing, and then dropped: without an offset, the oldest unconfirmed update comes first.
        if not updates:
            self._offset = None
        return updates

    async def _try_to_store(self, updates: Sequence[RawUpdate], me: Me) -> None:
        """Store the batch. If nothing can be written now, the batch stays at Telegram, unconfirmed, and is
        received again together with newer updates, so that a `/stop` is seen.
        """
        try:
            await self._store(updates, me)
        except NotTaken as error:
            self._doing = "polling"
            with trio.CancelScope() as self._asking:
                if not self._memory.ended:
                    await self._wait(self._unstored, error.message, most_s=UNSTORED_S)
            self._unstored += 1
        else:
            self._unstored = 0
            self._told.clear()

    async def _store(self, updates: Sequence[RawUpdate], me: Me) -> None:
        """Store the batch in one step; only then may its numbers be confirmed.

        Raises:
            NotTaken: Nothing can be stored now. The senders got a notice.
            RumiError: Nothing was stored, so the same updates come again.
        """
        self._doing = f"storing {len(updates)} updates"
        moves = moves_in(updates)
        for move in moves.values():  # all of them first: messages may come in any order
            self._moves.learn(*move)
        read = read_batch(updates, me, self._who, self._moves, hears=self._hears)
        moved = {number: (Address(old).chat, Address(new).chat) for number, (old, new) in moves.items()}
        numbers = list(dict.fromkeys(number_of(update) for update in updates))
        messages = [
            replace(
                Incoming(update_of(number)) if isinstance(one, Stranger) else one, moved=moved.get(number)
            )
            for number, one in zip(numbers, read, strict=True)
        ]
        presses = read_presses(updates, self._who, self._moves.here)
        raw = {number_of(update): update for update in updates}
        try:
            new = await self._inbox.accept_all(messages)
        except NotTaken as error:
            for each in messages:
                self._tell_not_taken(each, error)
            raise
        for number, one, is_new in zip(numbers, read, new, strict=True):
            if is_new and number in presses:
                self._presses.take(presses[number], self.start_soon)
            elif (
                is_new and not self._presses.react(raw[number], one, self._who) and isinstance(one, Stranger)
            ):
                self._strangers.meet(one)
        self._offset = max(numbers) + 1
        self._repeated = 0 if any(new) else self._repeated + 1
        self._last = trio.current_time()
        self._doing = "polling"

    def _tell_not_taken(self, message: Incoming, error: NotTaken) -> None:
        """Tell a chat once that its message waits at Telegram."""
        if message.chat and message.chat not in self._told:
            self._told.add(message.chat)
            words = texts.kept_at_telegram(message.language or self._who.default, error.trouble)
            self._say(Say(message.chat, words, message.origin or None))

    async def _confirm(self) -> None:
        """Confirm the last stored updates, once and within a time limit, so that they do not come again."""
        offset, self._offset = self._offset, None
        if offset is None:
            return
        with trio.move_on_after(CONFIRM_S, shield=True):
            try:
                await raw_updates(self._bot, offset=offset, wait_s=0, read_timeout_s=CONFIRM_S, limit=1)
            except TelegramError as error:
                logger.info("the last updates were not confirmed: %s", in_words(error))

    # Patience

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the call, with as many attempts as necessary.

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
                    raise TokenRefused from None
                await self._wait(attempt, in_words(error))
            except trio.TooSlowError:
                await self._wait(attempt, in_words(TimedOut()))
            except TelegramError as error:
                if isinstance(error, Conflict) and about_webhook(error):
                    await self._remove_webhook()
                least_s = wait_of(error) if isinstance(error, RetryAfter) else 0.0
                await self._wait(attempt, in_words(error), least_s)
            else:
                if attempt:
                    logger.info("Telegram answers again")
                return found
            attempt += 1

    async def _wait(self, attempt: int, trouble: str, least_s: float = 0.0, most_s: float = math.inf) -> None:
        """Wait before the next attempt, longer each time."""
        if attempt == 0 or trouble != self._trouble:
            logger.warning("no updates: %s", trouble)
        wait_s = max(least_s, self._waits.delay_s(attempt) * self._random.uniform(0.5, 1.0))
        wait_s = min(wait_s, most_s)
        self._trouble, self._waits_until = trouble, trio.current_time() + wait_s
        try:
            await trio.sleep(wait_s)
        finally:
            self._waits_until = None

    async def _remove_webhook(self) -> None:
        """Remove a webhook that sent the updates elsewhere. Waiting updates are kept, and come to us."""
        logger.warning("this bot had a webhook; it is removed, for updates are polled here")
        try:
            with trio.move_on_after(self._grace_s):
                await self._bot.delete_webhook(drop_pending_updates=False)
        except TelegramError as error:
            logger.warning("the webhook could not be removed: %s", in_words(error))
