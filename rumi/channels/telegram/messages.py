"""Messages that the sender, the poller and the webhook handle."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from actors import Request
from rumi.channels.sending import DeliverFile, Flush, LeaveChats, LookFor, TakeChats
from rumi.texts import Language


@dataclass(frozen=True, slots=True)
class Say:
    """Send a text that is not in the outbox. The sender makes one attempt; if it fails, the text is lost."""

    chat: str
    text: str
    reply_to: int | None = None


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
