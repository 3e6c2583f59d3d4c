"""Telegram: updates in, replies out. The only room that knows python-telegram-bot.

`poller` takes updates and `reading` says what they mean; `sender` keeps a `lane` for each chat with something
to send; `formatting` turns Markdown into what Telegram shows; `files` brings what users send. `room` puts
them into the tree.
"""

from rumi.telegram.room import Telegram, open_telegram
from rumi.telegram.serving import listening_to_signals, serve

__all__ = ["Telegram", "listening_to_signals", "open_telegram", "serve"]
