"""Registration of Rumi's chat commands with Telegram, so that Telegram's command menu offers them."""

import logging
from typing import Final

import trio
from telegram import Bot, BotCommand
from telegram.error import TelegramError

from actors import Backoff
from rumi.channels.telegram.api.bot import in_words
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts.language import LanguageSetting
from rumi.texts import Language, languages

logger = logging.getLogger(__name__)

ATTEMPTS: Final = 5
WAITS: Final = Backoff(first_s=10.0, factor=3.0, cap_s=300.0)


async def register_commands(bot: Bot, language: LanguageSetting, default: Language) -> bool:
    """Register the commands in each language, and in the default one for others. Return True on success.

    If the configuration sets a `language`, every user gets the commands in that language. Failures are
    retried for some minutes and then ignored, because the commands work without a menu. After a cancellation,
    the commands may be registered for only some of the languages.
    """
    menus: dict[str | None, Language] = {
        None: default,
        **{language: language for language in languages() if "_" not in language},
    }
    if language != "auto":
        menus = dict.fromkeys(menus, language)
    for attempt in range(ATTEMPTS):
        try:
            for code in tuple(menus):
                commands = [
                    BotCommand(name.removeprefix("/"), does.replace("`", ""))
                    for name, does in reply_texts.menu(menus[code])
                ]
                await bot.set_my_commands(commands, language_code=code)
                # Registered languages are not repeated by the next attempt.
                del menus[code]
        except TelegramError as error:
            logger.warning("the commands could not be registered: %s", in_words(error))
            if attempt + 1 < ATTEMPTS:
                await trio.sleep(WAITS.delay_s(attempt))
        else:
            return True
    return False
