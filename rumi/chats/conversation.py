"""A chat's session: what was said in it, and what of it came from outside; in step with the journal."""

from collections.abc import Sequence

from actors import ActorRef
from rumi.agent import Kept, Reason
from rumi.journal import (
    Append,
    ChatRecord,
    Enclosure,
    Entry,
    JournalMessage,
    Load,
    MarkFiles,
    NewSession,
    Summary,
)
from rumi.models import Message

LOADED_PER_MESSAGE = 8
"""History entries read at the start for each message that the prompt may hold: enough to cut from."""


class Conversation:
    """The session's number, when it is due to end, and its history.

    `tainted`: something in the session came from outside, also where its history is cut by now.
    `files_tainted`: something in the chat's files did, in whichever session. `summary` stands for
    what was said before the `entries`. `room` is how many tokens of history the last turn could have.
    """

    def __init__(self, chat_id: str, journal: ActorRef[JournalMessage], history_messages: int) -> None:
        self._chat = chat_id
        self._journal = journal
        self._limit = LOADED_PER_MESSAGE * history_messages
        self.session = 0
        self.due = 0.0
        self.entries: tuple[Entry, ...] = ()
        self.summary: Summary | None = None
        self.room: int | None = None
        self.tainted = False
        self.files_tainted = False

    @property
    def given(self) -> frozenset[str]:
        """The addresses that the user or a page gave, as far back as the history is in memory."""
        summed_up = self.summary.links if self.summary is not None else ()
        return frozenset(summed_up).union(*(entry.links for entry in self.entries))

    async def load(self) -> ChatRecord:
        """Read what the journal knows."""
        record = await self._journal.ask(Load(self._chat, self._limit))
        self.session, self.due, self.entries = record.session, record.due, record.history
        self.summary = record.summary
        self.tainted, self.files_tainted = record.tainted, record.files_tainted
        return record

    async def begin_anew(self, *, forget: bool, learn: bool = False) -> None:
        """Start another session with an empty history.

        `forget` deletes the old one from the disk too; with `learn`, as soon as it was learned from.
        """
        self.session = await self._journal.ask(NewSession(self._chat, forget=forget, learn=learn))
        self.due, self.entries, self.summary, self.tainted = 0.0, (), None, False

    def stand_in(self, session: int, summary: Summary) -> None:
        """Let a summary that is stored stand for the entries up to the end of its turn."""
        if session != self.session:
            return
        self.summary = summary
        ends = [place for place, entry in enumerate(self.entries, 1) if entry.turn == summary.turn]
        self.entries = self.entries[max(ends, default=0) :]

    async def mark_files(self, tainted: bool) -> None:
        """Something in the files came from outside, or nothing any more; on the disk when this returns."""
        if tainted:
            self.files_tainted = True
        await self._journal.ask(MarkFiles(self._chat, tainted))
        self.files_tainted = tainted

    async def keep(self, turn: str, kept: Kept) -> None:
        """Append a message; it is on the disk when this returns."""
        entry = Entry(turn, kept.message, kept.tainted, kept.links)
        self.remember(entry)
        await self._journal.ask(Append(self._chat, self.session, (entry,)))

    def remember(self, *entries: Entry) -> None:
        """Append what the journal stores by itself, with a turn's beginning or its reply."""
        self.entries = (*self.entries, *entries)[-self._limit :]
        self.tainted = self.tainted or any(entry.tainted for entry in entries)


def opening(text: str, enclosures: Sequence[Enclosure]) -> str:
    """What the history has of a message before anything that came with it is there."""
    return f"[The user sends: {described('', enclosures)}]" if enclosures else text


def described(text: str, enclosures: Sequence[Enclosure]) -> str:
    """A message in words: its own, or the names of what came with it."""
    return text.strip() or ", ".join(enclosure.name for enclosure in enclosures)


def ending(turn: str, reason: Reason) -> Entry:
    """What stands in the history in place of an answer that never came."""
    return Entry(turn, Message("assistant", f"[{reason}: this attempt ended without an answer]"))
