"""The address of a chat: its id in Rumi, its numbers on Telegram, and the bot that it is with."""

import re
from dataclasses import dataclass

from rumi.platform.chat_ids import BOT_NAME, TELEGRAM

_CHAT = re.compile(rf"{TELEGRAM.text}(?:({BOT_NAME.pattern})-)?(-?[0-9]{{1,20}})(?:_([0-9]{{1,20}}))?")


@dataclass(frozen=True, slots=True)
class TelegramAddress:
    """A chat's number, negative for groups, the number of the topic if it has one, and the name of its bot.

    The first bot, that of `[telegram]`, has no name.
    """

    number: int
    topic: int | None = None
    bot: str = ""

    @property
    def chat(self) -> str:
        """Return the chat's id in Rumi: `tg123`, `tg-100777_5`, and with the bot `work`: `tgwork-123`."""
        bot = f"{self.bot}-" if self.bot else ""
        return f"{TELEGRAM.text}{bot}{self.number}" + ("" if self.topic is None else f"_{self.topic}")

    @property
    def group(self) -> bool:
        """Return True for a group: more than one person may read there."""
        return self.number < 0


def address_of(chat: str) -> TelegramAddress | None:
    """Return the address of a chat's id; None if it is not a Telegram chat."""
    found = _CHAT.fullmatch(chat)
    if found is None:
        return None
    return TelegramAddress(int(found[2]), int(found[3]) if found[3] else None, found[1] or "")
