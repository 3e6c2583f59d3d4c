"""The interface through which front ends use a chat, in this process or over the control socket."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rumi.chats.events import ChatEvent, Replied
from rumi.store.journal.records import Attachment, StoredSession


@dataclass(frozen=True, slots=True)
class PastTurn:
    """A user's question and the full answer to it; the answer is empty if there is none."""

    turn: str
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A file that a chat has now: its `reference` is the path in the workspace, its `name` the sender's.

    `changed` is True if the file changed while it was read: the chat has what was read of it.
    """

    attachment: Attachment
    changed: bool = False


class ChatSubscription(Protocol):
    """The events of one chat, in order. If the reader is slow, text deltas of a turn may be joined."""

    async def receive(self) -> ChatEvent:
        """Wait for the next event and return it. A cancelled call loses no event."""
        ...

    def close(self) -> None:
        """Unsubscribe."""
        ...


class ChatPort(Protocol):
    """A chat as front ends use it, in this process or over the control socket."""

    @property
    def chat(self) -> str:
        """The chat's id."""
        ...

    @property
    def model(self) -> str:
        """The name of the model that works on the messages sent here."""
        ...

    async def use_model(self, name: str) -> None:
        """Use this model for messages sent from now on.

        Raises:
            RumiError: the model cannot be used.
        """
        ...

    async def recent(self) -> list[PastTurn]:
        """Return the last exchanges of the current session, without the running turn; oldest first."""
        ...

    async def sessions(self) -> list[StoredSession]:
        """Return the chat's sessions that can be reopened, the latest first, and the current one."""
        ...

    async def send(self, text: str, attachments: Sequence[Attachment] = ()) -> int:
        """Store a message or command, wake the chat, and return the message's number. It gets one reply.

        Attached files must be in the chat's workspace already: see `upload`.
        """
        ...

    async def upload(self, attachment: Attachment) -> Uploaded:
        """Store a file of this machine in the chat's workspace; the attachment's `reference` is its path."""
        ...

    def subscribe(self) -> ChatSubscription:
        """Subscribe to the chat's events from now on."""
        ...

    def shown(self, question: str) -> None:
        """Report that a person can read this question; from now on, a typed yes or no answers it."""
        ...

    def unasked(self, question: str) -> None:
        """Report that no person can answer this question; the caller must then answer no."""
        ...

    async def undelivered(self, to: Sequence[int] = ()) -> list[Replied]:
        """Return stored replies that are not acknowledged, and replies `to` these messages; oldest first."""
        ...

    async def delivered(self, delivery: int) -> None:
        """Acknowledge a reply: record that a person has received it."""
        ...
