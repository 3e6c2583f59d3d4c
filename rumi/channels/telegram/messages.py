"""Messages that the sender, the poller and the webhook handle."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from actors import Request
from rumi.texts import Language


@dataclass(frozen=True, slots=True)
class Say:
    """Send a text that is not in the outbox. The sender makes one attempt; if it fails, the text is lost."""

    chat: str
    text: str
    reply_to: int | None = None


@dataclass(frozen=True, slots=True)
class DeliverFile(Request[None]):
    """Send a file to the chat, after all queued replies.

    The sender answers when Telegram has accepted the file.

    Cancelling the request stops the upload. The request fails with a `RumiError` if Telegram does not accept
    the file. With `spoken`, the file is speech, which Telegram shows as a voice message if it can.
    """

    chat: str
    name: str
    content: bytes
    spoken: bool = False


@dataclass(frozen=True, slots=True)
class Flush(Request[None]):
    """Wait until every queued reply is sent or cannot be sent now."""


@dataclass(frozen=True, slots=True)
class LookFor:
    """Send the undelivered replies of these chats. Other workers may have stored such replies."""

    chats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TakeChats(Request[None]):
    """Start sending to the chats in these partitions; answered when the chats' stored replies are loaded.

    A partition is a share of all chats; one worker serves it.
    """

    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class LeaveChats(Request[None]):
    """Stop sending to the chats in these partitions; answered when no send to the chats is in progress.

    First, replies that can be sent at once are still sent, for at most `patience_s` seconds. The worker that
    takes over the chats sends the remaining replies.
    """

    partitions: frozenset[int]
    patience_s: float


@dataclass(frozen=True, slots=True)
class Toast:
    """Show a short notice to the person who pressed a button; `query` is Telegram's id of the press.

    The notice also ends the button's loading animation. A notice may be lost.
    """

    query: str
    text: str


@dataclass(frozen=True, slots=True)
class Press:
    """A person pressed a button of a question. `query` is Telegram's id of the press.

    `message` is the number of the message that has the button. `chat` is the chat's id in Rumi, and `number`
    is the chat's Telegram number at the time of the press. `known` is True if the person may talk to the bot.
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
    """Show a person the result of their press. `counts` is True if the press answered the question.

    If the question is no longer pending, its buttons are removed.
    """

    press: Press
    counts: bool


SenderMessage: TypeAlias = Say | DeliverFile | Flush | Toast | Pressed | LookFor | TakeChats | LeaveChats


@dataclass(frozen=True, slots=True)
class StopPolling(Request[None]):
    """Accept no more updates. The receiver answers when all received updates are stored."""


@dataclass(frozen=True, slots=True)
class Deliver(Request[bool]):
    """Store an update that Telegram delivered. The answer is False if the update cannot be stored now.

    After a cancellation the update may or may not be stored.
    """

    update: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AlbumsCame:
    """Other workers have stored parts of albums for chats that this worker serves."""


PollerMessage: TypeAlias = StopPolling
WebhookMessage: TypeAlias = StopPolling | Deliver | AlbumsCame
