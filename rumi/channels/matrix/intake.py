"""The intake: decides what each event is, stores a batch of them, and then does what they ask for."""

import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol

import trio

from actors import ActorError, ActorRef, ActorStopped, MailboxFull
from rumi.channels.matrix.api import MatrixError
from rumi.channels.matrix.delivery import REPLY
from rumi.channels.matrix.questions import verdict_of
from rumi.channels.matrix.reading import (
    EventRelation,
    RoomEvent,
    event_of,
    fields,
    file_of,
    redacted_by,
    relation_of,
    said_in,
    text,
    words_of,
)
from rumi.channels.matrix.rooms import MatrixRoom, Rooms
from rumi.channels.matrix.sender import SayInRoom, SenderMessage
from rumi.channels.matrix.wire import AccountWire
from rumi.errors import NotTaken, RumiError
from rumi.platform.chat_ids import matrix_number
from rumi.platform.config.schema import MatrixSection
from rumi.platform.texts import matrix as matrix_texts
from rumi.platform.texts import replies as reply_texts
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.mails import asked_in
from rumi.store.journal.matrix import (
    KnownEvent,
    MatrixEvent,
    RoomPlace,
    StoredEvent,
    SyncBatch,
    has_event,
    known_event,
)
from rumi.store.journal.records import Attachment, Incoming
from rumi.texts import Language

logger = logging.getLogger(__name__)

AGAIN_S: Final = 3600.0
"""Interval after which a stranger who goes on writing is told their id again, in seconds."""

MOST_STRANGERS: Final = 10_000
MOST_ANSWERED: Final = 4_000
"""Maximum length of an answered message's text, in characters."""

ANSWER_S: Final = 5.0
"""Maximum time for a chat to decide whether a reaction answers its question, in seconds."""

UNREADABLE: Final = "unreadable"
"""What the first encrypted event of a room says."""


class JudgesReactions(Protocol):
    """The chats: `rumi.chats.chats.Chats`."""

    async def answer(self, chat: str, id: str, yes: bool, user: int | None = None) -> bool:
        """Answer the pending question of a chat."""
        ...

    async def drop(self, chat: str, number: int) -> bool:
        """Drop a message that waits for its turn."""
        ...


class AcceptsSyncs(Protocol):
    """Stores batches: `rumi.chats.inbox.Inbox`."""

    @property
    def chats(self) -> JudgesReactions:
        """The chats."""
        ...

    async def accept_sync(self, batch: SyncBatch) -> tuple[StoredEvent, ...] | None:
        """Store a batch."""
        ...


@dataclass(frozen=True, slots=True)
class MatrixPeople:
    """Who may talk to an account: the role of each user. `language` is that of the answers."""

    users: Mapping[str, str]
    section: MatrixSection
    language: Language = "en"
    hears: bool = False

    def may_talk(self, user: str) -> bool:
        """Return True if a user may talk to Rumi."""
        return user in self.users


@dataclass(slots=True)
class _SyncWork:
    """What a batch will do: the events to store, and what follows when they are stored."""

    events: list[MatrixEvent] = field(default_factory=list)
    answers: list[tuple[str, str, bool, int]] = field(default_factory=list)
    notices: list[SayInRoom] = field(default_factory=list)
    read: dict[str, str] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)


class MatrixIntake:
    """Takes the events of an account. Outlives restarts of the receiver."""

    def __init__(
        self,
        wire: AccountWire,
        rooms: Rooms,
        people: MatrixPeople,
        inbox: AcceptsSyncs,
        ask: AskJournal,
        sender: ActorRef[SenderMessage],
    ) -> None:
        self.counts: Counter[str] = Counter(stored=0, repeated=0, refused=0, odd=0, strangers=0)
        self._wire = wire
        self._rooms = rooms
        self._people = people
        self._inbox = inbox
        self._ask = ask
        self._sender = sender
        self._told: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._kept: set[str] = set()

    async def take(
        self,
        since: str,
        token: str,
        timelines: Sequence[tuple[str, Sequence[object]]],
        start: Callable[[Callable[[], Awaitable[None]]], object],
    ) -> bool:
        """Store the events of rooms, in their order, and the position after them, in one transaction.

        Return False if another process was faster, so that nothing was stored. `start` starts a task.

        Raises:
            NotTaken: Nothing can be stored now; the senders were told.
            RumiError: Nothing was stored.
        """
        batch = _SyncWork()
        for room, events in timelines:
            await self._read_room(room, events, batch)
        account = self._wire.account.user
        try:
            stored = await self._inbox.accept_sync(SyncBatch(account, since, token, tuple(batch.events)))
        except NotTaken:
            self._tell_kept(batch)
            raise
        if stored is None:
            return False
        self._kept.clear()
        for event, kept in zip(batch.events, stored, strict=True):
            if event.message is not None:
                self.counts["stored" if kept.number else "repeated"] += 1
            elif event.what and kept.number and event.what != UNREADABLE:
                self._wire.asked.came(event.what, kept.number)
        for answer in batch.answers:
            start(partial(self._answer, *answer))
        for notice in batch.notices:
            self._say(notice)
        for room, last in batch.read.items():
            start(partial(self._mark_read, room, last))
        return True

    async def _read_room(self, id: str, events: Sequence[object], batch: _SyncWork) -> None:
        gone = {target for raw in events if (target := redacted_by(raw))}
        for raw in events:
            try:
                event = event_of(raw)
                if event is None:
                    self.counts["odd"] += 1
                    continue
                if event.id in batch.ids:
                    continue
                batch.ids.add(event.id)
                if event.state_key is not None:
                    self._rooms.apply(id, event)
                elif event.id not in gone:
                    await self._read(id, event, batch)
            except (RumiError, ActorError):
                raise
            except Exception:  # one odd event must not stop the others
                logger.exception("an event was not read")
                self.counts["odd"] += 1

    async def _read(self, id: str, event: RoomEvent, batch: _SyncWork) -> None:
        me = self._wire.account.user
        match event.kind:
            case "m.room.redaction":
                if target := redacted_by(event.raw):
                    await self._redact(id, target)
            case "m.reaction" if event.sender != me:
                await self._react(id, event, batch)
            case "m.room.message" if event.sender == me:
                await self._own(id, event, batch)
            case "m.room.message":
                await self._message(id, event, batch)
            case "m.room.encrypted" if event.sender != me:
                await self._unreadable(id, event, batch)
            case _:
                pass

    # Events of Rumi itself

    async def _own(self, id: str, event: RoomEvent, batch: _SyncWork) -> None:
        """Give a message of Rumi a number, so that it is known what people wrote after it."""
        relation = relation_of(event.content)
        if relation.replaces or text(event.content, "msgtype") == "m.notice":
            return
        question = self._wire.asked.questions.get(event.id, "")
        start = f"q{self._wire.position.salt}-" if self._wire.position is not None else ""
        if not question and start and event.txn.startswith(start):
            question = event.txn.removeprefix(start)
        room = await self._rooms.know(id)
        chat = self._chat_of(room, room.other(event.sender), relation.thread)
        batch.events.append(MatrixEvent(event.id, chat, RoomPlace(id, relation.thread), what=question))

    def _chat_of(self, room: MatrixRoom, person: str, thread: str) -> str:
        account = self._wire.account
        if person and room.other(account.user) == person:
            return account.private(person, room.id, thread)
        return account.group(room.id, thread)

    # Messages of people

    async def _message(self, id: str, event: RoomEvent, batch: _SyncWork) -> None:
        content, account = event.content, self._wire.account
        if text(content, "msgtype") in (
            None,
            "m.notice",
        ):  # a notice is a program's, which must not be answered
            return
        room = await self._rooms.know(id)
        relation = relation_of(content)
        if relation.replaces:
            await self._edit(room, event, relation, batch)
            return
        private = room.other(account.user) == event.sender
        chat = self._chat_of(room, event.sender, relation.thread)
        words = words_of(content, account.user, room.name_of(account.user), answers=bool(relation.answers))
        answered = await self._known(id, relation.answers) if relation.answers else None
        listen = self._people.section.listen
        to_us = answered is not None and not answered.message
        addressed = private or words.addressed or (to_us and listen != "mention")
        if not self._people.may_talk(event.sender):
            if addressed:
                self._stranger(event, RoomPlace(id, relation.thread), batch)
            return
        if not addressed and listen != "all":
            return
        language = self._people.language
        answer, attachments = None, list[Attachment]()
        if (file := file_of(event)) is not None:
            found = file.attachment
            most = self._people.section.max_bytes
            if found is None:
                answer = matrix_texts.unsupported(language)
            elif found.kind == "voice" and not self._people.hears:
                answer = matrix_texts.deaf(language)
            elif found.size_bytes is not None and found.size_bytes > most:
                answer = matrix_texts.too_large(language, found.name, most / 1_000_000)
            else:
                attachments.append(found)
        elif text(content, "msgtype") not in ("m.text", "m.emote") and not words.text:
            answer = matrix_texts.unsupported(language)
        if relation.answers and answer is None:
            attachments[:0] = await self._answered(room, event, relation.answers, answered)
        if answer is None and not words.text and not attachments:
            answer = reply_texts.greeting(language)
        message = Incoming(
            chat=chat,
            text=words.text,
            language=language,
            admin=private and self._people.users[event.sender] == "admin",
            attachments=tuple(attachments),
            answer=answer,
            user=matrix_number(event.sender),
            author="" if private else room.author(event.sender),
            channel="matrix",
            addressed=addressed,
            sent=event.at,
        )
        batch.events.append(MatrixEvent(event.id, chat, RoomPlace(id, relation.thread), message))
        batch.read[id] = event.id

    async def _edit(
        self, room: MatrixRoom, event: RoomEvent, relation: EventRelation, batch: _SyncWork
    ) -> None:
        """Take the new text of a message. The journal knows whose it is, and if it can still change."""
        new = fields(event.content, "m.new_content")
        account = self._wire.account
        if not self._people.may_talk(event.sender) or not new:
            return
        words = words_of(new, account.user, room.name_of(account.user), answers=False)
        if not words.text:
            return
        number = matrix_number(event.sender)
        for index, earlier in enumerate(batch.events):  # the edited message comes in this batch too
            if earlier.id == relation.replaces and earlier.place.room == room.id:
                message = earlier.message
                if message is not None and message.user == number and message.answer is None:
                    edited = replace(message, text=words.text)
                    batch.events[index] = MatrixEvent(earlier.id, earlier.chat, earlier.place, edited)
                return
        known = await self._known(room.id, relation.replaces)
        if known is None or not known.message:
            return
        message = Incoming(
            chat=known.chat,
            text=words.text,
            language=self._people.language,
            admin=room.other(account.user) == event.sender and self._people.users[event.sender] == "admin",
            user=number,
            channel="matrix",
            corrects=True,
            sent=event.at,
        )
        batch.events.append(
            MatrixEvent(event.id, known.chat, RoomPlace(room.id), message, corrects=relation.replaces)
        )

    async def _answered(
        self, room: MatrixRoom, event: RoomEvent, id: str, known: KnownEvent | None
    ) -> list[Attachment]:
        """Return the message that a message answers. It counts as data, also if a person wrote it."""
        try:
            raw: Mapping[str, object] = await self._wire.api.event(room.id, id)
            if self._wire.encryption is not None:
                raw = await self._wire.encryption.read_event(room.id, raw)
            replied = event_of(raw)
        except MatrixError as error:
            logger.info("an answered message was not found: %s", error.message)
            return []
        if replied is None or replied.kind != "m.room.message":
            return []
        said = said_in(replied.content)
        if replied.sender == self._wire.account.user:
            source = "your message"
        elif replied.sender == event.sender:
            source = "the user's own message"
        else:
            source = f"a message of {room.author(replied.sender)}"
        attachments = list[Attachment]()
        number = 0 if known is None else known.number
        if said.strip():
            cut = len(said) > MOST_ANSWERED
            attachments.append(
                Attachment(
                    *("words", "", "", "", None, source, said[:MOST_ANSWERED], cut),
                    answered=number,
                    sent=replied.at,
                )
            )
        return attachments

    async def _known(self, room: str, event: str) -> KnownEvent | None:
        """Return what is stored of an event of a room. An event of another room is none of this one."""
        known = await self._ask(known_event(self._wire.account.user, event))
        return known if known is not None and known.room in ("", room) else None

    # Other events

    async def _redact(self, room: str, event: str) -> None:
        """Drop the message of a removed event if it still waits for its turn.

        This happens before the position is stored, so that a removal is never lost.
        """
        known = await self._known(room, event)
        if known is not None and known.message:
            await self._inbox.chats.drop(known.chat, known.message)

    async def _react(self, id: str, event: RoomEvent, batch: _SyncWork) -> None:
        """Take a reaction to a question as its answer."""
        relation = relation_of(event.content)
        verdict = verdict_of(relation.key)
        if verdict is None or not self._people.may_talk(event.sender):
            return
        known = await self._known(id, relation.reacts)
        user = matrix_number(event.sender)
        if known is not None and not self._wire.account.may_answer(known.chat, user):
            return
        question = self._wire.asked.questions.get(relation.reacts, "") if known is None else known.what
        if known is None or not question:
            return
        if not question.startswith(REPLY):
            batch.answers.append((known.chat, question, verdict, user))
            return
        asked = await self._ask(asked_in(known.chat, int(question.removeprefix(REPLY))))
        if asked.numbers:
            command = f"/{'yes' if verdict else 'no'} {' '.join(map(str, asked.numbers))}"
            message = Incoming(
                chat=known.chat,
                text=command,
                language=self._people.language,
                user=user,
                channel="matrix",
                sent=event.at,
            )
            batch.events.append(MatrixEvent(event.id, known.chat, RoomPlace(id), message))

    async def _unreadable(self, id: str, event: RoomEvent, batch: _SyncWork) -> None:
        """Say once in a room that its messages cannot be read."""
        if not self._people.may_talk(event.sender):
            return
        room = await self._rooms.know(id)
        chat = self._chat_of(room, event.sender, "")
        if any(one.what == UNREADABLE and one.chat == chat for one in batch.events):
            return
        if not await self._ask(has_event(chat, UNREADABLE)):
            batch.events.append(MatrixEvent(event.id, chat, RoomPlace(id), what=UNREADABLE))
            batch.notices.append(SayInRoom(RoomPlace(id), self._wire.unreadable(self._people.language)))

    def _stranger(self, event: RoomEvent, place: RoomPlace, batch: _SyncWork) -> None:
        """Tell a stranger their id, at most once in an hour. What they wrote is not stored."""
        self.counts["strangers"] += 1
        now, key = trio.current_time(), (place.room, event.sender)
        last = self._told.get(key)
        if last is not None and now - last < AGAIN_S:
            return
        self._told[key] = now
        self._told.move_to_end(key)
        if len(self._told) > MOST_STRANGERS:
            self._told.popitem(last=False)
        batch.notices.append(SayInRoom(place, matrix_texts.stranger(self._people.language, event.sender)))

    # What follows

    async def _answer(self, chat: str, question: str, yes: bool, user: int) -> None:
        with trio.move_on_after(ANSWER_S):
            try:
                await self._inbox.chats.answer(chat, question, yes, user)
            except RumiError as error:
                logger.info("a reaction did not count: %s", error.message)

    async def _mark_read(self, room: str, event: str) -> None:
        try:
            await self._wire.api.read(room, event)
        except MatrixError as error:
            logger.info("a read marker was not set: %s", error.message)

    def _say(self, notice: SayInRoom) -> None:
        try:
            self._sender.tell_nowait(notice)
        except (MailboxFull, ActorStopped):
            logger.info("a notice was not sent: the sender has no room")

    def _tell_kept(self, batch: _SyncWork) -> None:
        """Tell each room once that the homeserver keeps its messages until they can be stored."""
        self.counts["refused"] += len(batch.events)
        for event in batch.events:
            if event.message is not None and event.chat not in self._kept:
                self._kept.add(event.chat)
                self._say(SayInRoom(event.place, matrix_texts.kept_at_server(self._people.language)))
