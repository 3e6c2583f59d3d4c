"""The poller: receives updates from Telegram, stores them, and only then confirms them.

The poller never waits for a chat, because the inbox passes the stored messages on to the chats.
"""

import logging
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import trio
from telegram import Bot
from telegram.error import TelegramError

from actors import Backoff, answers
from rumi.channels.telegram.api.bot import Me, TokenRefused, in_words
from rumi.channels.telegram.messages import PollerMessage, StopPolling
from rumi.channels.telegram.receiving.intake import Intake
from rumi.channels.telegram.receiving.receiver import WAITS, Receiver, ReceiverMemory
from rumi.channels.telegram.receiving.updates import RawUpdate, ends_in_album, number_of, raw_updates
from rumi.errors import NotTaken

logger = logging.getLogger(__name__)

CONFIRM_S: Final = 2.0
"""Time limit of the last confirmation, in seconds. If it fails, the next process receives some known updates
again.
"""

ALBUM_PAUSE_S: Final = 0.2
ALBUM_LOOKS: Final = 10
"""The pause before an extra poll for the remaining messages of an album, in seconds, and the most polls.

The messages of an album are separate updates and may arrive one after another. While the last received update
belongs to an album, the poller polls for more. The chat joins what comes later (`rumi.chats.pieces`).
"""

LEAST_POLL_S: Final = 0.1
"""Minimum duration of a poll without updates, in seconds, for a server that answers immediately."""


REST_S: Final = 0.25
"""Interval at which a process checks which worker polls, in seconds."""

ELSEWHERE: Final = "another worker polls"

UNSTORED_S: Final = 1.0
"""Maximum pause before unstored updates are fetched and stored again, in seconds. A later `/stop` is then
fetched too.
"""


class Poller(Receiver[PollerMessage]):
    """Polls until a `StopPolling` message ends polling permanently, even for a restarted actor."""

    def __init__(
        self,
        bot: Bot,
        intake: Intake,
        memory: ReceiverMemory,
        *,
        random: Random,
        poll_s: float = 25.0,
        grace_s: float = 10.0,
        waits: Backoff = WAITS,
        polls: Callable[[], bool] = lambda: True,
    ) -> None:
        """Create the actor.

        `poll_s` is the maximum time for which Telegram may delay the response to a poll. A poll without a
        response is abandoned `grace_s` seconds later. `polls` returns True if this process is the one that
        polls.
        """
        super().__init__(bot, intake, memory, random=random, grace_s=grace_s, waits=waits)
        self._poll_s = poll_s
        self._polls = polls
        self._unstored = 0  # consecutive failures to store the updates
        self._offset: int | None = None
        self._repeated = 0
        self._done = trio.Event()

    # Life

    async def started(self) -> None:
        """Start to poll, unless polling has ended permanently.

        Raises:
            TokenRefused: An earlier incarnation found that Telegram refuses the token.
        """
        if self._memory.refused:
            raise TokenRefused(self._memory.variable)
        if self._memory.ended:
            self._done.set()
        else:
            self.start_soon(self._join_albums)  # parts that a previously used webhook left
            self.start_soon(self._poll)

    @answers(StopPolling)
    async def stop_polling(self, message: StopPolling) -> None:
        """Accept no more updates; return when all received updates are stored."""
        self._memory.ended = True
        self._asking.cancel()
        await self._done.wait()

    async def stopped(self, reason: str) -> None:
        """Confirm the stored updates, within a time limit."""
        if reason != "crashed":
            await self._confirm()

    # Polling

    async def _poll(self) -> None:
        try:
            await self._take()
        except TokenRefused:
            self._memory.refused = True
            raise

    async def _take(self) -> None:
        me = await self._introduced()
        self.start_soon(self._give_way)  # only now: it may cancel a poll, but not the introduction
        while me is not None and not self._memory.ended:
            updates: Sequence[RawUpdate] = ()
            # `StopPolling` cancels only the poll, so received updates are always stored.
            with trio.CancelScope() as self._asking:
                updates = await self._patiently(self._updates) if self._polls() else await self._rest()
            if updates:
                await self._try_to_store(updates, me)
        self._done.set()
        await self._confirm()

    async def _give_way(self) -> None:
        """Cancel the poll when another worker takes over polling."""
        while True:
            await trio.sleep(REST_S)
            if not self._polls() and self._doing == self.takes:
                self._asking.cancel()

    async def _rest(self) -> Sequence[RawUpdate]:
        """Return no updates after a pause, because another worker polls."""
        self._doing, self._offset = ELSEWHERE, None
        await trio.sleep(REST_S)
        self._doing = self.takes
        return ()

    async def _updates(self) -> Sequence[RawUpdate]:
        """Return the next updates, in order; empty if a poll brought none."""
        if self._repeated > 1:  # a restart explains one repeated batch, but not several
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
        """Make one poll. It also confirms all updates before the offset, so that they do not arrive again."""
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
        """Store the batch. If nothing can be stored now, leave the batch unconfirmed at Telegram.

        Telegram then delivers the batch again together with newer updates, so that Rumi sees a later `/stop`.
        """
        try:
            await self._store(updates, me)
        except NotTaken as error:
            self._doing = self.takes
            with trio.CancelScope() as self._asking:
                if not self._memory.ended:
                    await self._wait(self._unstored, error.message, most_s=UNSTORED_S)
            self._unstored += 1
        else:
            self._unstored = 0

    async def _store(self, updates: Sequence[RawUpdate], me: Me) -> None:
        """Store the batch in one transaction; only then may its updates be confirmed.

        Raises:
            NotTaken: Nothing can be stored now. The senders got a notice.
            RumiError: Nothing was stored, so the same updates will arrive again.
        """
        self._doing = f"storing {len(updates)} updates"
        new = await self._intake.take(updates, me, self.start_soon)
        self._offset = max(map(number_of, updates)) + 1
        self._repeated = 0 if new else self._repeated + 1
        self._doing = self.takes

    async def _confirm(self) -> None:
        """Confirm the last stored updates, once and within a time limit, so that they do not arrive again."""
        offset, self._offset = self._offset, None
        if offset is None:
            return
        # Shielded: the offset is cleared already, so `stopped` would not repeat a cancelled confirmation.
        with trio.move_on_after(CONFIRM_S, shield=True):
            try:
                await raw_updates(self._bot, offset=offset, wait_s=0, read_timeout_s=CONFIRM_S, limit=1)
            except TelegramError as error:
                logger.info("the last updates were not confirmed: %s", in_words(error))

    async def _resolve_conflict(self) -> None:
        """Remove the webhook that receives the bot's updates. The next poll gets the queued updates."""
        logger.warning("this bot had a webhook; it is removed, for updates are polled here")
        try:
            with trio.move_on_after(self._grace_s):
                await self._bot.delete_webhook(drop_pending_updates=False)
        except TelegramError as error:
            logger.warning("the webhook could not be removed: %s", in_words(error))
