"""Asks Telegram once for the bot's name, without serving it."""

from telegram.error import TelegramError

from rumi.channels.telegram.api.bot import in_words, introduce, open_bot
from rumi.errors import RumiError


async def bot_name(token: str, base_url: str | None = None) -> str:
    """Return the bot's user name, without the @.

    Raises:
        ConfigError: Telegram does not know the token, or `base_url` is not the address of a server.
        RumiError: Telegram does not answer. No error contains the token.
    """
    async with open_bot(token, base_url) as bot:
        try:
            return (await introduce(bot)).username
        except TelegramError as error:
            words = in_words(error)
    raise RumiError(f"{words}.", "Try again; if that does not help, check the network and its proxy.")
