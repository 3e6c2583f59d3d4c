"""A chat as a front end sees it, in this process or over the control socket."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rumi.chats.events import ChatEvent, Replied
from rumi.store.journal.records import Attachment


@dataclass(frozen=True, slots=True)
class PastTurn:
    """What a user said and the answer, in full; the answer is empty where none came."""

    turn: str
    question: str
    answer: str


class ChatSubscription(Protocol):
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

    @property
    def model(self) -> str:
        """The model that works on what is sent."""
        ...

    async def use_model(self, name: str) -> None:
        """Have this model work on what is sent from now on. A `RumiError` says why it cannot."""
        ...

    async def recent(self) -> list[PastTurn]:
        """The last exchanges of the session that goes on, without the turn that runs; oldest first."""
        ...

    async def send(self, text: str, attachments: Sequence[Attachment] = ()) -> int:
        """Store a message (or a command) and hand it to the chat; its number. It will be replied to once."""
        ...

    def subscribe(self) -> ChatSubscription:
        """Listen from now on."""
        ...

    def shown(self, question: str) -> None:
        """A person can read the question of that id: from now on a typed yes or no answers it."""
        ...

    def unasked(self, question: str) -> None:
        """Nobody is there who could answer the question; a no follows."""
        ...

    async def undelivered(self, to: Sequence[int] = ()) -> list[Replied]:
        """Replies stored earlier that no one has acknowledged, oldest first, and all `to` these messages."""
        ...

    async def delivered(self, delivery: int) -> None:
        """A person has it."""
        ...
