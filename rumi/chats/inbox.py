"""How a message gets from a front end to its chat: stored first, then delivered."""

import logging
import re
from dataclasses import dataclass
from functools import partial

import trio

from actors import ActorError, ActorRef, ActorStopped, DynamicSupervisor, MailboxFull
from rumi.chats.chat import Deliver
from rumi.chats.events import Replied
from rumi.chats.hub import HubSubscription
from rumi.chats.means import Means
from rumi.chats.orphans import ChatGaveUp, Stray
from rumi.errors import RumiError, UsageError
from rumi.journal import Accept, Delivered, NewSession, Undelivered

logger = logging.getLogger(__name__)

START_PAUSES_S = (0.1, 0.5, 2.0)
"""Between attempts to start a chat: the journal may be about to come back."""

COMMAND_REPLY_S = 60.0
"""How long a command from outside waits for its reply."""

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

    def __init__(
        self, means: Means, chats: DynamicSupervisor[Deliver], settler: ActorRef[ChatGaveUp | Stray]
    ) -> None:
        self._means = means
        self._chats = chats
        self._settler = settler

    async def accept(self, chat: str, text: str) -> int:
        """Store a message and deliver it; its number. From here on it will have exactly one final reply.

        Cancelled, it has stored the message or has not; what is stored is delivered all the same.

        Raises:
            RumiError: it could not be stored, or the chat does not start.
        """
        in_hand = self._means.in_hand
        await trio.lowlevel.checkpoint_if_cancelled()
        number = in_hand.accept(chat)
        try:
            # A write cannot be called back, only waited for: it lasts as long as the disk takes.
            with trio.CancelScope(shield=True):
                await self._means.journal.ask(Accept(number, chat, text))
        except ActorError as error:
            in_hand.refuse(chat, number)
            raise RumiError("The message could not be stored.", "Send it again.") from error
        bring = partial(self._deliver, chat, Deliver(number, text))
        try:
            await bring()
        except trio.Cancelled:
            try:
                self._settler.tell_nowait(Stray(chat, number, bring))
            except (ActorStopped, MailboxFull):
                in_hand.abandon(number)
            raise
        except Exception as error:
            in_hand.abandon(number)
            raise RumiError(f"The chat {chat} does not start.", "Look at: rumi status") from error
        return number

    async def _deliver(self, chat: str, message: Deliver) -> None:
        """Put the message into the chat's mailbox. Cancelled or failed: it is still on its way."""
        in_hand = self._means.in_hand
        while True:
            actor = await self._actor(chat)
            in_hand.queue(chat, message.id)
            try:
                await actor.tell(message)
            except ActorStopped:  # it went idle in between, or gave up; its successor takes the message
                in_hand.return_(chat, message.id)
            except trio.Cancelled:
                in_hand.return_(chat, message.id)
                raise
            else:
                return

    async def command(self, chat: str, text: str) -> str:
        """Send a chat command, as a front end would, and return its reply.

        Raises:
            RumiError: no reply within `COMMAND_REPLY_S`; the chat goes on.
        """
        with self._means.hub.listening(chat) as events, trio.move_on_after(COMMAND_REPLY_S):
            replied = await events.reply_to(await self.accept(chat, text))
            await self._means.journal.tell(Delivered(replied.delivery))
            return replied.text
        raise RumiError("The chat has not answered yet.", "It goes on; look at: rumi status")

    async def open(self, chat: str) -> None:
        """Start the chat's actor, which settles what earlier processes left open."""
        await self._actor(chat)

    async def _actor(self, chat: str) -> ActorRef[Deliver]:
        """The chat's actor, started if need be, in more than one attempt."""
        for pause in START_PAUSES_S:
            try:
                return await self._chats.get_or_start(chat)
            except ActorStopped:
                raise
            except Exception as error:  # noqa: BLE001  # the last attempt raises what it meets
                logger.warning("chat %s did not start: %r", chat, error)
            await trio.sleep(pause)
        return await self._chats.get_or_start(chat)

    def lookup(self, chat: str) -> ActorRef[Deliver] | None:
        """The chat's actor, if it is in memory."""
        return self._chats.lookup(chat)

    async def begin_anew(self, chat: str) -> None:
        """Begin a new session; the old history stays stored, out of the prompt.

        A chat in memory is ended first, with what it does: it knows the old session.
        """
        await self._chats.stop(chat)
        self._means.in_hand.lose(chat)
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
