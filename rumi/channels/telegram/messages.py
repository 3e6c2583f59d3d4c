"""The messages of the sender, the poller and the webhook."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from actors import Request
from rumi.platform.texts.language import Language


@dataclass(frozen=True, slots=True)
class Say:
    """Words that are not in the outbox: tried once, lost if they cannot be sent."""

    chat: str
    text: str
    reply_to: int | None = None


@dataclass(frozen=True, slots=True)
class DeliverFile(Request[None]):
    """Send a file to the chat, after everything that waits. The reply comes when Telegram has the file.

    Cancelled, the upload ends. Refused with a RumiError if Telegram does not accept the file.
    """

    chat: str
    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Flush(Request[None]):
    """The reply comes when no reply waits that could be sent now."""


@dataclass(frozen=True, slots=True)
class LookFor:
    """Send the replies that wait in these chats."""

    chats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TakeChats(Request[None]):
    """Send in the chats of these partitions. The reply comes when it is known what waits there."""

    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class LeaveChats(Request[None]):
    """Send nothing more in the chats of these partitions. The reply comes when nothing is being sent there.

    Replies that can be sent at once are sent before, for at most `patience_s`. What comes later waits for the
    worker that takes the chats.
    """

    partitions: frozenset[int]
    patience_s: float


@dataclass(frozen=True, slots=True)
class Toast:
    """A short notice for the person who made the press `query`; it also ends the button's animation. It
    may be lost.
    """

    query: str
    text: str


@dataclass(frozen=True, slots=True)
class Press:
    """A person pressed a button of a question. `query` is Telegram's id of the press.

    `message` is the message with the button, in the chat `chat`, whose Telegram number is then `number`.
    `known`: the person may talk to the bot.
    """

    update: int
    query: str
    user: int
    known: bool
    chat: str
    number: int
    message: int
    question: str
    yes: bool
    language: Language


@dataclass(frozen=True, slots=True)
class Pressed:
    """Show a person the result of their press. `counts`: the press was the answer.

    A question that no longer waits loses its buttons.
    """

    press: Press
    counts: bool


SenderMessage: TypeAlias = Say | DeliverFile | Flush | Toast | Pressed | LookFor | TakeChats | LeaveChats


@dataclass(frozen=True, slots=True)
class StopPolling(Request[None]):
    """Take no more updates. The reply comes when those that came are stored."""


@dataclass(frozen=True, slots=True)
class Deliver(Request[bool]):
    """Store an update that Telegram has delivered. The reply is False if it cannot be stored now.

    Cancelled, it is stored or not.
    """

    update: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AlbumsCame:
    """Other workers have stored parts of albums of this one's chats."""


PollerMessage: TypeAlias = StopPolling
WebhookMessage: TypeAlias = StopPolling | Deliver | AlbumsCame
