"""Delivery of one final reply, in one or more messages (parts). Avoids sending a part twice."""

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
from rumi.channels.telegram.api.refusals import RefusalReason, answer_lost, refusal_of
from rumi.channels.telegram.formatting.cutting import cut_plain
from rumi.channels.telegram.formatting.reply import NOTHING, MessagePart, format_reply, stacked
from rumi.channels.telegram.formatting.spans import LIMIT_UNITS, units
from rumi.channels.telegram.sending.destination import Destination, Sent
from rumi.channels.telegram.sending.preview import Preview
from rumi.platform.grace import with_grace
from rumi.platform.texts import telegram as telegram_texts
from rumi.store.journal.outbox import mark_delivered, mark_part_begun, mark_part_sent
from rumi.store.journal.records import StoredReply
from rumi.store.journal.store import NotOwner
from rumi.store.journal.transaction import JournalMessage

logger = logging.getLogger(__name__)

Rest = Callable[[float, str], Awaitable[None]]
"""Waits for the given seconds; the string is the reason that the status shows."""

LIMIT = "Telegram's limit"
"""Status text for a wait that Telegram's rate limit causes."""

SHORTEST = 500
"""If Telegram refuses a text of at most this length, in UTF-16 units, the length is not the cause."""


LONG = 8_000
"""Length in characters from which a text is formatted in a thread. A shorter text takes some hundredths of a
second.
"""

IN_A_ROW = 2
"""Number of buttons in one row."""

REMOVALS = 3
"""Number of retries for deleting a preview that could not become its reply."""


class ChatUnreachable(Exception):
    """The chat is permanently unreachable. The text gives the reason, without secrets."""


class Unsendable(Exception):
    """Telegram refuses this reply, even as short plain text. The error gives the reason, without secrets."""


@dataclass(frozen=True, slots=True)
class DeliveryTimes:
    """Time limits and pauses of a delivery, in seconds.

    After network errors, the pauses between attempts are 1, 2, 4… seconds, at most `most_s`; the number of
    attempts is not limited. `grace_s` is the time for which a running request may continue after the sender
    was told to stop. `mark_s` is the maximum time for the journal to record a sent part. `token_s` is the
    pause when Telegram refuses the token.
    """

    first_s: float = 1.0
    most_s: float = 60.0
    grace_s: float = 4.0
    mark_s: float = 3.0
    token_s: float = 60.0

    def backoff_s(self, failures: int, random: Random) -> float:
        """Return the pause after the given number of consecutive failures, in seconds.

        The pause is randomised so that chats do not all retry at the same time.
        """
        longest = min(self.most_s, self.first_s * 2.0 ** min(failures - 1, 20))
        return longest * random.uniform(0.5, 1.0)


class Delivery:
    """Delivers a reply to its chat.

    `bring` may be called again after an error: it continues where it stopped, and does not resend parts that
    Telegram accepted.
    """

    def __init__(
        self,
        to: Destination,
        journal: ActorRef[JournalMessage],
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
        self._taken = 0  # number of parts that Telegram has accepted
        self._recorded = 0  # number of parts that the journal has recorded as sent
        self._parts: Sequence[MessagePart] = ()
        self._pieces: deque[MessagePart] = deque()  # the unsent pieces of the current part
        self._shown: Sent | None = None  # the message that the first piece is edited into
        self._left: Sent | None = None  # a preview that must still be deleted
        self._ready = False
        self._lost = False  # the next piece may be in the chat already
        self._marked = False  # the next piece says so

    async def bring(self) -> None:
        """Send the unsent parts of the reply, and record them in the journal.

        Raises:
            ChatUnreachable: Nothing can be sent to this chat any more.
            Unsendable: Telegram refuses this reply, even as short plain text.
            ActorError: The journal could not record what was sent.
        """
        if not self._ready:
            self._parts = await self._format(self._reply.text)
            # Formatting is deterministic, so the number of recorded parts is valid after a restart too.
            self._taken = self._recorded = min(self._reply.parts, len(self._parts))
            # A process ended after it had begun to send this part, and before Telegram's answer was recorded.
            self._lost = self._reply.begun > self._taken
            await self._claim()
            self._ready = True
        # Also when nothing is left to send: an earlier attempt may have sent a part that was not recorded.
        await self._mark()
        await self._send_rest()
        for attempt in range(1, REMOVALS + 1):
            if self._left is None:
                break
            await self._rest(self._patience.backoff_s(attempt, self._random), "a preview to be removed")
            await self._abandon(self._left)

    @property
    def sent(self) -> bool:
        """Return True if the complete reply is sent and recorded."""
        return self._ready and self._recorded == len(self._parts)

    async def _format(self, text: str) -> Sequence[MessagePart]:
        """Return the parts of the text.

        A long text is formatted in a thread, so that it blocks no other chat.
        """
        if len(text) <= LONG:
            return _parts(text)
        return await trio.to_thread.run_sync(
            _parts, text, limiter=self._to.wire.formatting, abandon_on_cancel=True
        )

    async def _send_rest(self) -> None:
        while self._taken < len(self._parts):
            if not self._pieces:
                self._pieces.append(self._parts[self._taken])
            if self._lost and self._shown is None:
                self._mark_again()
            try:
                await self._to.turn()
                # With a grace period: a send that is cancelled without its response would be repeated after a
                # restart.
                await with_grace(self._send_one, self._patience.grace_s)
            except TelegramError as error:
                await self._failed(error)
            else:
                self._failures = 0

    async def _claim(self) -> None:
        """Use the preview message for the reply, unless an edit of that message may still be in progress.

        A preview from an earlier sender is deleted, because Telegram may still apply an edit that the earlier
        sender requested.
        """
        preview = self._preview
        if preview is not None:
            preview.end()
            await preview.ended()
        if self._taken:
            return
        if self._reply.replaces is not None:
            # An edit may be repeated: each reply to a press shows the whole new state.
            self._shown = self._to.found(self._reply.replaces)
            return
        if preview is not None and not preview.doubtful:
            self._shown = preview.shown
            return
        noted = self._reply.preview
        found = None if noted is None else self._to.found(abs(noted))
        shown = preview.shown if preview is not None else found
        if shown is not None and await self._abandon(shown) is RefusalReason.NOT_DELETABLE:
            self._shown = shown  # older than two days: no edit can still be in progress

    def _keyboard(self) -> InlineKeyboardMarkup | None:
        """Return the reply's buttons if the next piece is the reply's last piece; None otherwise."""
        last = self._taken + 1 == len(self._parts) and len(self._pieces) == 1
        buttons = [
            InlineKeyboardButton(button.label, callback_data=button.id)
            for button in self._reply.buttons
            if last
        ]
        rows = [buttons[at : at + IN_A_ROW] for at in range(0, len(buttons), IN_A_ROW)]
        return InlineKeyboardMarkup(rows) if rows else None

    async def _send_one(self) -> None:
        """Send one piece. If it was the last piece of a part, record that the part is sent."""
        piece = self._pieces[0]
        if self._shown is not None:
            await self._to.edit(self._shown, piece, keyboard=self._keyboard())
        else:
            await self._send_new(piece)
        self._shown = self._origin = None
        self._lost = self._marked = False
        self._pieces.popleft()
        if not self._pieces:
            self._taken += 1
            await self._mark()

    async def _send_new(self, piece: MessagePart) -> None:
        """Send a piece as a new message; meanwhile, record that a part may have been sent.

        An edit needs no such record, because a repeated edit changes nothing.
        """
        error = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._note_begun, self._taken + 1)
            try:
                await self._to.send(piece, self._origin, keyboard=self._keyboard())
            except Exception as raised:  # noqa: BLE001  # raised below, where no nursery wraps it in a group
                error = raised
        if error is None:
            return
        lost = isinstance(error, TelegramError) and answer_lost(error)
        if not (lost or self._lost or self._marked):
            await self._note_begun(self._taken)
        raise error

    async def _note_begun(self, parts: int) -> None:
        """Record how many parts may have been sent. Without the record, a repeated part has no mark."""
        with trio.move_on_after(self._patience.mark_s):
            try:
                await self._journal.ask(mark_part_begun(self._reply.delivery, parts))
            except (ActorError, NotOwner):
                logger.info("the journal did not note that a reply is being sent")

    def _mark_again(self) -> None:
        """Mark the next piece, which may be in the chat already, so that a person sees the repetition."""
        mark, piece = telegram_texts.sent_again(self._reply.language), self._pieces[0]
        self._lost, self._marked = False, True
        if units(mark) + 2 + units(piece.text) > LIMIT_UNITS:
            self._pieces.appendleft(MessagePart(mark))
        else:
            self._pieces[0] = stacked(MessagePart(mark), piece)

    async def _mark(self) -> None:
        """Record in the journal which parts Telegram has accepted."""
        whole = self._taken == len(self._parts)
        if self._recorded == self._taken and not whole:
            return
        delivery = self._reply.delivery
        with trio.move_on_after(self._patience.mark_s) as bound:
            await self._journal.ask(
                mark_delivered(delivery) if whole else mark_part_sent(delivery, self._taken)
            )
            self._recorded = self._taken
        if bound.cancelled_caught:
            logger.warning("the journal did not note in time that a reply was sent")
            raise Unmarked(self._journal.path)

    async def _abandon(self, shown: Sent) -> RefusalReason | None:
        """Delete a preview, because the reply becomes a new message. Return Telegram's refusal, if any."""
        self._shown = self._left = None
        try:
            await self._to.delete(shown)
        except TelegramError as error:
            self._to.note_error(error)
            logger.info("a preview was not removed: %s", in_words(error))
            refusal = refusal_of(error)
            if refusal is None:
                self._left = shown  # retried after the reply is sent
            return refusal
        return None

    async def _failed(self, error: TelegramError) -> None:
        """Handle a failed attempt: depending on the error, change the next attempt or wait before it."""
        self._to.wire.statistics.retried += 1
        if self._to.note_error(error):
            if isinstance(error, RetryAfter):
                await self._rest(wait_of(error), LIMIT)
            elif isinstance(error, ChatMigrated):
                self._shown = self._origin = None  # both messages stayed in the old group
            return
        match refusal_of(error):
            case None:
                if self._shown is None and not self._marked and answer_lost(error):
                    self._lost = True
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
        """Wait after a network error. The number of attempts is not limited."""
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
        """Change how the piece is sent, after a refusal for an unknown reason.

        Repeated refusals lead to these changes, in order: a new message instead of the preview, plain text,
        shorter pieces.
        """
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
    """The journal did not record a sent part in time."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "it did not note in time what was sent")


def _parts(text: str) -> Sequence[MessagePart]:
    """Return the reply as one or more messages. If it cannot be formatted, the messages are plain text."""
    try:
        return format_reply(text)
    except Exception:  # whatever error a parser raises, the user must get the text
        logger.exception("a reply could not be formatted: it goes as it is")
        return _cut(text, LIMIT_UNITS)


def _cut(text: str, limit: int) -> Sequence[MessagePart]:
    """Return plain text as one or more pieces of at most `limit` UTF-16 units."""
    return [MessagePart(piece) for piece in cut_plain(text, limit)] or [MessagePart(NOTHING)]
