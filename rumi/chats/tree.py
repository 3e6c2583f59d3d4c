"""The chats' part of the supervision tree."""

from actors import ChildSpec, DynamicSupervisor, Supervisor
from rumi.chats.chat import Chat, Deliver
from rumi.chats.inbox import Inbox
from rumi.chats.means import Means
from rumi.chats.orphans import ChatGaveUp, Settler

IDLE_CHAT_S = 300.0
"""A chat with neither work nor sandbox leaves memory after this time; its next message brings it back."""

SHUTDOWN_S = 15.0
"""How long a chat may take to end: a stopped command is killed, and its sandbox removed, within it."""


def add_chats(root: Supervisor, means: Means) -> Inbox:
    """Add the chats below what they depend on, and return what accepts messages for them."""
    settler = root.add(ChildSpec("settler", lambda: Settler(means), capacity=10_000))

    def give_up(chat: str, error: BaseException) -> None:
        settler.tell_nowait(ChatGaveUp(chat))

    def spec(chat: str) -> ChildSpec[Deliver]:
        return ChildSpec(
            chat, lambda: Chat(chat, means), restart="transient", shutdown=SHUTDOWN_S, idle_s=IDLE_CHAT_S
        )

    return Inbox(means, root.add_supervisor(DynamicSupervisor("chats", spec, on_limit=give_up)))
