"""The chats' part of the supervision tree."""

from dataclasses import replace

from actors import ChildSpec, DynamicSupervisor, Supervisor
from rumi.chats.chat import Chat, ChatMessage
from rumi.chats.inbox import Inbox
from rumi.chats.learning import Learner
from rumi.chats.means import Failed, Means
from rumi.chats.orphans import ChatGaveUp, Settler
from rumi.texts import told_error

IDLE_CHAT_S = 300.0
"""A chat with neither work nor sandbox leaves memory after this time; its next message brings it back."""

SHUTDOWN_S = 15.0
"""How long a chat waits at its end for the removal of its sandbox, which otherwise goes on behind."""


def add_chats(root: Supervisor, means: Means) -> Inbox:
    """Add the chats below what they depend on, and return what accepts messages for them."""
    if means.memory is not None:
        learner = root.add(ChildSpec("learner", lambda: Learner(means), capacity=1024))
        return _add_chats(root, replace(means, learner=learner))
    return _add_chats(root, means)


def _add_chats(root: Supervisor, means: Means) -> Inbox:
    async def open_chat(chat: str) -> None:
        await inbox.open(chat)

    settler = root.add(ChildSpec("settler", lambda: Settler(means, open_chat), capacity=10_000))

    def give_up(chat: str, error: BaseException) -> None:
        means.failed[chat] = Failed(means.now(), told_error("en", error))
        means.in_hand.lose(chat)  # in the step in which its mailbox was closed
        settler.tell_nowait(ChatGaveUp(chat))

    def spec(chat: str) -> ChildSpec[ChatMessage]:
        return ChildSpec(
            chat, lambda: Chat(chat, means), restart="transient", shutdown=SHUTDOWN_S, idle_s=IDLE_CHAT_S
        )

    chats = root.add_supervisor(DynamicSupervisor("chats", spec, on_limit=give_up))
    inbox = Inbox(means, chats, settler)
    return inbox
