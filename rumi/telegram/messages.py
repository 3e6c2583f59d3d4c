"""What the sender and the poller are asked."""

from dataclasses import dataclass
from typing import TypeAlias

from actors import Request
from rumi.texts import Language


@dataclass(frozen=True, slots=True)
class Say:
    """Words that stand in no outbox: tried once, lost if they cannot be sent."""

    chat: str
    text: str
    reply_to: int | None = None


@dataclass(frozen=True, slots=True)
class SendFile(Request[None]):
    """Send a file to the chat, behind what it was sent before. Answered when Telegram has it.

    Cancelled, the upload ends. Refused with a RumiError that says why Telegram does not have it.
    """

    chat: str
    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Flush(Request[None]):
    """Answered when no reply waits to be sent that could be sent now."""


@dataclass(frozen=True, slots=True)
class Toast:
    """A line for whoever made the press `query`, which also lets the button rest. Lost if need be."""

    query: str
    text: str


@dataclass(frozen=True, slots=True)
class Pressed:
    """Somebody pressed a button of `question`, which hangs on a message: tell them what came of it.

    `number` is what Telegram called the chat then.
    `counts`: it was the answer. A question that does not wait any more loses its buttons.
    """

    chat: str
    number: int
    message: int
    query: str
    question: str
    yes: bool
    counts: bool
    language: Language


SenderMessage: TypeAlias = Say | SendFile | Flush | Toast | Pressed


@dataclass(frozen=True, slots=True)
class StopPolling(Request[None]):
    """Take no more updates. Answered when the last poll has ended and what it brought is stored."""


PollerMessage: TypeAlias = StopPolling
