"""Delivers one final reply: in parts, completely, and no part twice as far as that can be known."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random

import trio
from telegram import InlineKeyboardButton, InlineKeyboardMarkup
from telegram.error import ChatMigrated, InvalidToken, RetryAfter, TelegramError

from actors import ActorError, ActorRef
from rumi.channels.telegram.api.bot import in_words, wait_of
from rumi.channels.telegram.api.refusals import RefusalReason, refusal_of
from rumi.channels.telegram.formatting.characters import LIMIT_UNITS, units
from rumi.channels.telegram.formatting.cutting import cut_plain
from rumi.channels.telegram.formatting.reply import NOTHING, MessagePart, format_reply
from rumi.channels.telegram.sending.destination import Destination, Sent
from rumi.channels.telegram.sending.preview import Preview
from rumi.platform.grace import with_grace
from rumi.store.journal.inbox import Previewed
from rumi.store.journal.outbox import Delivered, PartSent
from rumi.store.journal.records import StoredReply

logger = logging.getLogger(__name__)

Rest = Callable[[float, str], Awaitable[None]]
"""Waits for that many seconds, and gives the status the reason."""

LIMIT = "Telegram's limit"
"""The status text for a wait that Telegram's limit causes."""

SHORTEST = 500
"""If a text of this length is refused, the reason is not its length."""


LONG = 8_000
"""A longer text is formatted in a thread; a shorter one takes some hundredths of a second."""

IN_A_ROW = 2
"""So many buttons stand beside each other."""

REMOVALS = 3
"""How often the deletion of a preview that could not become its reply is tried again."""


class ChatUnreachable(Exception):
    """The chat cannot be reached any more. The text gives the reason, without secrets."""


class Unsendable(Exception):
    """Telegram refuses this reply in every form. The text gives the reason, without secrets."""


@dataclass(frozen=True, slots=True)
class DeliveryTimes:
    """The waiting times of a delivery, in seconds.

    After network errors it tries again after 1, 2, 4… seconds, at most `most_s`, without a limit of attempts.
    `grace_s` is how long a running request may continue when the sender must end, `mark_s` how long the
    journal has to note a sent part, and `token_s` the pause when the token is refused.
    """

    first_s: float = 1.0
    most_s: float = 60.0
    grace_s: float = 4.0
    mark_s: float = 3.0
    token_s: float = 60.0

    def backoff_s(self, failures: int, random: Random) -> float:
        """Return the pause after that many failures in a row, with a random part so that chats do not
        retry at once.
        """
        longest = min(self.most_s, self.first_s * 2.0 ** min(failures - 1, 20))
        return longest * random.uniform(0.5, 1.0)


class Delivery:
    """Delivers a reply to its chat.

    `bring` may be called again after an error: it continues where it was, and does not send again what
    Telegram accepted.
    """

    def __init__(
        self,
        to: Destination,
        journal: ActorRef[Delivered | PartSent | Previewed],
        reply: StoredReply,
        preview: Preview | None,
        rest: Rest,
        random: Random,
        patience: DeliveryTimes,
    ) -> None:
        self._to = to
        self._journal = journal
        self._reply = reply
        self._preview = preview
        self._rest = rest
        self._random = random
        self._patience = patience
        self._origin = (reply.origin or None) if to.group else None
        self._failures = 0
        self._taken = 0  # parts that Telegram has
        self._recorded = 0  # parts of which the journal knows that
        self._parts: Sequence[MessagePart] = ()
        self._pieces: deque[MessagePart] = deque()  # the rest of the current part
        self._shown: Sent | None = None  # the message that the first piece is edited into
        self._left: Sent | None = None  # a preview that is still to be removed
        self._ready = False

    async def bring(self) -> None:
        """Send the rest of the reply, and mark it.

        Raises:
            Gone: Nothing can be sent to this chat any more.
            Unsendable: Telegram refuses this reply.
            ActorError: The journal could not note what was sent.
        """
        if not self._ready:
            self._parts = await self._format(self._reply.text)
            self._taken = self._recorded = min(self._reply.parts, len(self._parts))
            await self._claim()
            self._ready = True
        await self._mark()
        await self._send_rest()
        for attempt in range(1, REMOVALS + 1):
            if self._left is None:
                break
            await self._rest(self._patience.backoff_s(attempt, self._random), "a preview to be removed")
            await self._abandon(self._left)

    @property
    def sent(self) -> bool:
        """Return True if all of the reply is sent and marked."""
        return self._ready and self._recorded == len(self._parts)

    async def _format(self, text: str) -> Sequence[MessagePart]:
        """Return the text's parts. A thread formats a long text, so that it blocks no other chat."""
        if len(text) <= LONG:
            return _parts(text)
        return await trio.to_thread.run_sync(
            _parts, text, limiter=self._to.wire.formatting, abandon_on_cancel=True
        )

    async def _send_rest(self) -> None:
        while self._taken < len(self._parts):
            if not self._pieces:
                self._pieces.append(self._parts[self._taken])
            try:
                await self._to.turn()
                await with_grace(self._send_one, self._patience.grace_s)
            except TelegramError as error:
                await self._failed(error)
            else:
                self._failures = 0

    async def _claim(self) -> None:
        """Find the message in which the answer grew, if no edit of it can still be under way.

        An earlier sender may have left an edit under way whose answer will never come: its preview is
        deleted.
        """
        preview = self._preview
        if preview is not None:
            preview.end()
            await preview.ended()
        if self._taken:
            return
        if preview is not None and not preview.doubtful:
            self._shown = preview.shown
            return
        noted = self._reply.preview
        found = None if noted is None else self._to.found(abs(noted))
        shown = preview.shown if preview is not None else found
        if shown is not None and await self._abandon(shown) is RefusalReason.NOT_DELETABLE:
            self._shown = shown  # it is two days old: no call is still under way

    def _keyboard(self) -> InlineKeyboardMarkup | None:
        """Return the reply's buttons, which stand below its last message."""
        last = self._taken + 1 == len(self._parts) and len(self._pieces) == 1
        buttons = [
            InlineKeyboardButton(button.label, callback_data=button.id)
            for button in self._reply.buttons
            if last
        ]
        rows = [buttons[at : at + IN_A_ROW] for at in range(0, len(buttons), IN_A_ROW)]
        return InlineKeyboardMarkup(rows) if rows else None

    async def _send_one(self) -> None:
        """Send one piece, and mark the part if it was its last piece."""
        piece = self._pieces[0]
        if self._shown is not None:
            await self._to.edit(self._shown, piece, keyboard=self._keyboard())
        else:
            await self._to.send(piece, self._origin, keyboard=self._keyboard())
        self._shown = self._origin = None
        self._pieces.popleft()
        if not self._pieces:
            self._taken += 1
            await self._mark()

    async def _mark(self) -> None:
        """Tell the journal which parts Telegram has."""
        whole = self._taken == len(self._parts)
        if self._recorded == self._taken and not whole:
            return
        delivery = self._reply.delivery
        with trio.move_on_after(self._patience.mark_s) as bound:
            await self._journal.ask(Delivered(delivery) if whole else PartSent(delivery, self._taken))
            self._recorded = self._taken
        if bound.cancelled_caught:
            logger.warning("the journal did not note in time that a reply was sent")
            raise Unmarked(self._journal.path)

    async def _abandon(self, shown: Sent) -> RefusalReason | None:
        """Delete a preview: the reply becomes a new message. Return Telegram's refusal, if there is one."""
        self._shown = self._left = None
        try:
            await self._to.delete(shown)
        except TelegramError as error:
            self._to.note_error(error)
            logger.info("a preview was not removed: %s", in_words(error))
            refusal = refusal_of(error)
            if refusal is None:
                self._left = shown  # once more, after the reply was sent
            return refusal
        return None

    async def _failed(self, error: TelegramError) -> None:
        """Decide from an error what the next attempt does differently, or wait."""
        self._to.wire.statistics.retried += 1
        if self._to.note_error(error):
            if isinstance(error, RetryAfter):
                await self._rest(wait_of(error), LIMIT)
            elif isinstance(error, ChatMigrated):
                self._shown = self._origin = None  # they stayed where the group was
            return
        match refusal_of(error):
            case None:
                await self._trouble(error)
            case RefusalReason.GONE:
                raise ChatUnreachable(in_words(error))
            case RefusalReason.QUOTED:
                self._origin = None
            case RefusalReason.NOT_EDITABLE:
                self._shown = None
            case RefusalReason.ENTITIES if self._pieces[0].entities:
                self._plain()
            case _:
                await self._refused(error)

    async def _trouble(self, error: TelegramError) -> None:
        """Wait after a network error, before the next attempt; there is no limit of attempts."""
        self._failures += 1
        pause = self._patience.backoff_s(self._failures, self._random)
        if isinstance(error, InvalidToken):
            pause = self._patience.token_s
        logger.warning("a reply was not sent, again in %.0f s: %s", pause, in_words(error))
        await self._rest(pause, in_words(error))

    def _plain(self) -> None:
        logger.warning("Telegram refuses the formatting of a reply: it goes without")
        self._pieces[0] = self._pieces[0].plain()

    async def _refused(self, error: TelegramError) -> None:
        """Choose another form after a refusal of unknown reason: a new message, plain, in shorter pieces."""
        logger.warning("Telegram refuses a part of a reply: %s", in_words(error))
        piece = self._pieces[0]
        if self._shown is not None:
            await self._abandon(self._shown)
        elif piece.entities:
            self._plain()
        elif units(piece.text) > SHORTEST:
            self._pieces.popleft()
            self._pieces.extendleft(reversed(_cut(piece.text, max(SHORTEST, units(piece.text) // 2))))
        else:
            raise Unsendable(in_words(error))


class Unmarked(ActorError):
    """The journal did not answer in time."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "it did not note in time what was sent")


def _parts(text: str) -> Sequence[MessagePart]:
    """Return the reply as messages, at least one; unformatted if it cannot be formatted."""
    try:
        return format_reply(text)
    except Exception:  # whatever error a parser raises, people get the words
        logger.exception("a reply could not be formatted: it goes as it is")
        return _cut(text, LIMIT_UNITS)


def _cut(text: str, limit: int) -> Sequence[MessagePart]:
    """Return plain text in pieces of at most `limit` UTF-16 units, at least one."""
    return [MessagePart(piece) for piece in cut_plain(text, limit)] or [MessagePart(NOTHING)]
