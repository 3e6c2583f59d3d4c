"""The sender: sends each chat's replies to Telegram in order. No chat delays another chat."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from random import Random

import trio
from telegram import Bot
from telegram.error import TelegramError

from actors import Actor, ActorError, ActorRef, Refused, answers
from rumi.agent.events import TurnFinished
from rumi.channels.sending import DeliverFile, Flush, LeaveChats, LookFor, TakeChats
from rumi.channels.telegram.address import Moves
from rumi.channels.telegram.api.bot import in_words
from rumi.channels.telegram.formatting.reply import MessagePart
from rumi.channels.telegram.messages import Press, Pressed, Say, SenderMessage, Toast
from rumi.channels.telegram.sending.chat_outbox import ChatOutbox
from rumi.channels.telegram.sending.delivery import DeliveryTimes
from rumi.channels.telegram.sending.destination import (
    CallTimeouts,
    Destination,
    Sent,
    SharedDelivery,
    Statistics,
)
from rumi.channels.telegram.sending.limits import SendLimits
from rumi.channels.telegram.sending.preview import PreviewTimes
from rumi.channels.telegram.sending.quiet import QuietGroups
from rumi.channels.telegram.sending.toasts import Toasts
from rumi.chats.events import ChatEvent, Queued, Replied, TurnStarted
from rumi.chats.hub import Hub
from rumi.errors import RumiError
from rumi.platform.texts import questions as question_texts
from rumi.platform.texts import telegram as telegram_texts
from rumi.store.journal.inbox import moved_groups, record_move
from rumi.store.journal.outbox import (
    undelivered_chats,
    undelivered_replies,
)
from rumi.store.journal.store import NotOwner
from rumi.store.journal.transaction import JournalMessage
from rumi.store.ownership import partition_of
from rumi.texts import gettext

logger = logging.getLogger(__name__)

SAY_S = 5.0
"""Maximum time that a text outside the outbox waits for a rate limit, in seconds."""

LOOK_S = 0.5
"""Interval at which a call that does not queue checks the rate limit again, in seconds."""


class Sender(Actor[SenderMessage]):
    """Sends final replies from the outbox, shows running turns, and uploads files.

    Its `ChildSpec` needs `shutdown=Sender.SHUTDOWN_S`. `ended` is called in a separate task for a chat that
    is permanently unreachable. `moves`, `limits` and `statistics` should outlive an incarnation, because
    Telegram also remembers moves and rates.

    A chat has an outbox while it has something to send or a running turn. The sender stores nothing for other
    chats.
    """

    concurrency = 1024
    SHUTDOWN_S = 10.0

    def __init__(
        self,
        bot: Bot,
        journal: ActorRef[JournalMessage],
        hub: Hub,
        ended: Callable[[str], Awaitable[None]],
        *,
        moves: Moves | None = None,
        limits: SendLimits | None = None,
        statistics: Statistics | None = None,
        bounds: CallTimeouts | None = None,
        pace: PreviewTimes | None = None,
        patience: DeliveryTimes | None = None,
        random: Random | None = None,
        serves: Callable[[str], bool] = lambda chat: True,
        quiet: QuietGroups | None = None,
    ) -> None:
        """Create the sender. `serves` returns True for a chat whose replies this process sends.

        Other workers send the replies of all other chats. `quiet` knows the quiet hours of groups.
        """
        self._quiet = quiet or QuietGroups()
        self.statistics = statistics or Statistics()
        self._wire = SharedDelivery(
            bot,
            SendLimits() if limits is None else limits,
            bounds or CallTimeouts(),
            self.statistics,
            Moves() if moves is None else moves,
            serves=serves,
        )
        self._toasts = Toasts(self._wire)
        self._journal = journal
        self._hub = hub
        self._ended = ended
        self._pace = pace or PreviewTimes()
        self._patience = patience or DeliveryTimes()
        self._random = random or Random()
        self._outboxes: dict[str, ChatOutbox] = {}
        self._ending: set[str] = set()
        self._left: set[int] = set()
        """Partitions that are being handed over. No outbox opens for them, even before another worker serves
        them.
        """
        self._change = trio.Event()
        self._saying = 0
        """Number of texts outside the outbox that are being sent."""

    # Life

    async def started(self) -> None:
        """Subscribe to events, then read undelivered replies that earlier processes stored.

        Subscribing first ensures that no reply is missed.
        """
        self._wire.moves.on_move = self._moved
        self._wire.moves.load(await self._journal.ask(moved_groups()))
        await self.start(self._listen)
        await self._look()

    async def receive(self, message: SenderMessage) -> None:
        """Handle the messages to which no caller waits for an answer."""
        match message:
            case Say():
                await self._say(message)
            case Toast(query, text):
                await self._toasts.say(query, text)
            case Pressed(press, counts):
                await self._answer(press, counts)
            case LookFor(chats):
                self._look_in(chats)

    def activity(self) -> str:
        """Return the number of waiting replies, and one waiting chat with the reason why it waits."""
        outboxes = [outbox for outbox in self._outboxes.values() if outbox.waiting]
        if not outboxes:
            return f"{len(self._outboxes)} chats at work" if self._outboxes else ""
        words = [
            f"{_count(sum(outbox.waiting for outbox in outboxes), 'reply waits', 'replies wait')} in"
            f" {_count(len(outboxes), 'chat', 'chats')}"
        ]
        for outbox in outboxes:
            rests = outbox.rests
            if rests is not None:
                words.append(f"{outbox.chat} waits {rests.until - trio.current_time():.0f} s: {rests.why}")
                break
        return "; ".join(words)

    def metrics(self) -> Mapping[str, object]:
        """Return the numbers of active chats and waiting replies, and the counters of the process."""
        waiting = sum(outbox.waiting for outbox in self._outboxes.values())
        return {"chats": len(self._outboxes), "waiting": waiting, **asdict(self.statistics)}

    # Outboxes

    async def _listen(self, task_status: trio.TaskStatus[None]) -> None:
        with self._hub.listening() as events:
            task_status.started()
            while True:
                self._take(await events.receive())

    def _take(self, event: ChatEvent) -> None:
        """Pass an event to its chat's outbox. Only a reply or the start of a turn opens an outbox."""
        match event.what:
            case Replied() as replied:
                if (outbox := self._outbox(event.chat)) is not None:
                    outbox.replied(replied)
            case TurnStarted():
                if (outbox := self._outbox(event.chat)) is not None:
                    outbox.begin(event)
            case Queued(_, text, _, origin):
                self.start_soon(partial(self._say, Say(event.chat, text, origin or None), owned=True))
            case TurnFinished():
                if (outbox := self._outboxes.get(event.chat)) is not None:
                    outbox.finished(event.turn)
            case _:
                if (outbox := self._outboxes.get(event.chat)) is not None:
                    outbox.happened(event)

    async def _look(self, partitions: frozenset[int] | None = None) -> None:
        """Open an outbox for each chat with an undelivered reply."""
        self._look_in(await self._journal.ask(undelivered_chats(partitions)))

    def _look_in(self, chats: Sequence[str]) -> None:
        for chat in chats:
            if (outbox := self._outbox(chat)) is not None:
                outbox.look()

    def _outbox(self, chat: str) -> ChatOutbox | None:
        """Return the chat's outbox, opening it if needed; None if this process does not send to the chat."""
        outbox = self._outboxes.get(chat)
        if not self._wire.serves(chat):
            return None
        if outbox is not None or partition_of(chat) in self._left:
            return outbox
        if (to := self._destination(chat, owned=True)) is not None:
            outbox = self._outboxes[chat] = ChatOutbox(
                chat,
                to,
                self._journal,
                start=lambda work: self.start_soon(self._unless_lost, work),
                changed=self._changed,
                gone=self._gone,
                shown=self._hub.has_shown,
                random=self._random,
                pace=self._pace,
                patience=self._patience,
                quiet=self._quiet,
            )
            self.start_soon(self._drive, outbox)
        return outbox

    async def _drive(self, outbox: ChatOutbox) -> None:
        with outbox.driving:
            await self._unless_lost(outbox.run)
        # No await happened since the outbox found that it is not needed: a later event opens another one.
        del self._outboxes[outbox.chat]
        self._changed()

    async def _unless_lost(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` for a chat. If `work` fails because another worker serves the chat, only log this."""
        try:
            await work()
        except NotOwner as error:
            logger.info("%s", error)

    @answers(TakeChats)
    async def take_chats(self, message: TakeChats) -> None:
        """Open an outbox for each chat in these partitions that has an undelivered reply."""
        # Before the query: its await would otherwise let events of these chats pass without an outbox.
        self._left -= message.partitions
        await self._look(message.partitions)

    @answers(LeaveChats)
    async def leave_chats(self, message: LeaveChats) -> None:
        """Let the outboxes of these partitions finish, then cancel unfinished ones. No new outboxes open."""
        # First of all: from here on no new outbox can open, so the waits below end.
        self._left |= message.partitions

        def theirs() -> list[ChatOutbox]:
            return [
                outbox
                for outbox in self._outboxes.values()
                if partition_of(outbox.chat) in message.partitions
            ]

        with trio.move_on_after(message.patience_s):
            while any(outbox.sendable or outbox.waiting for outbox in theirs()):
                await self._change.wait()
        for outbox in theirs():
            # These could not finish in time: their replies stay in the journal for the next worker.
            outbox.driving.cancel()
        while theirs():
            await self._change.wait()

    def _destination(self, chat: str, *, owned: bool = False) -> Destination | None:
        address = self._wire.moves.address_of(chat)
        if address is None:
            return None
        return Destination(self._wire, address, owned=owned, silent=lambda: self._quiet.left_s(chat) > 0)

    def _changed(self) -> None:
        self._change.set()
        self._change = trio.Event()

    # Groups that have another number

    def _moved(self, old: int, new: int) -> None:
        """Store a group's new number, and let typed answers count for questions that were sent before.

        Any message in the new group is later than those questions, because the new group numbers its messages
        from 1.
        """
        for outbox in self._outboxes.values():
            address = self._wire.moves.address_of(outbox.chat)
            if address is not None and address.number == old:
                outbox.questions.moved()
        self.start_soon(self._note_move, old, new)

    async def _note_move(self, old: int, new: int) -> None:
        moves = self._wire.moves
        try:
            ours = await self._journal.ask(record_move(moves.chat_of(old), moves.chat_of(new)))
        except ActorError:  # Telegram reports it again, at the next attempt to send there
            logger.warning("a group's new number could not be noted")
        else:
            if ours:
                moves.note_move(old, new)

    # Chats that are gone

    def _gone(self, chat: str) -> None:
        if chat not in self._ending:
            self._ending.add(chat)
            self.start_soon(self._end, chat)

    async def _end(self, chat: str) -> None:
        """Report that the chat is unreachable.

        This runs in a separate task, because reporting passes a last reply back to the chat's outbox.
        """
        try:
            await self._ended(chat)
        except Exception:
            logger.exception("%s could not be ended", chat)
        finally:
            self._ending.discard(chat)

    # Requests

    async def _say(self, say: Say, *, owned: bool = False) -> None:
        """Try once to send a text, unless a final reply would have to wait for the text.

        Logs never contain the recipient.
        """
        to = self._destination(say.chat, owned=owned)
        if to is None:
            return
        await self._quiet.learn(say.chat)
        self._saying += 1
        try:
            await self._try_to_say(say, to)
        finally:
            self._saying -= 1
            self._changed()

    async def _try_to_say(self, say: Say, to: Destination) -> None:
        with trio.move_on_after(SAY_S) as patience:
            while not to.take():  # noqa: ASYNC110  # texts that may be lost do not queue
                await trio.sleep(LOOK_S)
        if patience.cancelled_caught:
            logger.info("words were not said: there was too much to say")
            return
        try:
            await to.send(MessagePart(say.text, ()), say.reply_to)
        except TelegramError as error:
            to.note_error(error)
            logger.info("words were not said: %s", in_words(error))
        except Exception:  # a text that may be lost must not crash the sender
            logger.exception("words were not said")

    async def _answer(self, press: Press, counts: bool) -> None:
        """Show the result of a press. Remove the buttons of a question that no turn is waiting for.

        Such a question was sent by an earlier process.
        """
        outbox, to = self._outboxes.get(press.chat), self._destination(press.chat)
        message = Sent(press.number, press.message)
        question = None if outbox is None else outbox.questions.find(press.question)
        if counts:
            words = question_texts.verdict(press.language, "yes" if press.yes else "no")
        elif question is not None and question.open:
            words = gettext(press.language, "This question is for somebody else.")
        else:
            words = telegram_texts.question_closed(press.language)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._toasts.say, press.query, words)
            if question is not None:
                question.stands_at(message)
            elif to is not None:
                nursery.start_soon(self._toasts.disarm, to, message)

    @answers(DeliverFile)
    async def send_file(self, file: DeliverFile) -> None:
        """Send a file after everything that is queued for the chat."""
        if self._wire.moves.address_of(file.chat) is None:
            raise Refused(RumiError("{chat} is not a Telegram chat.", chat=file.chat))
        # Includes stored replies whose event has not arrived yet: the file must not overtake them.
        before = await self._last_reply(file.chat)
        outbox = self._outbox(file.chat)
        assert outbox is not None
        try:
            await outbox.upload(file.name, file.content, before, spoken=file.spoken)
        except RumiError as error:
            raise Refused(error) from error
        except Exception as error:
            logger.exception("a file for %s was not sent", file.chat)
            raise Refused(
                RumiError("The file could not be sent: {name}.", name=type(error).__name__)
            ) from None

    async def _last_reply(self, chat: str) -> int:
        """Return the delivery number of the chat's last undelivered reply; 0 if none is found.

        No event may have announced this reply yet.
        """
        try:
            stored = await self._journal.ask(undelivered_replies(chat))
        except ActorError:
            return 0
        return stored[-1].delivery if stored else 0

    @answers(Flush)
    async def flush(self, message: Flush) -> None:
        """Wait until every reply, even one that no event announced, is sent or cannot be sent now."""
        try:
            await self._look()
        except ActorError:
            logger.warning("the journal did not say what waits")
        while self._saying or any(outbox.sendable for outbox in self._outboxes.values()):
            # Polled as well, because the end of a pause is not announced.
            with trio.move_on_after(LOOK_S):
                await self._change.wait()


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
