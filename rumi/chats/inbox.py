"""How a message gets from a front end to its chat: stored first, then delivered."""

import re
from dataclasses import dataclass

from actors import ActorRef, ActorStopped, DynamicSupervisor
from rumi.chats.chat import Deliver
from rumi.chats.events import Replied
from rumi.chats.hub import HubSubscription
from rumi.chats.means import Means
from rumi.errors import UsageError
from rumi.journal import Accept, Delivered, NewSession, Undelivered

CHAT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_chat_id(chat: str) -> str:
    """The id, if it is one.

    Raises:
        UsageError: other characters, or too long.
    """
    if CHAT_ID.fullmatch(chat) is None:
        raise UsageError(
            f"{chat!r} is no chat id.", "Use up to 64 letters, digits, - and _, for example: work-notes."
        )
    return chat


def check_chosen_chat_id(chat: str) -> str:
    """The id, if it is one that a client may choose.

    Raises:
        UsageError: no chat id, or one of Telegram's.
    """
    if check_chat_id(chat).startswith("tg"):
        raise UsageError(f"{chat!r} would be one of Telegram's chats.", "Choose a name without tg in front.")
    return chat


class Inbox:
    """Accepts messages for all chats, and starts a chat's actor where it is needed."""

    def __init__(self, means: Means, chats: DynamicSupervisor[Deliver]) -> None:
        self._means = means
        self._chats = chats

    async def accept(self, chat: str, text: str) -> int:
        """Store a message and deliver it; its number. From here on it will have exactly one final reply.

        Raises:
            ActorStopped: the program is ending, or the journal cannot write; nothing was accepted.
        """
        number = self._means.in_hand.accept(chat)
        try:
            await self._means.journal.ask(Accept(number, chat, text))
            await self._deliver(chat, Deliver(number, text))
        except BaseException:
            # What was stored all the same is nobody's now: the chat's next start replies to it.
            self._means.in_hand.take(chat, number)
            raise
        return number

    async def _deliver(self, chat: str, message: Deliver) -> None:
        while True:
            actor = await self._chats.get_or_start(chat)
            try:
                await actor.tell(message)
            except ActorStopped:
                continue  # it went idle in between; its successor takes the message
            return

    async def open(self, chat: str) -> None:
        """Start the chat's actor, which settles what earlier processes left open."""
        await self._chats.get_or_start(chat)

    def lookup(self, chat: str) -> ActorRef[Deliver] | None:
        """The chat's actor, if it is in memory."""
        return self._chats.lookup(chat)

    async def begin_anew(self, chat: str) -> None:
        """Begin a new session; the old history stays stored, out of the prompt."""
        await self._means.journal.ask(NewSession(chat))


@dataclass(frozen=True, slots=True)
class LocalChat:
    """A chat of this process, as a front end sees it."""

    chat: str
    inbox: Inbox
    means: Means

    async def send(self, text: str) -> int:
        """Store a message or a command and hand it to the chat; its number."""
        return await self.inbox.accept(self.chat, text)

    def subscribe(self) -> HubSubscription:
        """Listen from now on."""
        return self.means.hub.subscribe(self.chat)

    async def undelivered(self) -> list[Replied]:
        """Replies that no one has acknowledged, oldest first; earlier processes' included."""
        await self.inbox.open(self.chat)
        stored = await self.means.journal.ask(Undelivered(self.chat))
        return [Replied(reply.delivery, reply.messages, reply.text) for reply in stored]

    async def delivered(self, delivery: int) -> None:
        """A person has it."""
        await self.means.journal.tell(Delivered(delivery))
