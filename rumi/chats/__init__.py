"""Chats: one actor each, with a mailbox, a history, a sandbox, and at most one turn."""

from rumi.chats.calls import gist, title_of
from rumi.chats.commands import NAMES as COMMAND_NAMES
from rumi.chats.commands import asks_first
from rumi.chats.events import (
    VERSION,
    ChatEvent,
    Happening,
    Moved,
    NotUnderstood,
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
from rumi.chats.leaving import leave
from rumi.chats.local import ChatPort, LocalChat, Subscription
from rumi.chats.pending import PendingMessages
from rumi.chats.publishing import recorded
from rumi.chats.services import ChatLimits, ChatServices, ChatView, Sandboxes
from rumi.chats.session import ended

__all__ = [
    "COMMAND_NAMES",
    "VERSION",
    "ChatEvent",
    "ChatLimits",
    "ChatPort",
    "ChatServices",
    "ChatView",
    "Happening",
    "Hub",
    "HubSubscription",
    "Inbox",
    "LocalChat",
    "Moved",
    "NotUnderstood",
    "PendingMessages",
    "Replied",
    "Sandboxes",
    "Subscription",
    "TurnStarted",
    "TurnState",
    "add_chats",
    "asks_first",
    "ended",
    "from_json",
    "gist",
    "leave",
    "made",
    "picked",
    "plain",
    "recorded",
    "reply_to",
    "title_of",
    "to_json",
    "turn_of",
]
