"""What the journal is asked. Every request is one step of a transaction; several may share one commit."""

from dataclasses import dataclass
from typing import TypeAlias

from actors import Request
from rumi.agent import Reason
from rumi.models import Message


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a chat's history, with the turn that it belongs to."""

    turn: str
    message: Message
    tainted: bool = False


@dataclass(frozen=True, slots=True)
class OpenMessage:
    """An accepted message without a final reply, or one to run again. `turn` is empty if it began none."""

    id: int
    text: str
    turn: str = ""


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A final reply in the outbox, and the messages that share it.

    `turn` is the one that it ends, for `reason`; both are empty for a reply that ends none.
    """

    delivery: int
    messages: tuple[int, ...]
    text: str
    turn: str = ""
    reason: Reason | None = None


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
class Delivered:
    """A person has the reply."""

    delivery: int


@dataclass(frozen=True, slots=True)
class Undelivered(Request[tuple[StoredReply, ...]]):
    """The chat's replies that no one has yet, oldest first."""

    chat: str


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
    | Begin
    | Append
    | Settle
    | Delivered
    | Undelivered
    | Load
    | NewSession
    | Retriable
    | OpenChats
    | Count
)
