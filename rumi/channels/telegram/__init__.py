"""Telegram: updates in, replies out. The only package that uses python-telegram-bot.

`receiving` takes updates, `sending` sends replies, `formatting` makes messages of Markdown, `files` fetches
users' files, `api` is the bot on the wire. `room` is the channel.
"""

from rumi.channels.telegram.api.bot import bot_name
from rumi.channels.telegram.channel import Telegram

__all__ = ["Telegram", "bot_name"]
