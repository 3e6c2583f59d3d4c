"""What the sender and the poller are asked."""

from dataclasses import dataclass
from typing import TypeAlias

from actors import Request
from rumi.errors import RumiError


@dataclass(frozen=True, slots=True)
class Say:
    """Words that stand in no outbox: tried once, lost if they cannot be sent."""

    chat: str
    text: str
    reply_to: int | None = None


@dataclass(frozen=True, slots=True)
class SendFile(Request[RumiError | None]):
    """Send a file to the chat, behind what it was sent before. Answered when Telegram has it.

    Cancelled, the upload ends. The answer is None, or the error that says why Telegram does not have it.
    """

    chat: str
    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Flush(Request[None]):
    """Answered when no reply waits to be sent that could be sent now."""


SenderMessage: TypeAlias = Say | SendFile | Flush


@dataclass(frozen=True, slots=True)
class StopPolling(Request[None]):
    """Take no more updates. Answered when the last poll has ended and what it brought is stored."""


PollerMessage: TypeAlias = StopPolling
