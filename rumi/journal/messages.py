"""What the journal is asked. Every request is one step of a transaction; several may share one commit."""

from dataclasses import dataclass
from typing import TypeAlias

from actors import Request
from rumi.agent import Reason
from rumi.journal.records import (
    ChatRecord,
    DueSessions,
    Enclosure,
    Entry,
    Figures,
    Lesson,
    OpenMessage,
    StoredReply,
    Summary,
)

SEEN_S = 48 * 3600.0
"""How long an update's number is remembered: its source keeps updates for half that time, and may begin to
number afresh after a quiet week, so neither "greater than the last" nor "ever seen" would do."""


@dataclass(frozen=True, slots=True)
class Accept(Request[None]):
    """Store a message before anything is done about it. Its number is the caller's, used once."""

    id: int
    chat: str
    text: str


@dataclass(frozen=True, slots=True)
class Incoming:
    """One thing that a front end took from a source which repeats things when in doubt.

    `update` is the source's number of it. Without an `id` nothing else of it is kept. An `answer` is its
    final reply, stored with it.
    """

    update: int
    id: int = 0
    chat: str = ""
    text: str = ""
    language: str = ""
    origin: int | None = None
    enclosures: tuple[Enclosure, ...] = ()
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class AcceptAll(Request[tuple[int | None, ...]]):
    """Store a whole batch, or nothing of it.

    For each, in order: None if its update was seen within `SEEN_S`, and then it is not stored again;
    otherwise the delivery of its answer, 0 where it brings none.
    """

    batch: tuple[Incoming, ...]


@dataclass(frozen=True, slots=True)
class Begin(Request[None]):
    """A message became a turn of a session, which begins with `entries`. `retries` is run again by it."""

    chat: str
    message: int
    turn: str
    session: int
    entries: tuple[Entry, ...] = ()
    retries: int | None = None


@dataclass(frozen=True, slots=True)
class Append(Request[None]):
    """More history, as it happens."""

    chat: str
    session: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Settle(Request[int]):
    """The final reply to messages, and the state that goes with it, in one transaction.

    The first of them is the one that was worked on, and `reason` how that ended. Replies with the
    delivery's number. A message that has its reply already keeps it. `due` moves the session's end; it is
    None where the session has not changed.
    """

    chat: str
    messages: tuple[int, ...]
    text: str
    reason: Reason | None = None
    session: int = 0
    entries: tuple[Entry, ...] = ()
    due: float | None = None


@dataclass(frozen=True, slots=True)
class Delivered(Request[None]):
    """A person has the reply."""

    delivery: int


@dataclass(frozen=True, slots=True)
class PartSent(Request[None]):
    """A person has the first `parts` parts of the reply."""

    delivery: int
    parts: int


@dataclass(frozen=True, slots=True)
class Undeliverable(Request[None]):
    """The chat's waiting replies, or only the one `delivery`, can reach nobody any more; `why` is kept."""

    chat: str
    why: str
    delivery: int | None = None


@dataclass(frozen=True, slots=True)
class Previewed(Request[None]):
    """The answer to a message grows in what its source calls `preview`; None: it is not there any more.

    A negative number: it is there, may change at any time, and has to go.
    """

    message: int
    preview: int | None


@dataclass(frozen=True, slots=True)
class Undelivered(Request[tuple[StoredReply, ...]]):
    """The chat's replies that no one has yet, oldest first."""

    chat: str


@dataclass(frozen=True, slots=True)
class Waiting(Request[tuple[str, ...]]):
    """The chats with replies that no one has yet."""


@dataclass(frozen=True, slots=True)
class Load(Request[ChatRecord]):
    """All that is known of a chat. `limit` is how many of the latest history entries are wanted."""

    chat: str
    limit: int


@dataclass(frozen=True, slots=True)
class NewSession(Request[int]):
    """End the chat's session and begin another; its number.

    `forget` deletes all history as well: at once, or, with `learn`, where there is something to learn from,
    as soon as that is done.
    """

    chat: str
    forget: bool = False
    learn: bool = False


@dataclass(frozen=True, slots=True)
class Summarize(Request[bool]):
    """Let a summary stand for the beginning of a session, in place of the one before; False if it ended."""

    chat: str
    session: int
    summary: Summary


@dataclass(frozen=True, slots=True)
class ToLearn(Request[DueSessions]):
    """Where there is something to learn from: sessions that have ended, are overdue, or were asked for.

    Only those of one chat, if one is named. With `going_on`, also those that are not due yet.
    """

    chat: str | None = None
    going_on: bool = False


@dataclass(frozen=True, slots=True)
class Study(Request[Lesson]):
    """What was said in a session and was not learned from yet."""

    chat: str
    session: int


@dataclass(frozen=True, slots=True)
class LearnedFrom(Request[None]):
    """A session was learned from, up to that entry of its history; what is to be forgotten goes now."""

    chat: str
    session: int
    upto: int


@dataclass(frozen=True, slots=True)
class PutOff(Request[None]):
    """To learn from a session has failed; it is not due again before `until`, in seconds since 1970."""

    chat: str
    session: int
    until: float


@dataclass(frozen=True, slots=True)
class AskToLearn(Request[None]):
    """Learn from the session of the chat, or of all chats, now, although it goes on.

    With `anew` also what was put off, as often as it was tried already.
    """

    chat: str | None = None
    anew: bool = False


@dataclass(frozen=True, slots=True)
class LearnNothing(Request[None]):
    """Delete what is to be forgotten without learning from it.

    With `ever`, there is nothing to learn from anything that was said so far.
    """

    ever: bool = False


@dataclass(frozen=True, slots=True)
class MarkFiles(Request[None]):
    """Something in the chat's files came from outside from now on, or nothing any more."""

    chat: str
    tainted: bool


@dataclass(frozen=True, slots=True)
class Retriable(Request[OpenMessage | None]):
    """The last message of this session that became a turn, did not complete, and was not run again."""

    chat: str


@dataclass(frozen=True, slots=True)
class OpenChats(Request[tuple[str, ...]]):
    """The chats with messages that lack a final reply."""


@dataclass(frozen=True, slots=True)
class Count(Request[Figures]):
    """Sizes for the status dump."""


JournalMessage: TypeAlias = (
    Accept
    | AcceptAll
    | Begin
    | Append
    | Settle
    | Delivered
    | PartSent
    | Undeliverable
    | Previewed
    | Waiting
    | Undelivered
    | Load
    | NewSession
    | Summarize
    | ToLearn
    | Study
    | LearnedFrom
    | PutOff
    | AskToLearn
    | LearnNothing
    | MarkFiles
    | Retriable
    | OpenChats
    | Count
)
