"""Telegram: updates in, replies out. The only package that uses python-telegram-bot.

`polling` receives updates, `sending` sends replies, `formatting` makes messages of Markdown, `files` fetches
users' files, `api` is the bot on the wire. `room` adds them to the tree, `serving` runs them until the end.
"""

from rumi.channels.telegram.naming import bot_name
from rumi.channels.telegram.room import Telegram, open_telegram
from rumi.channels.telegram.serving import listening_to_signals, serve

__all__ = ["Telegram", "bot_name", "listening_to_signals", "open_telegram", "serve"]
