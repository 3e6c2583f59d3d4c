"""How a stored message gets into its chat's mailbox, whose actor may have to be started first."""

import logging
from collections import deque
from functools import partial

import trio

from actors import ActorRef, ActorStopped, DynamicSupervisor, MailboxFull
from rumi.chats.chat import ChatMessage, Deliver
from rumi.chats.means import InHand
from rumi.chats.orphans import ChatGaveUp, Stray

logger = logging.getLogger(__name__)

START_PAUSES_S = (0.1, 0.5, 2.0)
"""Between attempts to start a chat: the journal may be about to come back."""


class Delivery:
    """Brings messages to chats. `stray` is what waits, by chat, while somebody else brings it there."""

    def __init__(
        self,
        in_hand: InHand,
        chats: DynamicSupervisor[ChatMessage],
        settler: ActorRef[ChatGaveUp | Stray],
    ) -> None:
        self._in_hand = in_hand
        self._chats = chats
        self._settler = settler
        self.stray: dict[str, deque[Deliver]] = {}

    def forward(self, chat: str, message: Deliver) -> None:
        """Put the message into its chat's mailbox now, or have it brought there behind what waits already."""
        waiting = self.stray.get(chat)
        if waiting is not None:
            waiting.append(message)
        elif not self._put(chat, message):
            self.stray[chat] = deque([message])
            try:
                self._settler.tell_nowait(Stray(chat, partial(self._bring, chat)))
            except (ActorStopped, MailboxFull):
                del self.stray[chat]
                self._in_hand.abandon(message.id)

    def _put(self, chat: str, message: Deliver) -> bool:
        """Put the message into the mailbox of a chat that is there and has room."""
        actor = self._chats.lookup(chat)
        if actor is None:
            return False
        self._in_hand.queue(chat, message.id)
        try:
            actor.tell_nowait(message)
        except (ActorStopped, MailboxFull):
            self._in_hand.return_(chat, message.id)
            return False
        return True

    async def _bring(self, chat: str) -> None:
        """Deliver what waits for the chat, in its order."""
        waiting = self.stray[chat]
        try:
            while waiting:
                await self.deliver(chat, waiting[0])
                waiting.popleft()
        finally:  # what could not be delivered is open in the journal, and nobody's
            del self.stray[chat]
            for message in waiting:
                self._in_hand.abandon(message.id)

    async def deliver(self, chat: str, message: Deliver) -> None:
        """Put the message into the chat's mailbox. Cancelled or failed: it is still on its way."""
        while True:
            actor = await self.start(chat)
            self._in_hand.queue(chat, message.id)
            try:
                await actor.tell(message)
            except ActorStopped:  # it went idle in between, or gave up; its successor takes the message
                self._in_hand.return_(chat, message.id)
            except trio.Cancelled:
                self._in_hand.return_(chat, message.id)
                raise
            else:
                return

    async def start(self, chat: str) -> ActorRef[ChatMessage]:
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
