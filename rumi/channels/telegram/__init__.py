"""Telegram: receives updates and sends replies. The only package that uses python-telegram-bot.

`receiving` accepts updates, `sending` sends replies, `formatting` converts Markdown to messages, `files`
downloads users' files, and `api` wraps the Bot API. `channel` combines them into the Telegram channel.
"""

from rumi.channels.telegram.api.bot import bot_name
from rumi.channels.telegram.channel import Telegram

__all__ = ["Telegram", "bot_name"]
