"""Recovery: after a crash or restart, decides about judged messages that no chat works on any more.

The chat begins those that had no effect yet, and goes on with turns that the end of a process interrupted
(`rumi.chats.resuming`). Recovery replies to all others.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import trio

from actors import Actor, ActorError, ActorRef, ActorStopped
from rumi.agent.events import TurnFinished
from rumi.agent.permissions.parking import ParkedCalls
from rumi.agent.prompts.message_entries import described, fetched, opening, result_entries
from rumi.chats.asking import asking
from rumi.chats.commands import (
    EVERYTHING,
    FOLDER_JOBS,
    ChatCommand,
    UnknownCommand,
    asks_first,
    is_stop,
    parse_chat_command,
)
from rumi.chats.events import Replied, turn_of
from rumi.chats.people.people import People
from rumi.chats.pieces import regrouped
from rumi.chats.publishing import PendingMessages, Publisher
from rumi.chats.resuming import MOST_RESUMED, OLDEST_S
from rumi.chats.services import CommandHandler, CommandReply, handler_for
from rumi.chats.session import ending
from rumi.chats.undoing import undo_reply
from rumi.errors import RumiError
from rumi.platform.texts import folders as folder_texts
from rumi.platform.texts import operating as operation_texts
from rumi.platform.texts import questions as question_texts
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts import waiting as waiting_texts
from rumi.store.journal.inbox import count_messages, load_chat, open_chats
from rumi.store.journal.outbox import settle, undelivered_replies
from rumi.store.journal.parked import keep_parked
from rumi.store.journal.records import ChatRecord, FinalReply, HistoryEntry, Incoming, Parked, Reason, joined
from rumi.store.journal.transaction import JournalMessage
from rumi.store.journal.undo import find_undo
from rumi.texts import Language

logger = logging.getLogger(__name__)

CHATS_AT_ONCE = 16
"""Maximum number of chats that are started at the same time.

With a higher limit, each step of a starting chat would wait for steps of all the other starting chats.
"""


@dataclass(frozen=True, slots=True)
class Failed:
    """A chat that reached its restart limit, at `time` in seconds since 1970; `error` is one line."""

    time: float
    error: str


@dataclass(frozen=True, slots=True)
class CrashReplies:
    """Sends replies on behalf of chats that crashed, or that an earlier process served.

    `failed` holds the chats that reached their restart limit; a chat is removed from it when the chat next
    works on a message. `together_s` is the setting of that name.
    """

    journal: ActorRef[JournalMessage]
    publisher: Publisher
    pending: PendingMessages
    failed: dict[str, Failed]
    language: Language
    handlers: Mapping[str, CommandHandler]
    people: People = field(default_factory=People)
    together_s: float = 0.0

    async def recover(
        self, chat: str, record: ChatRecord, parked: ParkedCalls, *, restores: bool = True
    ) -> "Recovered":
        """Decide what becomes of judged messages without a reply, and reply to those that cannot go on.

        Without `restores`, reply to all of them. The first reply to a turn or to a task's result also asks
        the user about those `parked` calls that no message has asked about yet. The caller must not await
        between reading the chat's record and this call, so that no reply to the open messages is published in
        between.
        """
        judged = self.pending.cursor(chat).judged
        left = [message for message in record.open if message.id <= judged]
        for message in left:  # those of an earlier process as well: otherwise their reply is not published
            self.pending.add(chat, message.id)
        entries, to_do, told = tuple[HistoryEntry, ...](), list[Left](), set[int]()
        groups = {group[0].id: group for group in regrouped(left, self.together_s)}
        for message, answers in _with_answers([joined(group) for group in groups.values()]):
            if message.id in told:
                continue
            group = groups[message.id]
            further = tuple(part.id for part in group[1:])
            if not (restores and self._goes_on(message)):
                entries += await self._settle(record.session, message, further, answers, parked)
            elif stops := [other for other in left if _stops(other, message)]:
                # A `/stop` shares the reply of the turn that it ends.
                shared = tuple(stop.id for stop in stops if is_stop(stop) and stop.id not in told)
                told.update(shared)
                entries += await self._settle(
                    record.session, message, further, (*answers, *shared), parked, stopped=True
                )
            else:
                parts = tuple(part for part in group if not part.corrected)
                corrections = [part.id for part in group if part.corrected]
                to_do.append(Left(parts, (*corrections, *answers), bool(corrections)))
        return Recovered(entries, tuple(to_do))

    def _goes_on(self, message: Incoming) -> bool:
        """Return True if the chat begins the message's work now, or goes on with its turn.

        A turn that crashed its chat does not go on, nor one that was resumed too often.
        """
        cursor = self.pending.cursor(message.chat)
        if message.id in (cursor.hearing, cursor.working):
            return False
        if message.turn:
            refused = self.people.refusal(self.people.current(message), message.language or self.language)
            return message.id <= cursor.earlier and message.resumed < MOST_RESUMED and not refused
        if message.corrected:  # the message that it corrects has its reply
            return False
        if answers_parked(message):
            return self.publisher.now() - message.received <= OLDEST_S
        return message.ready or _command_of(message) is None

    async def _settle(
        self,
        session: int,
        message: Incoming,
        parts: tuple[int, ...],
        answers: tuple[int, ...],
        parked: ParkedCalls,
        *,
        stopped: bool = False,
    ) -> tuple[HistoryEntry, ...]:
        """Reply to one message, to its further `parts` and to the `answers` that share its reply.

        Return the history entries of the message. `stopped` is True if its user has stopped it.
        """
        chat, language = message.chat, message.language or self.language
        messages = (message.id, *parts, *answers)
        if message.ready:
            entries = result_entries(message)
            reply = asking(FinalReply(messages, message.text, None, session, entries), parked, language)
            delivery = await self.journal.ask(settle(chat, reply))
            parked.note_asked(reply.asked)
            replied = Replied(delivery, messages, reply.text, task=message.task, schedule=message.schedule)
            self.publisher.reply(chat, "", replied)
            return entries
        if message.corrected:  # the message that it corrects has its reply
            text = waiting_texts.too_late(language)
            delivery = await self.journal.ask(settle(chat, FinalReply(messages, text)))
            self.publisher.reply(chat, "", Replied(delivery, messages, text))
            return ()
        # An earlier process judged messages up to `earlier`: its end interrupted them. This process judged
        # later ones, so a crash of the chat ended them.
        cursor = self.pending.cursor(chat)
        crashed = message.id > cursor.earlier or message.id in (cursor.hearing, cursor.working)
        reason: Reason = "crashed" if crashed else "stopped" if stopped else "interrupted"
        command = _command_of(message)
        if command is not None:
            command_reply = await self._reply_to_command(message, language, command)
            text = command_reply.text
            delivery = await self.journal.ask(settle(chat, command_reply.stored(messages)))
            outcome = (turn_of(message.id), TurnFinished(reason, text)) if _asked(message) else ("", None)
            turn, finished = outcome
            self.publisher.reply(chat, turn, Replied(delivery, messages, text), finished)
            return ()
        said = described(message)
        failed = operation_texts.gave_up if chat in self.failed else reply_texts.crashed
        text = failed(language) if crashed else reply_texts.restarted(language, said)
        if stopped:
            text = reply_texts.stopped(language)
        turn = message.turn or f"t{message.id}"
        asked = () if message.turn else opening(turn, message)
        entries = (*asked, ending(turn, reason))
        if message.apart:  # the turn has a history of its own, or none if it was not begun
            session, entries = 0, entries if message.turn else ()
        reply = FinalReply(messages, text, reason, session, entries, parts=parts)
        reply = asking(reply, parked, language, schedule=message.schedule, now=self.publisher.now())
        delivery = await self.journal.ask(settle(chat, reply))
        parked.note_asked(reply.asked)
        replied = Replied(delivery, messages, reply.text, schedule=message.schedule)
        self.publisher.reply(chat, turn, replied, TurnFinished(reason, reply.text))
        return () if message.apart else entries

    async def _reply_to_command(
        self, message: Incoming, language: Language, command: ChatCommand | UnknownCommand
    ) -> CommandReply:
        """Return the reply to a command.

        A command with a handler runs now, possibly for the second time: handlers are idempotent. If it meets
        an error that nobody expects, it may be the command that crashed the chat, and would do so at each
        start: it is not done.
        """
        handler = handler_for(self.handlers, command) if isinstance(command, ChatCommand) else None
        if handler is not None and isinstance(command, ChatCommand):
            name, rest = command.name, command.rest
            refused = self.people.refusal(message, language, name, rest, has_handler=True)
            if refused:
                return CommandReply(refused)
            try:
                said = await handler.command(self.people.current(message), language, command)
            except (ActorError, RumiError):
                raise
            except Exception as error:
                logger.error("chat %s: the command /%s fails", message.chat, name, exc_info=error)
                said = _lost_command(language, command)
            return CommandReply(said) if isinstance(said, str) else said
        if command.name == "undo":
            undone = await self.journal.ask(find_undo(message.chat, message.id))
            if undone is not None:  # the undo was decided before the crash and has been completed since
                return CommandReply(undo_reply(undone, language))
        return CommandReply(_lost_command(language, command))

    async def republish(self, chat: str, left: "Sequence[Left]" = ()) -> None:
        """Publish replies that no subscriber got, because the chat crashed just after storing them.

        Must be called after `recover`, when of the judged messages only those in `left` are open.
        """
        judged = self.pending.cursor(chat).judged
        missed = {number for number in self.pending.unreplied.get(chat, ()) if number <= judged}
        for one in left:
            missed.difference_update(one.messages)
        if not missed:
            return
        for reply in await self.journal.ask(undelivered_replies(chat)):
            if missed.isdisjoint(reply.messages):
                continue
            finished = TurnFinished(reply.reason, reply.text) if reply.reason is not None else None
            replied = Replied(
                reply.delivery, reply.messages, reply.text, task=reply.task, schedule=reply.schedule
            )
            self.publisher.reply(chat, reply.turn, replied, finished)
        # A reply that is not undelivered has reached a person already, so its message is done as well.
        self.pending.mark_replied(chat, tuple(missed))


@dataclass(frozen=True, slots=True)
class Left:
    """The parts of an open message whose work is to be done, and other messages that share its reply.

    `corrected` is True if the text of a part was corrected.
    """

    parts: tuple[Incoming, ...]
    joined: tuple[int, ...] = ()
    corrected: bool = False

    @property
    def messages(self) -> tuple[int, ...]:
        """The numbers of all messages that the work's reply answers."""
        return (*(part.id for part in self.parts), *self.joined)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a recovery has stored in the history, and the messages that the chat must work on, in order."""

    entries: tuple[HistoryEntry, ...] = ()
    left: tuple[Left, ...] = ()


def _command_of(message: Incoming) -> ChatCommand | UnknownCommand | None:
    """Return the command in a message that has begun no turn; None if there is none."""
    no_command = message.turn or not message.by_hand or fetched(message.attachments) or message.branches
    return None if no_command else parse_chat_command(message.text)


def answers_parked(message: Incoming) -> bool:
    """Return True if the message is a command that answers questions about parked calls."""
    command = _command_of(message)
    return isinstance(command, ChatCommand) and command.name in ("yes", "no")


def _stops(later: Incoming, message: Incoming) -> bool:
    """Return True if a `later` message ends the work on this one: a stop, or a reset of the chat.

    A `/stop` ends the turn that runs, and a `/stop all` or `/reset` also what waits.
    """
    command = _command_of(later)
    if later.id < message.id or message.ready or _command_of(message) is not None:
        return False
    match command:
        case ChatCommand("reset"):
            return not asks_first(later.text)
        case ChatCommand("stop"):
            return command.handler == EVERYTHING or (is_stop(later) and bool(message.turn))
        case _:
            return False


def _with_answers(left: Sequence[Incoming]) -> list[tuple[Incoming, tuple[int, ...]]]:
    """Return the messages that get a reply, each with the numbers of the messages that share the reply.

    A yes or no shares the reply to the last message before it whose turn may have asked a question.
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
    """Return True if the message is a yes or a no that began no turn."""
    mine = _plainly_sent(message)
    return mine and question_texts.yes_or_no(message.text) is not None


def _asked(message: Incoming) -> bool:
    """Return True for a command that asks for confirmation; its reply is published like a turn's reply."""
    mine = _plainly_sent(message)
    return mine and asks_first(message.text)


def _plainly_sent(message: Incoming) -> bool:
    """Return True if a person sent the message, without attachments to fetch, and it began no turn."""
    return message.by_hand and not message.turn and not fetched(message.attachments)


def _lost_command(language: Language, command: ChatCommand | UnknownCommand) -> str:
    if command.name == "stop":
        return reply_texts.stopped(language)  # the turn has ended, by the crash if not by the `/stop`
    if isinstance(command, UnknownCommand):
        return reply_texts.lost_command(language, command.name)
    if command.name in FOLDER_JOBS:
        return folder_texts.interrupted(language, f"/{command.name}")
    numbers = command.rest if command.name in ("yes", "no") else ""
    name = f"/{command.name} {numbers}".strip()
    return reply_texts.lost_command(language, name)


@dataclass(frozen=True, slots=True)
class Open:
    """A request to start a chat because it may have open messages that it has not read yet.

    `urgent` means that one of these messages is a `/stop`. The chat then starts at once, even if many other
    chats are starting.
    """

    chat: str
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class LookAt:
    """A request to start the chats of these partitions that have open messages left by other workers."""

    partitions: frozenset[int]


class Recovery(Actor[Open | LookAt]):
    """Starts chats with open messages. This actor starts before any message is accepted.

    `worker` returns this process's name as one of several workers that share a database, or None if this
    process is the only one.
    """

    concurrency = 4096  # an urgent request must run while others wait for `CHATS_AT_ONCE`

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
        """Record the last message that earlier processes stored, and start the chats with open messages."""
        if (worker := self._worker()) is not None:
            self._pending.serve_as(worker)
        self._pending.begin((await self._journal.ask(count_messages())).last_message)
        self.start_soon(self._open_all)

    async def receive(self, message: Open | LookAt) -> None:
        """Start the chats that the request names; each reads its unanswered messages while it starts."""
        if isinstance(message, LookAt):
            await self._open_all(message.partitions)
        elif message.urgent:
            await self._open(message.chat)
        else:
            await self._open_in_turn(message.chat)

    async def _open_in_turn(self, chat: str) -> None:
        """Start the chat as soon as fewer than `CHATS_AT_ONCE` are starting, unless it is waiting already."""
        # One waiting start is enough, however many requests for the chat come meanwhile.
        if chat not in self._waiting:
            self._waiting.add(chat)
            try:
                async with self._at_once:
                    await self._open(chat)
            finally:
                self._waiting.discard(chat)

    async def _open_all(self, partitions: frozenset[int] | None = None) -> None:
        """Start the chats that have open messages or unpublished replies, from this or earlier processes.

        A reply is unpublished if the journal committed it and then reported a failure: its message is no
        longer open, but no subscriber got the reply.
        """
        async with trio.open_nursery() as nursery:
            for chat in dict.fromkeys(
                (*await self._journal.ask(open_chats(partitions)), *self._pending.unreplied)
            ):
                nursery.start_soon(self._open_in_turn, chat)

    async def _open(self, chat: str) -> None:
        """Start the chat; if it does not start, reply on its behalf."""
        if chat in self._starting or not self._pending.starts(chat):
            return
        self._starting.add(chat)
        try:
            await self._start(chat)
        except ActorStopped:
            logger.info("chat %s: the program ends; the next one replies to what is open", chat)
            return
        except Exception as error:  # one chat's failure must not stop the recovery of the others
            logger.error("chat %s cannot be started", chat, exc_info=error)
        else:
            return
        finally:
            self._starting.discard(chat)
        # Nothing will judge these messages, since the chat does not start: advance the cursor over all of
        # them, so that `recover` replies to every one.
        record = await self._journal.ask(load_chat(chat, 0))
        if record.open:
            self._pending.adopt(chat, record.open)
            cursor = self._pending.cursor(chat)
            cursor.judged = max(cursor.judged, record.open[-1].id)

        async def store(parked: Sequence[Parked]) -> None:
            await self._journal.ask(keep_parked(chat, tuple(parked)))

        await self._replies.recover(chat, record, ParkedCalls(record.parked, store), restores=False)
        self._pending.leave(chat)
