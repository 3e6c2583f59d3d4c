"""Channels: the ways in which messages come in and replies go out.

A `Channel` is plugged into a running Rumi (`open_app(channels=…)`): Telegram, the page. The terminal needs no
place in the tree: it talks to chats of its own process, or of another one over the control socket.
"""

from rumi.channels.channel import Channel, Process, Reached
from rumi.chat_ids import ChatIds, Prefix

TELEGRAM = Prefix("tg", "Telegram", numbers=True, groups="-", bots=True)

BUILT_IN = ChatIds((TELEGRAM,))
"""The chat ids of Rumi's own channels, known without loading one: also where none of them runs, their chats
keep their owners, and no client chooses their ids."""

__all__ = ["BUILT_IN", "TELEGRAM", "Channel", "Process", "Reached"]
