"""What the journal is asked. Every request is one step of a transaction; several may share one commit."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from actors import Request
from rumi.agent import Reason
from rumi.models import Message

SEEN_S = 48 * 3600.0
"""How long an update's number is remembered: its source keeps updates for half that time, and may begin to
number afresh after a quiet week, so neither "greater than the last" nor "ever seen" would do."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a chat's history, with the turn that it belongs to."""

    turn: str
    message: Message
    tainted: bool = False


@dataclass(frozen=True, slots=True)
class Enclosure:
    """Something that comes with a message and is brought when the message is worked on.

    `reference` is how its source finds it again; `name` is the sender's, who may have called it anything;
    `size_bytes` is what the source said, None where it did not.
    """

    kind: Literal["file", "voice"]
    reference: str
    name: str
    media_type: str = ""
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class OpenMessage:
    """An accepted message without a final reply, or one to run again. `turn` is empty if it began none.

    `language` is empty where the message came without one.
    """

    id: int
    text: str
    turn: str = ""
    language: str = ""
    enclosures: tuple[Enclosure, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A final reply in the outbox, and the messages that share it.

    `turn` is the one that it ends, for `reason`; both are empty for a reply that ends none. `origin` is what
    the source calls the first of the messages, None where none of them came from there; `preview` what
    the source calls the message in which the answer grew, negative if that has to go; `parts` how much of
    the reply is there already.
    """

    delivery: int
    messages: tuple[int, ...]
    text: str
    turn: str = ""
    reason: Reason | None = None
    origin: int | None = None
    preview: int | None = None
    parts: int = 0


@dataclass(frozen=True, slots=True)
class ChatRecord:
    """What the journal knows of a chat: its session, that session's history, and what is still open.

    `due` is when the session ends if nothing happens, in seconds since 1970; 0 for a new one.
    """

    session: int
    due: float
    history: tuple[Entry, ...]
    open: tuple[OpenMessage, ...]


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
    """End the chat's session and begin another; its number. `forget` deletes all history as well."""

    chat: str
    forget: bool = False


@dataclass(frozen=True, slots=True)
class Retriable(Request[OpenMessage | None]):
    """The last message of this session that became a turn, did not complete, and was not run again."""

    chat: str


@dataclass(frozen=True, slots=True)
class OpenChats(Request[tuple[str, ...]]):
    """The chats with messages that lack a final reply."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Sizes for the status dump."""

    last_message: int
    open_messages: int
    undelivered: int
    bytes: int


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
    | Retriable
    | OpenChats
    | Count
)
