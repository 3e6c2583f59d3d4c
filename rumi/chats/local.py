"""A chat as a front end uses it: in this process, or over the control socket."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from actors import ActorRef
from rumi.chats.events import ChatEvent, Replied
from rumi.chats.hub import Hub, HubSubscription
from rumi.chats.inbox import Inbox
from rumi.journal import Attachment, Delivered, JournalMessage, Undelivered
from rumi.texts import Language


class Subscription(Protocol):
    """The events of one chat, in order. Text deltas of one turn may be joined when the reader is slow."""

    async def receive(self) -> ChatEvent:
        """The next event. A cancelled receive loses nothing."""
        ...

    def close(self) -> None:
        """Stop listening."""
        ...


class ChatPort(Protocol):
    """A chat as a front end sees it, in this process or over the control socket."""

    @property
    def chat(self) -> str:
        """The chat's id."""
        ...

    async def send(self, text: str, attachments: Sequence[Attachment] = ()) -> int:
        """Store a message (or a command) and hand it to the chat; its number. It will be replied to once."""
        ...

    def subscribe(self) -> Subscription:
        """Listen from now on."""
        ...

    def shown(self, question: str) -> None:
        """A person can read the question of that id: from now on a typed yes or no answers it."""
        ...

    async def undelivered(self) -> list[Replied]:
        """Replies stored earlier that no one has acknowledged, oldest first."""
        ...

    async def delivered(self, delivery: int) -> None:
        """A person has it."""
        ...


@dataclass(frozen=True, slots=True)
class LocalChat:
    """A chat of this process, for a front end. `language` is its reader's; None: the configured one.

    `apart`: each message's turn has a history of its own, beside the chat's session.
    """

    chat: str
    inbox: Inbox
    hub: Hub
    journal: ActorRef[JournalMessage]
    language: Language | None = None
    apart: bool = False

    async def send(self, text: str, attachments: Sequence[Attachment] = ()) -> int:
        """Store a message or a command and hand it to the chat; its number."""
        return await self.inbox.accept(self.chat, text, self.language, attachments, apart=self.apart)

    def subscribe(self) -> HubSubscription:
        """Listen from now on, and to what its turn is at."""
        return self.hub.subscribe(self.chat, entering=True)

    def shown(self, question: str) -> None:
        """A person can read the question."""
        self.hub.has_shown(question)

    async def undelivered(self) -> list[Replied]:
        """Replies that no one has acknowledged, oldest first; earlier processes' included."""
        await self.inbox.open(self.chat)
        stored = await self.journal.ask(Undelivered(self.chat))
        return [Replied(reply.delivery, reply.messages, reply.text, reply.reason) for reply in stored]

    async def delivered(self, delivery: int) -> None:
        """A person has it."""
        await self.journal.tell(Delivered(delivery))
