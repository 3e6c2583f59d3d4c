"""A chat's current session: what was said in it, kept in step with the journal."""

from collections.abc import Sequence

from actors import ActorRef
from rumi.agent import Reason
from rumi.journal import Append, ChatRecord, Enclosure, Entry, JournalMessage, Load, NewSession
from rumi.models import Message

LOADED_PER_MESSAGE = 8
"""History entries read at the start for each message that the prompt may hold: enough to cut from."""


class Conversation:
    """The session's number, when it is due to end, and its history."""

    def __init__(self, chat_id: str, journal: ActorRef[JournalMessage], history_messages: int) -> None:
        self._chat = chat_id
        self._journal = journal
        self._limit = LOADED_PER_MESSAGE * history_messages
        self.session = 0
        self.due = 0.0
        self.entries: tuple[Entry, ...] = ()

    async def load(self) -> ChatRecord:
        """Read what the journal knows."""
        record = await self._journal.ask(Load(self._chat, self._limit))
        self.session, self.due, self.entries = record.session, record.due, record.history
        return record

    async def begin_anew(self, *, forget: bool) -> None:
        """Start another session with an empty history; `forget` deletes the old one from the disk too."""
        self.session = await self._journal.ask(NewSession(self._chat, forget=forget))
        self.due, self.entries = 0.0, ()

    async def keep(self, turn: str, message: Message) -> None:
        """Append a message; it is on the disk when this returns."""
        entry = Entry(turn, message)
        self.remember(entry)
        await self._journal.ask(Append(self._chat, self.session, (entry,)))

    def remember(self, *entries: Entry) -> None:
        """Append what the journal stores by itself, with a reply."""
        self.entries = (*self.entries, *entries)[-self._limit :]


def opening(text: str, enclosures: Sequence[Enclosure]) -> str:
    """What the history has of a message before anything that came with it is there."""
    return f"[The user sends: {described('', enclosures)}]" if enclosures else text


def described(text: str, enclosures: Sequence[Enclosure]) -> str:
    """A message in words: its own, or the names of what came with it."""
    return text.strip() or ", ".join(enclosure.name for enclosure in enclosures)


def ending(turn: str, reason: Reason) -> Entry:
    """What stands in the history in place of an answer that never came."""
    return Entry(turn, Message("assistant", f"[{reason}: this attempt ended without an answer]"))
