"""Chats: one actor each, with a mailbox, a history, a sandbox, and at most one turn."""

from rumi.chats.commands import NAMES as COMMAND_NAMES
from rumi.chats.commands import RESET_FILES, ChatCommand, asks_first
from rumi.chats.context import ChatContext, ChatLimits, ChatView
from rumi.chats.events import (
    MOST_STEPS,
    VERSION,
    ChatEvent,
    Happening,
    Moved,
    NotUnderstood,
    Queued,
    Replied,
    TurnStarted,
    TurnState,
    from_json,
    made,
    picked,
    plain,
    to_json,
    turn_of,
)
from rumi.chats.hub import Hub, HubSubscription, reply_to
from rumi.chats.inbox import Inbox, add_chats
from rumi.chats.lessons import Lessons, add_lessons
from rumi.chats.local import ChatPort, Exchange, LocalChat, Subscription
from rumi.chats.publishing import PendingMessages, Publisher, recorded
from rumi.chats.services import Carrying, ChatServices, NotCarried, RoomCommands, Sandboxes, Undo, Workspaces
from rumi.chats.serving import chats_calls
from rumi.chats.session import ended
from rumi.chats.status import gist, title_of
from rumi.chats.undo_sweep import UndoSweep

__all__ = [
    "COMMAND_NAMES",
    "MOST_STEPS",
    "RESET_FILES",
    "VERSION",
    "Carrying",
    "ChatCommand",
    "ChatContext",
    "ChatEvent",
    "ChatLimits",
    "ChatPort",
    "ChatServices",
    "ChatView",
    "Exchange",
    "Happening",
    "Hub",
    "HubSubscription",
    "Inbox",
    "Lessons",
    "LocalChat",
    "Moved",
    "NotCarried",
    "NotUnderstood",
    "PendingMessages",
    "Publisher",
    "Queued",
    "Replied",
    "RoomCommands",
    "Sandboxes",
    "Subscription",
    "TurnStarted",
    "TurnState",
    "Undo",
    "UndoSweep",
    "Workspaces",
    "add_chats",
    "add_lessons",
    "asks_first",
    "chats_calls",
    "ended",
    "from_json",
    "gist",
    "made",
    "picked",
    "plain",
    "recorded",
    "reply_to",
    "title_of",
    "to_json",
    "turn_of",
]
