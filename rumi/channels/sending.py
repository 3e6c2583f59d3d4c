"""Messages that the senders of channels handle."""

from dataclasses import dataclass

from actors import Request


@dataclass(frozen=True, slots=True)
class DeliverFile(Request[None]):
    """Send a file to the chat. The sender answers when the channel's service has accepted the file.

    Cancelling the request stops the upload. The request fails with a `RumiError` if the service does not
    accept the file. With `spoken`, the file is speech, which Telegram shows as a voice message if it can.
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
