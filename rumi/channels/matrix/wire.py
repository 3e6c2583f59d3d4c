"""What the parts of a sender share, and the sending of one event."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from actors import ActorRef
from rumi.channels.matrix.address import MatrixAccount
from rumi.channels.matrix.api import MatrixApi, MatrixError
from rumi.channels.matrix.limits import AccountLimits
from rumi.channels.matrix.rooms import Rooms
from rumi.platform.chat_ids import matrix_number
from rumi.platform.texts import matrix as matrix_texts
from rumi.store.journal.matrix import AccountPosition, RoomPlace, event_numbered, matrix_position, place_of
from rumi.store.journal.transaction import JournalMessage
from rumi.texts import Language

if TYPE_CHECKING:  # it needs the extra `e2e`
    from rumi.channels.matrix.encryption.encryption import RoomEncryption


def new_salt() -> str:
    """Return a random part for the ids of a database's messages."""
    return token_hex(6)


@dataclass(slots=True)
class SentFigures:
    """Counters of an account since the process began."""

    sent: int = 0
    edited: int = 0
    retried: int = 0
    undeliverable: int = 0


@dataclass(slots=True)
class QuestionEvents:
    """Questions by the events that ask them, of this process; and who waits for the event to come back."""

    questions: dict[str, str] = field(default_factory=dict)
    came: Callable[[str, int], object] = lambda question, number: None


@dataclass(slots=True)
class AccountWire:
    """An account's connection. It outlives restarts of the sender and of the receiver."""

    account: MatrixAccount
    api: MatrixApi
    limits: AccountLimits = field(default_factory=AccountLimits)
    figures: SentFigures = field(default_factory=SentFigures)
    asked: QuestionEvents = field(default_factory=QuestionEvents)
    position: AccountPosition | None = None
    rooms: Rooms = field(init=False)
    follows: bool = False
    """True while this process takes the account's events, so that `rooms` knows who comes and goes."""
    encryption: "RoomEncryption | None" = None
    unreadable: Callable[[Language], str] = matrix_texts.encrypted
    """What an encrypted room is told if its messages cannot be read."""

    def __post_init__(self) -> None:
        self.rooms = Rooms(self.api)

    async def salt(self, journal: ActorRef[JournalMessage]) -> str:
        """Return what the ids of this database's messages have in common."""
        if self.position is None:
            self.position = await journal.ask(matrix_position(self.account.user, new_salt()))
        return self.position.salt

    async def place(self, journal: ActorRef[JournalMessage], chat: str) -> RoomPlace | None:
        """Return where a chat is; None if nobody knows.

        Raises:
            MatrixError: Nothing of the chat may be sent there, or the homeserver does not say who is there.
        """
        place = await journal.ask(place_of(chat))
        if place is not None:
            await self.check(chat, place)
        return place

    async def check(self, chat: str, place: RoomPlace) -> None:
        """Check that nobody but its person reads what is sent to a direct room.

        Raises:
            MatrixError: Others are in the room, or the homeserver does not say who is there.
        """
        if not self.account.is_private(chat):
            return
        if not self.follows:
            self.rooms.forget(place.room)
        members = (await self.rooms.know(place.room)).members or {}
        others = [matrix_number(member) for member in members if member != self.account.user]
        if not all(self.account.may_answer(chat, other) for other in others):
            raise MatrixError("Others are in the direct room now.", kind="refused", errcode="M_FORBIDDEN")

    async def send(
        self,
        place: RoomPlace,
        content: Mapping[str, Any],
        txn: str,
        kind: str = "m.room.message",
        *,
        chat: str = "",
    ) -> str:
        """Send an event in its turn, and return its id. A limit is recorded before it is raised.

        With a `chat`, nothing is sent if others read it: see `check`.
        """
        async with self.limits.turn():
            if chat:
                await self.check(chat, place)
            return await self.send_now(place, content, txn, kind)

    async def send_now(
        self, place: RoomPlace, content: Mapping[str, Any], txn: str, kind: str = "m.room.message"
    ) -> str:
        """Send an event at once, and return its id."""
        edits = "m.new_content" in content
        if self.encryption is not None and kind == "m.room.message":  # reactions are never encrypted
            kind, content = await self.encryption.encrypt(place.room, kind, content)
        try:
            event = await self.api.send(place.room, kind, content, txn)
        except MatrixError as error:
            if error.kind == "limited":
                self.limits.note(error.wait_s)
            raise
        if edits:
            self.figures.edited += 1
        else:
            self.figures.sent += 1
        return event

    async def related(
        self, journal: ActorRef[JournalMessage], place: RoomPlace, origin: int | None
    ) -> dict[str, Any]:
        """Return what places a message: in its thread, and below the message that it answers."""
        answered = await journal.ask(event_numbered(origin)) if origin else ""
        if place.thread:
            relation: dict[str, Any] = {
                "rel_type": "m.thread",
                "event_id": place.thread,
                "is_falling_back": True,
            }
            relation["m.in_reply_to"] = {"event_id": answered or place.thread}
            return {"m.relates_to": relation}
        return {"m.relates_to": {"m.in_reply_to": {"event_id": answered}}} if answered else {}
