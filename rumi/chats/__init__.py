"""The chat actor: a mailbox, a history, a sandbox, and at most one turn."""

from rumi.chats.events import ChatEvent, ChatPort, Happening, Replied, Subscription, TurnStarted

__all__ = ["ChatEvent", "ChatPort", "Happening", "Replied", "Subscription", "TurnStarted"]
