"""Asking Telegram once who the bot is, for whoever serves nobody."""

from telegram.error import TelegramError

from rumi.errors import RumiError
from rumi.telegram.api.bot import in_words, introduce, open_bot


async def bot_name(token: str, base_url: str | None = None) -> str:
    """The bot's user name, without the @.

    Raises:
        ConfigError: Telegram does not know the token, or `base_url` is no address of a server.
        RumiError: Telegram does not say. The token is in none of these.
    """
    async with open_bot(token, base_url) as bot:
        try:
            return (await introduce(bot)).username
        except TelegramError as error:
            words = in_words(error)
    raise RumiError(f"{words}.", "Try again; where that does not help, check the network and its proxy.")
