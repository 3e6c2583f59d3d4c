"""What a chat tells to whoever watches it: its turns' events, and the final reply to each message."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from rumi.agent import Reason, TurnEvent
from rumi.journal import Enclosure
from rumi.texts import Language


def turn_of(message: int) -> str:
    """The id of the turn that a message becomes: its number, which is used once."""
    return f"t{message}"


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A message became a turn. `message` is its number, `language` the one that its sender reads.

    `origin` is what the message's source calls it, None where it came from no such source. `outside`: it
    hands on what its user did not write.
    """

    text: str
    message: int = 0
    language: Language = "en"
    origin: int | None = None
    outside: bool = False


@dataclass(frozen=True, slots=True)
class Replied:
    """The final reply to a message, already stored in the outbox.

    Every accepted message gets exactly one; `messages` lists those that share it (a message and the
    `/stop` that ended it). `delivery` is what to acknowledge once a person has it. `reason`: how its turn
    ended, in a reply that is told again; None where it was no turn's.
    """

    delivery: int
    messages: tuple[int, ...]
    text: str
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """The process that told this chat is gone; with `back`, another one has taken its place.

    What ran in the old one has ended, and is replied to by the new one. The `note` is for who reads.
    """

    note: str
    back: bool


Happening: TypeAlias = TurnStarted | TurnEvent | Replied | Moved


@dataclass(frozen=True, slots=True)
class ChatEvent:
    """Something that happened in a chat. `turn` is empty outside of turns, `time` is seconds since 1970."""

    chat: str
    turn: str
    time: float
    what: Happening


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

    async def send(self, text: str, enclosures: Sequence[Enclosure] = ()) -> int:
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
