"""Telegram: updates in, replies out. The only room that knows python-telegram-bot.

`polling` takes updates in, `sending` brings replies out, `formatting` makes messages of Markdown, `files`
fetches what users send, `api` is the bot on the wire. `room` puts them into the tree, `serving` ends them.
"""

from rumi.telegram.naming import bot_name
from rumi.telegram.room import Telegram, open_telegram
from rumi.telegram.serving import listening_to_signals, serve

__all__ = ["Telegram", "bot_name", "listening_to_signals", "open_telegram", "serve"]
