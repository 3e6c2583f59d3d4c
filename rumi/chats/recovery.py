"""Replies to messages that were judged and that no chat works on: after a crash, after a restart."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import trio

from actors import Actor, ActorRef, ActorStopped
from rumi.agent.events import TurnFinished
from rumi.agent.permissions.parking import ParkedCalls
from rumi.agent.prompts.message_entries import described, fetched, opening, result_entries
from rumi.chats.asking import asking
from rumi.chats.commands import ChatCommand, UnknownCommand, asks_first, parse_chat_command
from rumi.chats.events import Replied, turn_of
from rumi.chats.people.people import People
from rumi.chats.publishing import PendingMessages, Publisher
from rumi.chats.services import CommandHandler, handler_for
from rumi.chats.session import ending
from rumi.chats.undoing import undo_reply
from rumi.platform.texts import operating as operation_texts
from rumi.platform.texts import questions as question_texts
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts.language import Language
from rumi.store.journal.inbox import Count, Load, OpenChats
from rumi.store.journal.outbox import Settle, Undelivered
from rumi.store.journal.parked import KeepParked
from rumi.store.journal.records import ChatRecord, HistoryEntry, Incoming, Parked, Reason
from rumi.store.journal.transaction import JournalMessage
from rumi.store.journal.undo import FindUndo

logger = logging.getLogger(__name__)

CHATS_AT_ONCE = 16
"""Chats that are started at the same time: with more, each step of each waits for a step of all others."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A chat that crashed once too often. `time` is seconds since 1970, `error` one line."""

    time: float
    error: str


@dataclass(frozen=True, slots=True)
class CrashReplies:
    """Replies in the place of chats that crashed, or of an earlier process's.

    `failed` are the chats that were stopped at their restart limit, until their next message.
    """

    journal: ActorRef[JournalMessage]
    publisher: Publisher
    pending: PendingMessages
    failed: dict[str, Failed]
    language: Language
    handlers: Mapping[str, CommandHandler]
    people: People = field(default_factory=People)

    async def recover(self, chat: str, record: ChatRecord, parked: ParkedCalls) -> tuple[HistoryEntry, ...]:
        """Reply to what was judged and is open; return what the history has in the place of the answers.

        The first reply to a turn or a result asks for the `parked` calls that no message has asked for.
        To be called in the step in which the record came: what is open in it has not been told by then.
        """
        judged = self.pending.cursor(chat).judged
        left = [message for message in record.open if message.id <= judged]
        for message in left:  # an earlier process's, too: who replies to it is the first to tell that
            self.pending.add(chat, message.id)
        entries: tuple[HistoryEntry, ...] = ()
        for message, answers in _with_answers(left):
            entries += await self._settle(record.session, message, answers, parked)
        return entries

    async def _settle(
        self, session: int, message: Incoming, answers: tuple[int, ...], parked: ParkedCalls
    ) -> tuple[HistoryEntry, ...]:
        """Reply to one of them; `answers` are the messages that share its reply."""
        chat, language = message.chat, message.language or self.language
        messages = (message.id, *answers)
        if message.ready:
            entries = result_entries(message)
            settle = asking(Settle(chat, messages, message.text, None, session, entries), parked, language)
            delivery = await self.journal.ask(settle)
            parked.note_asked(settle.asked)
            replied = Replied(delivery, messages, settle.text, task=message.task, schedule=message.schedule)
            self.publisher.reply(chat, "", replied)
            return entries
        crashed = message.id > self.pending.cursor(chat).earlier
        reason: Reason = "crashed" if crashed else "interrupted"
        no_command = message.turn or not message.by_hand or fetched(message.attachments)
        command = None if no_command else parse_chat_command(message.text)
        if command is not None:
            text = await self._text_for_command(message, language, command)
            delivery = await self.journal.ask(Settle(chat, messages, text))
            outcome = (turn_of(message.id), TurnFinished(reason, text)) if _asked(message) else ("", None)
            turn, finished = outcome
            self.publisher.reply(chat, turn, Replied(delivery, messages, text), finished)
            return ()
        said = described(message)
        failed = operation_texts.gave_up if chat in self.failed else reply_texts.crashed
        text = failed(language) if crashed else reply_texts.restarted(language, said)
        turn = message.turn or f"t{message.id}"
        asked = () if message.turn else opening(turn, message)
        entries = (*asked, ending(turn, reason))
        if message.apart:  # its history is not the session's; one that was not begun has none
            session, entries = 0, entries if message.turn else ()
        settle = asking(Settle(chat, messages, text, reason, session, entries), parked, language)
        delivery = await self.journal.ask(settle)
        parked.note_asked(settle.asked)
        replied = Replied(delivery, messages, settle.text, schedule=message.schedule)
        self.publisher.reply(chat, turn, replied, TurnFinished(reason, settle.text))
        return () if message.apart else entries

    async def _text_for_command(
        self, message: Incoming, language: Language, command: ChatCommand | UnknownCommand
    ) -> str:
        """Return the reply to a command; one that a room serves is done now: twice is as good as once."""
        handler = handler_for(self.handlers, command) if isinstance(command, ChatCommand) else None
        if handler is not None and isinstance(command, ChatCommand):
            name, rest = command.name, command.rest
            refused = self.people.refusal(message, language, name, rest, has_handler=True)
            return refused or await handler.command(self.people.current(message), language, command)
        if command.name == "undo":
            undone = await self.journal.ask(FindUndo(message.chat, message.id))
            if undone is not None:  # it was decided, and completed by now
                return undo_reply(undone, language)
        return _lost_command(language, command)

    async def republish(self, chat: str) -> None:
        """Publish replies that were stored just when the chat crashed, because no subscriber got them.

        To be called when nothing that was judged is open any more.
        """
        judged = self.pending.cursor(chat).judged
        missed = {number for number in self.pending.unreplied.get(chat, ()) if number <= judged}
        if not missed:
            return
        for reply in await self.journal.ask(Undelivered(chat)):
            if missed.isdisjoint(reply.messages):
                continue
            finished = TurnFinished(reply.reason, reply.text) if reply.reason is not None else None
            replied = Replied(
                reply.delivery, reply.messages, reply.text, task=reply.task, schedule=reply.schedule
            )
            self.publisher.reply(chat, reply.turn, replied, finished)
        self.pending.mark_replied(chat, tuple(missed))  # what is not there has reached a person already


def _with_answers(left: Sequence[Incoming]) -> list[tuple[Incoming, tuple[int, ...]]]:
    """Return the messages that get a reply, each with the numbers of those that share it.

    A yes or a no shares the reply of the last message before it that may have asked for one.
    """
    replied: list[tuple[Incoming, list[int]]] = []
    shared: list[int] | None = None
    for message in left:
        if shared is not None and _is_answer(message):
            shared.append(message.id)
            continue
        replied.append((message, []))
        if message.turn or _asked(message):
            shared = replied[-1][1]
    return [(message, tuple(answers)) for message, answers in replied]


def _is_answer(message: Incoming) -> bool:
    """Return True if it is a yes or a no, with which no turn began."""
    mine = _plainly_sent(message)
    return mine and question_texts.yes_or_no(message.text) is not None


def _asked(message: Incoming) -> bool:
    """Return True if it is a command that puts a question first: it is told as a turn is."""
    mine = _plainly_sent(message)
    return mine and asks_first(message.text)


def _plainly_sent(message: Incoming) -> bool:
    """Return True for words that somebody sent, with which no turn began."""
    return message.by_hand and not message.turn and not fetched(message.attachments)


def _lost_command(language: Language, command: ChatCommand | UnknownCommand) -> str:
    if command.name == "stop":
        return reply_texts.stopped(language)  # the turn has ended, by the crash if not by this
    if isinstance(command, UnknownCommand):
        return reply_texts.lost_command(language, command.name)
    numbers = command.rest if command.name in ("yes", "no") else ""
    name = f"/{command.name} {numbers}".strip()
    return reply_texts.lost_command(language, name)


@dataclass(frozen=True, slots=True)
class Open:
    """The chat may have open messages that it does not know of: it is to be started, if it is not there.

    One that is `urgent` does not wait for others: a `/stop` is among its messages.
    """

    chat: str
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class LookAt:
    """Chats of these partitions may have open messages: other workers have served them."""

    partitions: frozenset[int]


class Recovery(Actor[Open | LookAt]):
    """Starts chats in which messages are open. It starts before anything is accepted.

    `worker` returns the name of this process among the workers of a database, None where it is alone.
    """

    concurrency = 4096  # an urgent one must be seen while others wait

    def __init__(
        self,
        replies: CrashReplies,
        start: Callable[[str], Awaitable[object]],
        worker: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._replies = replies
        self._worker = worker
        self._journal = replies.journal
        self._pending = replies.pending
        self._start = start
        self._waiting: set[str] = set()
        self._starting: set[str] = set()
        self._at_once = trio.CapacityLimiter(CHATS_AT_ONCE)

    async def started(self) -> None:
        """Note what earlier processes had accepted, and begin to start chats in which messages are open."""
        if (worker := self._worker()) is not None:
            self._pending.serve_as(worker)
        self._pending.begin((await self._journal.ask(Count())).last_message)
        self.start_soon(self._open_all)

    async def receive(self, message: Open | LookAt) -> None:
        """Start the chat, which reads what is open in it; one that starts reads again before it is up."""
        if isinstance(message, LookAt):
            await self._open_all(message.partitions)
        elif message.urgent:
            await self._open(message.chat)
        else:
            await self._open_in_turn(message.chat)

    async def _open_in_turn(self, chat: str) -> None:
        """Start the chat as one of `CHATS_AT_ONCE`. One that waits for its turn already, waits once."""
        if chat not in self._waiting:
            self._waiting.add(chat)
            try:
                async with self._at_once:
                    await self._open(chat)
            finally:
                self._waiting.discard(chat)

    async def _open_all(self, partitions: frozenset[int] | None = None) -> None:
        """Start the chats with open messages, earlier processes' or this one's, and with untold replies.

        A reply may have been written by a journal that said it had failed: then the message is not open any
        more, and what waits for the reply was not told of it.
        """
        async with trio.open_nursery() as nursery:
            for chat in dict.fromkeys(
                (*await self._journal.ask(OpenChats(partitions)), *self._pending.unreplied)
            ):
                nursery.start_soon(self._open_in_turn, chat)

    async def _open(self, chat: str) -> None:
        """Start the chat, or reply in its place if it does not start."""
        if chat in self._starting or not self._pending.takes(chat):
            return
        self._starting.add(chat)
        try:
            await self._start(chat)
        except ActorStopped:
            logger.info("chat %s: the program ends; the next one replies to what is open", chat)
            return
        except Exception as error:  # one chat's trouble must not become the others'
            logger.error("chat %s cannot be started", chat, exc_info=error)
        else:
            return
        finally:
            self._starting.discard(chat)
        record = await self._journal.ask(Load(chat, 0))
        if record.open:
            self._pending.adopt(chat, record.open)
            cursor = self._pending.cursor(chat)
            cursor.judged = max(cursor.judged, record.open[-1].id)

        async def store(parked: Sequence[Parked]) -> None:
            await self._journal.ask(KeepParked(chat, tuple(parked)))

        await self._replies.recover(chat, record, ParkedCalls(record.parked, store))
        self._pending.leave(chat)
