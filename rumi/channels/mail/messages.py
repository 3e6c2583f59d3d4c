"""Messages of the actor that sends mails."""

from dataclasses import dataclass
from typing import TypeAlias

from actors import Request


@dataclass(frozen=True, slots=True)
class DeliverFile(Request[None]):
    """Send a file to the chat's person, in a mail of its own.

    Fails with a `RumiError` if it was not sent, or if nobody knows. Cancelling the request before the mail is
    handed over sends nothing.
    """

    chat: str
    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Flush(Request[None]):
    """Wait until every reply is sent or cannot be sent now."""


@dataclass(frozen=True, slots=True)
class LookFor:
    """Send the undelivered replies of these chats. Other workers may have stored such replies."""

    chats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TakeChats(Request[None]):
    """Start to send to the chats in these partitions."""

    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class LeaveChats(Request[None]):
    """Stop sending to the chats in these partitions; answered when no send to them is in progress."""

    partitions: frozenset[int]
    patience_s: float


SenderMessage: TypeAlias = DeliverFile | Flush | LookFor | TakeChats | LeaveChats
