"""Preview of a running turn in its chat: the typing action, and a message in which the answer grows.

A preview is optional: each of its calls to Telegram may fail, and the preview delays the final reply by at
most one call with a time limit. When the final reply is sent, it must be known whether a preview message
exists and whether it can be edited.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import trio
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, TelegramError

from actors import ActorError, ActorRef
from rumi.channels.telegram.api.bot import in_words
from rumi.channels.telegram.api.refusals import RefusalReason, never_left, refusal_of
from rumi.channels.telegram.formatting.reply import MessagePart
from rumi.channels.telegram.sending.destination import Destination, Sent
from rumi.channels.telegram.sending.limits import NOW_SHARE, SPARE_SHARE
from rumi.channels.telegram.sending.sketch import has_content, sketch
from rumi.chats.events import ChatEvent, TurnRestarted, TurnState
from rumi.platform.grace import with_grace
from rumi.store.journal.inbox import record_preview
from rumi.store.journal.transaction import JournalMessage

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PreviewTimes:
    """Durations and intervals of a preview, in seconds.

    A turn that ends within `quick_s` has no preview. After that time, the preview changes at most once in
    `chat_s` seconds, and in groups at most once in `group_s` seconds. Telegram hides the typing action after
    5 s and a draft after 30 s, so both are repeated earlier. A turn without events for `silence_s` seconds is
    no longer shown.
    """

    quick_s: float = 1.0
    chat_s: float = 1.5
    group_s: float = 4.0
    typing_s: float = 4.5
    draft_s: float = 20.0
    again_s: float = 0.3
    silence_s: float = 1800.0
    mark_s: float = 3.0


class Preview:
    """The preview of one turn. `message` is the number of the message that started the turn.

    `shown` is the Telegram message in which the answer grows; None if there is none. `doubtful` is True if an
    edit of that message was refused, or if an edit was never confirmed and Telegram may still apply it later.
    The reply must then not be edited into the message. `origin` is the message that the preview replies to;
    None where no reference is needed. `lost` is called with Telegram's words if the bot was removed from the
    chat or blocked: nobody can read the answer, so the turn need not go on.
    """

    def __init__(
        self,
        to: Destination,
        journal: ActorRef[JournalMessage],
        state: TurnState,
        pace: PreviewTimes,
        lost: Callable[[str], None],
    ) -> None:
        assert state.started is not None
        started = state.started.what
        self.turn = state.turn
        self.message = started.message
        self.language = started.language
        self.origin = (started.origin or None) if to.group else None
        # A preview of an earlier sender goes on, but an edit that the earlier sender requested may come late.
        self.shown: Sent | None = None if started.preview is None else to.found(abs(started.preview))
        self.doubtful = self.shown is not None
        self._to = to
        self._journal = journal
        self._state = state
        self._pace = pace
        self._lost = lost
        self._above: Preview | None = None  # the preview that must vanish before this one appears
        self._vanished = trio.Event()
        self._plain = False
        # Nothing more is shown. A schedule's turn shows nothing but the typing action: it may end silently,
        # and a preview is a message.
        self._given_up = bool(started.schedule)
        self._over = False
        self._ended = trio.Event()
        self._news = trio.Event()
        self._last_event_at = trio.current_time()
        self._part: MessagePart | None = None  # the current sketch; None if an event made it outdated
        self._last: MessagePart | None = None  # the text that the chat shows
        self._last_at = self._last_event_at
        self._typing = trio.CancelScope()
        self._waiting = trio.CancelScope()

    def happened(self, event: ChatEvent) -> None:
        """Apply an event of the turn."""
        self._state = self._state.apply(event)
        if isinstance(event.what, TurnRestarted) and self._to.group:
            self.origin = event.what.origin or None
        self._part = None
        self._last_event_at = trio.current_time()
        self._news.set()

    def end(self) -> None:
        """Start no more calls, because the turn is over. Calls that cannot be undone still finish."""
        self._over = True
        self._typing.cancel()
        self._waiting.cancel()

    @property
    def silent(self) -> bool:
        """Return True if the turn had no events for so long that its final event must have been missed."""
        return trio.current_time() - self._last_event_at >= self._pace.silence_s

    async def ended(self) -> None:
        """Wait until no call is in progress. After `end`, this takes at most the time limit of one call."""
        await self._ended.wait()

    async def vanish(self) -> bool:
        """End the preview and delete its message, because the answer will continue in a later message.

        Return True if no message is left or Telegram refuses to delete it. After False, the caller may try
        again. Takes a limited time.
        """
        self.end()
        try:
            await self.ended()
            if self.shown is not None:
                await self._to.delete(self.shown)
                self.shown = None
                await self._note(None)
        except TelegramError as error:
            logger.info("a preview was not removed: %s", in_words(error))
            self._to.note_error(error)
            return refusal_of(error) is not None
        finally:
            # Also after a failure: the next preview waits for this.
            self._vanished.set()
        return True

    def again(self) -> "Preview":
        """Return a new preview of the same turn, which replaces this preview.

        The new preview shows nothing until `vanish` of this preview has finished.
        """
        new = Preview(self._to, self._journal, self._state, self._pace, self._lost)
        new._above = self
        return new

    async def run(self) -> None:
        """Show the turn until `end` is called or until cancelled.

        Never raises, because a preview is optional.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._type)
                await self._grow()
        except Exception:
            logger.exception("a preview failed")
        finally:
            self._over = True
            self._ended.set()

    # Typing

    async def _type(self) -> None:
        with self._typing:
            while not self._over:
                has_capacity = self._to.has_capacity(SPARE_SHARE)
                if has_capacity:
                    try:
                        await self._to.typing()
                    except TelegramError as error:
                        self._to.note_error(error)
                        self._note_lost(error)
                await trio.sleep(self._pace.typing_s if has_capacity else self._pace.quick_s)

    def _note_lost(self, error: TelegramError) -> None:
        # Not for a 400: a group may forbid one kind of message and allow another.
        if isinstance(error, Forbidden) and not self._over:
            self._lost(in_words(error))

    # The answer

    async def _grow(self) -> None:
        await self._unless_over(partial(trio.sleep, self._pace.quick_s))
        if self._above is not None:
            await self._unless_over(self._above._vanished.wait)
        while not self._over and not self._given_up:
            # Format only when the result can be sent: formatting many growing answers would block all chats.
            if self._part is None and has_content(self._state) and not self._to.has_capacity(NOW_SHARE):
                await self._unless_over(partial(trio.sleep, self._pace.again_s))
            elif (part := self._wanted()) is None:
                await self._unless_over(self._hear)
            elif not self._to.take():
                await self._unless_over(partial(trio.sleep, self._pace.again_s))
            else:
                if await self._show(part):
                    self._last, self._last_at = part, trio.current_time()
                every_s = self._pace.group_s if self._to.group else self._pace.chat_s
                await self._unless_over(partial(trio.sleep, every_s))

    async def _unless_over(self, work: Callable[[], Awaitable[object]]) -> None:
        """Run `work` until it returns or the turn ends; the end of the turn cancels `work`."""
        with trio.CancelScope() as self._waiting:
            if not self._over:
                await work()

    async def _hear(self) -> None:
        """Wait for the next event.

        If the chat shows a draft, which Telegram hides after a while, wait at most until the draft must be
        repeated.
        """
        self._news = trio.Event()
        with trio.move_on_after(self._pace.draft_s if self._drafts else float("inf")):
            await self._news.wait()

    @property
    def _drafts(self) -> bool:
        return self._to.wire.drafts and not self._to.group and self.shown is None

    def _wanted(self) -> MessagePart | None:
        """Return the text that the chat should show now; None if the chat already shows it."""
        if self._last is None and not has_content(self._state):
            return None
        if self._part is None:
            self._part = sketch(self._state, self.language, plain=self._plain)
        fading = self._drafts and trio.current_time() - self._last_at >= self._pace.draft_s
        return self._part if fading or self._part != self._last else None

    async def _show(self, part: MessagePart) -> bool:
        """Show the text. Return True if the chat now shows it."""
        drafted = self._drafts
        try:
            if drafted:
                # A draft may be cancelled, because it disappears by itself.
                await self._unless_over(partial(self._to.draft, self.message or 1, part))
            elif self.shown is None:
                # With a grace period: a message whose number is unknown could never be edited or deleted.
                await with_grace(partial(self._send, part), self._pace.mark_s)
            else:
                await self._edit(self.shown, part)
        except TelegramError as error:
            await self._failed(error, drafted)
            if drafted and not self._to.wire.drafts and self._to.closed_until <= trio.current_time():
                return await self._show(part)  # as a message, at once
            return False
        return True

    async def _send(self, part: MessagePart) -> None:
        """Send the preview message, and store its number so that a later process can delete it."""
        bounds = self._to.wire.bounds
        self.shown = await self._to.send(part, self.origin, bounds.preview_s)
        # Without the number if the group moved meanwhile: in the new group, it identifies another message.
        await self._note(self.shown.id if self._to.has(self.shown) else None)

    async def _edit(self, shown: Sent, part: MessagePart) -> None:
        answered = False

        async def edit() -> None:
            nonlocal answered
            await self._to.edit(shown, part, self._to.wire.bounds.preview_s)
            answered = True

        try:
            await with_grace(edit, self._pace.mark_s)
        except TelegramError:
            answered = True
            raise
        finally:
            # Cancelled without a response: Telegram may apply this edit later, over the final reply.
            # `_failed` judges errors.
            self.doubtful = self.doubtful or not answered

    async def _note(self, shown: int | None) -> None:
        with trio.move_on_after(self._pace.mark_s):
            try:
                await self._journal.ask(record_preview(self.message, shown))
            except ActorError:
                logger.warning("a preview could not be noted")

    async def _failed(self, error: TelegramError, drafted: bool) -> None:
        logger.info("a preview was not shown: %s", in_words(error))
        if self._to.note_error(error):
            if isinstance(error, ChatMigrated):
                self.shown = None  # the message stayed in the old group
            return
        match refusal_of(error):
            case RefusalReason.ENTITIES if not self._plain:
                self._plain, self._part = True, None
            case RefusalReason.GONE:
                self._given_up = True
                self._note_lost(error)
            case _ if drafted:
                if isinstance(error, BadRequest | InvalidToken):
                    self._to.wire.drafts = False  # this server does not offer them
            case None if never_left(error):
                pass
            case None if self.shown is not None:
                self.doubtful = True
            case None:
                self._given_up = True  # a message may exist whose number is unknown: send no second one
            case RefusalReason.QUOTED:
                self.origin = None
            case _:
                self._given_up = True
                self.doubtful = self.shown is not None
