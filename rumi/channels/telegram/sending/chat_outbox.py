"""The output of one chat. Final replies and files are sent in order; previews and questions, concurrently.

A preview shows the growing answer of a running turn. A chat has an outbox while there is something to send or
a turn is running. The outbox is a task of the sender, and its errors never reach the sender.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from random import Random
from typing import TypeVar

import trio

from actors import ActorError, ActorRef
from rumi.agent.events import ConfirmationAsked, ConfirmationEnded
from rumi.channels.telegram.sending.delivery import (
    LIMIT,
    ChatUnreachable,
    Delivery,
    DeliveryTimes,
    Unsendable,
)
from rumi.channels.telegram.sending.destination import Destination
from rumi.channels.telegram.sending.preview import Preview, PreviewTimes
from rumi.channels.telegram.sending.questions import Questions
from rumi.channels.telegram.sending.quiet import QuietGroups
from rumi.channels.telegram.sending.uploads import Upload
from rumi.chats.events import ChatEvent, Replied, TurnState
from rumi.store.journal.outbox import mark_delivered, mark_undeliverable, undelivered_replies
from rumi.store.journal.records import StoredReply
from rumi.store.journal.store import NotOwner
from rumi.store.journal.transaction import JournalMessage
from rumi.store.journal.unreachable import mark_unreachable
from rumi.store.steps import Run

logger = logging.getLogger(__name__)

R = TypeVar("R")

ATTEMPTS = 3
"""Number of unexpected errors after which a reply is abandoned."""

LOOK_AGAIN_S = 60.0
"""Maximum time between two looks at the clock, in seconds, while replies wait for the end of quiet hours."""

JOURNAL_PAUSE_S = 1.0
"""Pause before the journal is asked again, in seconds: the journal may be restarting."""


@dataclass(slots=True)
class _Replies:
    """A queue entry: send the stored replies up to delivery `up_to`."""

    up_to: float


@dataclass(frozen=True, slots=True)
class Resting:
    """A pause: nothing is sent before `until`, on trio's clock."""

    until: float
    why: str


class ChatOutbox:
    """The ordered output of one chat.

    `changed` is called when the outbox may have become idle, and `gone` when the chat is permanently
    unreachable. `start` starts a task in the sender. `shown` is called with a question's id and message
    number when a person can read the question. `questions` has the questions that are pending or whose
    messages do not show the verdict (the answer) yet.
    """

    def __init__(
        self,
        chat: str,
        to: Destination,
        journal: ActorRef[JournalMessage],
        *,
        start: Callable[[Callable[[], Awaitable[None]]], None],
        changed: Callable[[], None],
        gone: Callable[[str], None],
        shown: Callable[[str, int], None],
        random: Random,
        pace: PreviewTimes,
        patience: DeliveryTimes,
        quiet: QuietGroups,
    ) -> None:
        self.chat = chat
        self._quiet = quiet
        self._holds = False  # replies wait in the journal for the end of the group's quiet hours
        self.driving = trio.CancelScope()
        self.questions = Questions(
            to,
            start=start,
            changed=self._wake,
            gone=partial(gone, chat),
            shown=shown,
            random=random,
            patience=patience,
        )
        self._announced = 0  # announced replies that were not read from the journal yet
        self._replies: deque[StoredReply] = deque()
        self._resting: Resting | None = None
        self._to = to
        self._journal = journal
        self._start = start
        self._changed = changed
        self._gone = gone
        self._random = random
        self._pace = pace
        self._patience = patience
        self._queue: deque[_Replies | Upload] = deque()
        self._busy = False
        self._woken = trio.Event()
        self._turn: Preview | None = None
        self._over: dict[int, Preview] = {}  # by message number: ended previews whose reply is not sent yet

    # Incoming events

    def look(self) -> None:
        """Send all stored replies of this chat."""
        self._expect(inf)

    def replied(self, reply: Replied) -> None:
        """Send the stored replies up to and including this one."""
        if self._turn is not None and self._turn.message in reply.messages:
            self._finish_turn()
        self._announced += 1
        self._expect(reply.delivery)

    def begin(self, event: ChatEvent) -> None:
        """Show the preview of a turn that started."""
        self._finish_turn()
        self._show(Preview(self._to, self._journal, TurnState().apply(event), self._pace, self._lost))

    def _show(self, preview: Preview) -> None:
        self._turn = preview
        self._start(preview.run)
        self._wake()

    def happened(self, event: ChatEvent) -> None:
        """Apply an event of a turn to its preview and its questions."""
        preview = self._turn
        if preview is None or preview.turn != event.turn:
            return
        preview.happened(event)
        match event.what:
            case ConfirmationAsked() as asked:
                self.questions.ask(asked, preview)
            case ConfirmationEnded(id, verdict) if self.questions.settle(id, verdict):
                self._show(preview.again())
            case _:
                pass

    def finished(self, turn: str) -> None:
        """End the preview of a turn that has finished. The event for the turn's reply comes next."""
        if self._turn is not None and self._turn.turn == turn:
            self._turn.end()

    def _finish_turn(self) -> None:
        preview, self._turn = self._turn, None
        if preview is not None:
            preview.end()
            self.questions.close()
            self._over[preview.message] = preview

    def _expect(self, up_to: float) -> None:
        last = self._queue[-1] if self._queue else None
        if isinstance(last, _Replies):
            last.up_to = max(last.up_to, up_to)
        else:
            self._queue.append(_Replies(up_to))
        self._wake()

    def _wake(self) -> None:
        self._woken.set()
        self._changed()

    @property
    def waiting(self) -> int:
        """Return the number of final replies that the outbox knows about and has not sent yet."""
        return self._announced + len(self._replies)

    @property
    def sendable(self) -> bool:
        """Return True if there is a reply or a verdict to send, and no pause prevents sending it."""
        return (self._busy or bool(self._queue) or self.questions.settling) and self.rests is None

    @property
    def rests(self) -> Resting | None:
        """Return the current pause with its reason; None if the outbox may send."""
        closed = self._to.closed_until
        if closed > trio.current_time():
            return Resting(closed, LIMIT)
        return self._resting

    # Output

    async def run(self) -> None:
        """Send until nothing is left to send and no turn runs."""
        await self._quiet.learn(self.chat)
        while True:
            self._woken = trio.Event()
            # The event was replaced before this check: what arrives after the check wakes the wait below.
            if self._queue:
                await self._next(self._queue.popleft())
            elif self._holds and not self._quiet.left_s(self.chat):
                self._holds = False
                self.look()
            elif self._turn is not None or self.questions or self._holds:
                # The clock may be set during quiet hours, so it is looked at again before their end.
                quiet_s = min(self._quiet.left_s(self.chat), LOOK_AGAIN_S) if self._holds else inf
                with trio.move_on_after(min(self._pace.silence_s, quiet_s)):
                    await self._woken.wait()
                if self._turn is not None and self._turn.silent and not self.questions:
                    self._turn.end()
                    self._turn = None
            else:
                return

    async def _next(self, what: _Replies | Upload) -> None:
        self._busy = True
        try:
            if isinstance(what, Upload):
                what.begun.set()
                # The upload runs in its caller's task, whose cancellation stops it; the outbox waits to keep
                # the order.
                await what.over.wait()
            else:
                await self._send(what.up_to)
        finally:
            self._busy = False
            self._changed()

    async def _send(self, up_to: float) -> None:
        """Send the stored replies up to and including a delivery."""
        stored = await self._ask(undelivered_replies(self.chat))
        await self._quiet.learn(self.chat)
        self._announced = 0
        for stored_reply in stored:
            if stored_reply.delivery > up_to:
                continue
            if stored_reply.origin is None:
                # No message of the reply came from Telegram; only results of tasks, schedules and triggers
                # are sent anyway, and not in the group's quiet hours.
                if not (stored_reply.task or stored_reply.schedule or stored_reply.trigger):
                    continue
                if self._quiet.left_s(self.chat):
                    self._holds = True
                    continue
            self._replies.append(stored_reply)
        try:
            while self._replies:
                # Sending earlier replies took time, in which an undo may have withdrawn a later one. A single
                # reply was read just now.
                first = self._replies[0]
                if first.replaces is not None and self._replaced_later(first.replaces):
                    await self._ask(mark_delivered(first.delivery))  # nobody would see it
                elif len(stored) == 1 or await self._waits(first):
                    await self._deliver(first)
                for message in self._replies.popleft().messages:
                    self._over.pop(message, None)
        except ChatUnreachable as gone:
            await self._give_up(str(gone))
            self._replies.clear()
        if not self._queue:
            self._over.clear()  # the remaining previews have no reply

    def _replaced_later(self, message: int) -> bool:
        """Return True if a later reply takes the same message's place: many presses cost few edits."""
        return any(later.replaces == message for later in list(self._replies)[1:])

    async def _deliver(self, reply: StoredReply) -> None:
        """Send one reply, without a time limit. Abandons the reply if Telegram will not accept it.

        Raises:
            ChatUnreachable: Nothing can be sent to the chat any more.
            NotOwner: Another worker serves the chat.
        """
        if self._turn is not None and self._turn.message in reply.messages:
            self._finish_turn()  # the reply is stored, but its event has not arrived yet
        previews = (self._over.get(message) for message in reply.messages)
        preview = next((preview for preview in previews if preview is not None), None)

        async def rest(seconds: float, why: str) -> None:
            await self.rest(seconds, why)
            # During the pause, an undo may have withdrawn the reply. A completely sent reply is not stored as
            # undelivered either; then the pause only delays the deletion of its preview.
            if not delivery.sent and not await self._waits(reply):
                raise Unsendable("it was withdrawn")

        delivery = Delivery(self._to, self._journal, reply, preview, rest, self._random, self._patience)
        failures = 0
        while True:
            try:
                await delivery.bring()
            except ActorError as error:
                await self._no_journal(error)
            except (ChatUnreachable, NotOwner):
                raise
            except Unsendable as why:
                return await self._record(str(why), reply)
            except Exception as error:  # an unforeseen error must stop neither the chat nor the sender
                failures += 1
                logger.exception("a reply was not sent, attempt %d", failures)
                if failures >= ATTEMPTS:
                    return await self._record(f"it failed {failures} times: {type(error).__name__}", reply)
                await self.rest(self._patience.backoff_s(failures, self._random), type(error).__name__)
            else:
                return None

    async def _waits(self, reply: StoredReply) -> bool:
        """Return True if the reply must still be sent; False if its turn has been undone in the meantime."""
        return any(
            stored_reply.delivery == reply.delivery
            for stored_reply in await self._ask(undelivered_replies(self.chat))
        )

    def _lost(self, why: str) -> None:
        """Give up the chat while its turn runs. The turn's reply, which then comes, cannot be sent either."""
        self._start(partial(self._give_up, why))

    async def _give_up(self, why: str) -> None:
        """Record that the chat is unreachable, which pauses its schedules, and call `gone`."""
        logger.warning("nobody can be reached in %s: %s", self.chat, why)
        if self._turn is not None:
            self._turn.end()
        self._to.wire.statistics.undeliverable += 1
        await self._ask(mark_unreachable(self.chat, why))
        self._gone(self.chat)

    async def _record(self, why: str, reply: StoredReply) -> None:
        """Record in the journal that a reply will never be delivered."""
        self._to.wire.statistics.undeliverable += 1
        await self._ask(mark_undeliverable(self.chat, why, reply.delivery))

    async def _ask(self, request: Run[R]) -> R:
        """Send a request to the journal; repeat it after errors, without a time limit. Return the answer."""
        while True:
            try:
                return await self._journal.ask(request)
            except ActorError as error:
                await self._no_journal(error)

    async def _no_journal(self, error: ActorError) -> None:
        logger.warning("the journal did not answer: %s", type(error).__name__)
        await self.rest(JOURNAL_PAUSE_S, "the journal")

    async def rest(self, seconds: float, why: str) -> None:
        """Pause sending for `seconds`; `why` is shown in the status."""
        self._resting = Resting(trio.current_time() + seconds, why)
        self._changed()
        try:
            await trio.sleep(seconds)
        finally:
            self._resting = None

    # Files

    async def upload(self, name: str, content: bytes, behind: int, *, spoken: bool = False) -> None:
        """Send a file after the delivery `behind` and after everything queued. Cancellation stops the upload.

        With `spoken`, the file is speech.

        Raises:
            RumiError: Telegram did not accept the file. The error gives the reason.
        """
        upload = Upload()
        self._expect(behind)
        self._queue.append(upload)
        self._wake()
        await upload.bring(self._to, name, content, self.rest, spoken=spoken)
