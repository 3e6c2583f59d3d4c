"""The sender of an account: replies from the outbox, growing answers, questions, files and notices."""

import logging
import mimetypes
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from random import Random
from secrets import token_hex
from typing import Any, Final, TypeAlias

import trio
from typing_extensions import override

from actors import ActorError, ActorRef, Backoff, Refused, answers
from rumi.agent.events import ConfirmationAsked, ConfirmationEnded, TurnFinished
from rumi.channels.matrix.api import MatrixError
from rumi.channels.matrix.delivery import MatrixDelivery
from rumi.channels.matrix.encrypted_files import encrypt_file
from rumi.channels.matrix.formatting import plain
from rumi.channels.matrix.growing import GrowingReply, GrowingTimes
from rumi.channels.matrix.questions import RoomQuestion
from rumi.channels.matrix.wire import AccountWire
from rumi.channels.reply_sender import ReplySender, ReplySenderMessage
from rumi.channels.sending import DeliverFile, LookFor
from rumi.chats.events import ChatEvent, Queued, Replied, TurnStarted, TurnState
from rumi.chats.hub import Hub
from rumi.errors import RumiError
from rumi.models.speech import format_of
from rumi.platform.file_kinds import HEAD_BYTES, picture_type
from rumi.store.journal.matrix import RoomPlace
from rumi.store.journal.records import StoredReply
from rumi.store.journal.store import NotOwner
from rumi.store.journal.transaction import JournalMessage

logger = logging.getLogger(__name__)

WAITS: Final = Backoff(first_s=1.0, factor=2.0, cap_s=60.0)
"""Pauses after a failure of the homeserver, in seconds."""

AT_ONCE: Final = 16
"""Maximum number of replies and files that are sent at the same time."""

TOKEN_S: Final = 60.0
"""Pause while the homeserver refuses the token, in seconds."""

SAY_S: Final = 5.0
"""Maximum time that a notice waits for a rate limit, in seconds. After that it is lost."""


@dataclass(frozen=True, slots=True)
class SayInRoom:
    """Send a notice into a room. The sender makes one attempt; if it fails, the notice is lost."""

    place: RoomPlace
    text: str


SenderMessage: TypeAlias = ReplySenderMessage | SayInRoom


class MatrixSender(ReplySender[SenderMessage]):
    """Sends what one account sends. `wire` outlives it."""

    concurrency = 1024

    def __init__(
        self,
        wire: AccountWire,
        journal: ActorRef[JournalMessage],
        hub: Hub,
        ended: Callable[[str], Awaitable[None]],
        *,
        serves: Callable[[str], bool],
        now: Callable[[], float],
        random: Random | None = None,
        times: GrowingTimes | None = None,
    ) -> None:
        super().__init__(
            journal,
            hub,
            ended,
            owns=wire.account.owns,
            serves=serves,
            at_once=AT_ONCE,
            waits=WAITS,
            random=random,
        )
        self._wire = wire
        self._times = times or GrowingTimes()
        self._delivery = MatrixDelivery(wire, journal, self.unreachable, now)
        self._growing: dict[str, GrowingReply] = {}  # by chat: the running turn's
        self._over: dict[tuple[str, int], GrowingReply] = {}  # ended ones whose reply is not sent yet
        self._questions: dict[str, RoomQuestion] = {}
        wire.asked.came = self._came

    async def receive(self, message: SenderMessage) -> None:
        """Handle the messages to which no caller waits for an answer."""
        match message:
            case LookFor(chats):
                self.look_in(chats)
            case SayInRoom(place, text):
                await self._say(place, text)
            case _:
                pass

    @override
    def metrics(self) -> Mapping[str, object]:
        figures = {**asdict(self._wire.figures), "limited": self._wire.limits.limited}
        return {**figures, "waiting": self.sending, "trouble": self.trouble or None}

    @override
    def pause_s(self, attempt: int, error: Exception | None) -> float:
        if isinstance(error, MatrixError):
            if error.kind == "limited":
                return error.wait_s
            if error.kind == "token":
                return TOKEN_S
        return super().pause_s(attempt, error)

    # Events

    @override
    def happened(self, event: ChatEvent) -> None:
        chat = event.chat
        if not self._owns(chat):
            return
        growing = self._growing.get(chat)
        match event.what:
            case Replied(_, messages):
                if growing is not None and growing.message in messages:
                    self._finish(chat)
                self.look_in((chat,))
            case TurnStarted():
                if self.sends_to(chat):
                    self._finish(chat)
                    self._begin(event)
            case Queued(_, text, _, origin):
                if self.sends_to(chat):
                    self.start_soon(self._say_in_chat, chat, text, origin)
            case TurnFinished():
                if growing is not None and growing.turn == event.turn:
                    growing.end()
            case _ if growing is not None and growing.turn == event.turn:
                growing.happened(event)
                match event.what:
                    case ConfirmationAsked() as asked:
                        self._ask(chat, asked, growing)
                    case ConfirmationEnded(id, verdict) if id in self._questions:
                        self._questions.pop(id).end(verdict)
                    case _:
                        pass

    def _begin(self, event: ChatEvent) -> None:
        growing = GrowingReply(
            self._wire,
            self._journal,
            event.chat,
            TurnState().apply(event),
            self._times,
            lambda why: self.start_soon(self._lost, event.chat, why),
        )
        self._growing[event.chat] = growing
        self.start_soon(growing.run)

    def _finish(self, chat: str) -> None:
        growing = self._growing.pop(chat, None)
        if growing is not None:
            growing.end()
            self._over[chat, growing.message] = growing
            for id, question in list(self._questions.items()):
                if question.chat == chat:
                    self._questions.pop(id).end("no")

    async def _lost(self, chat: str, why: str) -> None:
        try:
            await self.unreachable(chat, why)
        except (ActorError, NotOwner):
            logger.info("%s could not be given up", chat)

    def _ask(self, chat: str, asked: ConfirmationAsked, growing: GrowingReply) -> None:
        question = RoomQuestion(
            self._wire,
            self._journal,
            chat,
            asked,
            growing.language,
            growing.origin,
            shown=self._hub.has_shown,
            upload=self._upload,
        )
        self._questions[asked.id] = question
        self.start_soon(question.run)

    def _came(self, id: str, number: int) -> None:
        if (question := self._questions.get(id)) is not None:
            question.came(number)

    # Replies

    @override
    async def send_reply(self, chat: str, reply: StoredReply) -> None:
        growing = self._growing.get(chat)
        if growing is not None and growing.message in reply.messages:
            self._finish(chat)  # the reply is stored, but its event has not arrived yet
        over = [self._over[chat, message] for message in reply.messages if (chat, message) in self._over]
        await self._delivery.send_reply(chat, reply, over[0] if over else None)
        for message in reply.messages:
            self._over.pop((chat, message), None)

    # Notices

    async def _say_in_chat(self, chat: str, text: str, origin: int | None) -> None:
        try:
            place = await self._wire.place(self._journal, chat)
            if place is not None:
                related = await self._wire.related(self._journal, place, origin)
                await self._say(place, text, related)
        except (ActorError, NotOwner, MatrixError) as error:
            logger.info("words were not said: %s", error)

    async def _say(self, place: RoomPlace, text: str, related: dict[str, Any] | None = None) -> None:
        content = {**plain(text), "msgtype": "m.notice", **(related or {})}
        try:
            with trio.move_on_after(SAY_S):
                await self._wire.send(place, content, f"s{token_hex(12)}")
        except MatrixError as error:
            logger.info("words were not said: %s", error.message)
        except Exception:  # a notice may fail
            logger.exception("words were not said")

    # Files

    @answers(DeliverFile)
    async def send_file(self, file: DeliverFile) -> None:
        """Send a file after the replies that are stored for the chat."""
        if not self._owns(file.chat):
            raise Refused(RumiError("{chat} is not a chat on Matrix.", chat=file.chat))
        try:
            async with self._free:
                await self._upload(file.chat, file.name, file.content, spoken=file.spoken)
        except RumiError as error:
            raise Refused(RumiError("The file could not be sent: {error}", error=error.message)) from None

    async def _upload(self, chat: str, name: str, content: bytes, *, spoken: bool = False) -> None:
        place = await self._wire.place(self._journal, chat)
        if place is None:
            raise RumiError("The room is unknown.")
        media_type = picture_type(content[:HEAD_BYTES]) or mimetypes.guess_type(name)[0]
        media_type = media_type or "application/octet-stream"
        encryption = self._wire.encryption
        if encryption is not None and await self._patiently(lambda: encryption.is_encrypted(place.room)):
            sealed, file = await trio.to_thread.run_sync(encrypt_file, content)
            address = await self._patiently(
                lambda: self._wire.api.upload("file", "application/octet-stream", sealed)
            )
            source: dict[str, Any] = {"file": {**file, "url": address}}
        else:
            address = await self._patiently(lambda: self._wire.api.upload(name, media_type, content))
            source = {"url": address}
        event = {
            "msgtype": _kind_of(media_type),
            "body": name,
            "filename": name,
            **source,
            "info": {"mimetype": media_type, "size": len(content)},
            "m.mentions": {},
            **await self._wire.related(self._journal, place, None),
        }
        if spoken and format_of(content) in ("ogg", "mp3", "m4a"):
            event |= {"msgtype": "m.audio", "org.matrix.msc3245.voice": {}}
        txn = f"f{token_hex(12)}"
        await self._patiently(lambda: self._wire.send(place, event, txn, chat=chat))

    async def _patiently(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of a call; repeat it a few times after a limit or a lost answer."""
        for attempt in range(3):
            try:
                return await call()
            except MatrixError as error:
                if error.kind in ("refused", "token"):
                    raise
                if error.kind == "limited":
                    self._wire.limits.note(error.wait_s)
                await trio.sleep(max(error.wait_s, WAITS.delay_s(attempt)))
        return await call()


def _kind_of(media_type: str) -> str:
    kind = media_type.partition("/")[0]
    return f"m.{kind}" if kind in ("image", "audio", "video") else "m.file"
