"""Messages that were accepted and that no one will reply to any more: after a crash, after a restart."""

from dataclasses import dataclass

from actors import Actor
from rumi import texts
from rumi.agent import Reason, TurnFinished
from rumi.chats.conversation import ending
from rumi.chats.events import Replied
from rumi.chats.means import Means
from rumi.chats.telling import tell
from rumi.journal import Entry, Load, OpenMessage, Settle


async def settle_orphan(means: Means, chat: str, session: int, message: OpenMessage) -> Entry:
    """Reply to it, and return what stands in the history in place of its answer."""
    crashed = message.id > means.in_hand.boot
    reason: Reason = "crashed" if crashed else "interrupted"
    text = texts.crashed(means.language) if crashed else texts.restarted(means.language, message.text)
    turn = f"t{message.id}"
    entry = ending(turn, reason)
    delivery = await means.journal.ask(Settle(chat, (message.id,), text, reason, session, (entry,)))
    tell(means, chat, turn, TurnFinished(reason, text))
    tell(means, chat, turn, Replied(delivery, (message.id,), text))
    return entry


@dataclass(frozen=True, slots=True)
class ChatGaveUp:
    """A chat has reached its restart limit: what it had accepted is settled for it."""

    chat: str


class Settler(Actor[ChatGaveUp]):
    """Replies in place of chats that cannot be brought back; the next message starts such a chat afresh."""

    def __init__(self, means: Means) -> None:
        self._means = means

    async def receive(self, message: ChatGaveUp) -> None:
        """Settle all that is open in the chat: its mailbox is gone."""
        self._means.in_hand.drop(message.chat)
        record = await self._means.journal.ask(Load(message.chat, 0))
        for orphan in record.open:
            await settle_orphan(self._means, message.chat, record.session, orphan)
