"""Updates as Telegram delivers them, before they are interpreted."""

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

from telegram import Bot
from telegram.error import NetworkError

from rumi.channels.telegram.api.guarded import NO_ANSWER
from rumi.channels.telegram.receiving.fields import Fields, OddField, number
from rumi.platform.config.schema import TelegramBotSection
from rumi.store.journal.records import Update

RawUpdate: TypeAlias = Fields
"""An update as received: it has a number, and any other content."""


ALLOWED: Final = ("message", "callback_query")
"""Kinds of updates that Rumi requests from Telegram."""


async def raw_updates(
    bot: Bot, *, offset: int | None, wait_s: float, read_timeout_s: float, limit: int = 100
) -> list[RawUpdate]:
    """Return the queued updates, at most `limit`, oldest first; entries without a number are omitted.

    If none is queued, the server may delay the response by `wait_s`. Updates below `offset` are confirmed and
    do not come again.

    Raises:
        TelegramError: There is no response, or an unusable one.
    """
    # `Bot.get_updates` fails for a whole batch if one update in it is malformed, and logs the complete batch.
    # The method's name is spelled so that `do_api_request` accepts it (it refuses names of its own methods)
    # and still recognises it as the method with its own connections.
    found = await bot.do_api_request(
        "get_Updates",
        {
            "offset": offset,
            "limit": limit,
            "timeout": math.ceil(wait_s),
            "allowed_updates": list(ALLOWED),
        },
        read_timeout=read_timeout_s,
    )
    if not isinstance(found, list):
        raise NetworkError(NO_ANSWER)
    numbered: list[RawUpdate] = [update for update in found if _is_numbered(update)]
    if found and not numbered:
        raise NetworkError(NO_ANSWER)
    return sorted(numbered, key=number_of)


def number_of(update: RawUpdate) -> int:
    """Return the update's number.

    Raises:
        OddField: The number is missing, so this is not an update.
    """
    return number(update, "update_id")


def update_of(number: int, bot: str = "") -> Update:
    """Return the journal's key of an update. It includes the bot, because each bot has its own numbers."""
    return Update(TelegramBotSection.section(bot), number)


def _is_numbered(update: object) -> bool:
    try:
        return isinstance(update, dict) and number_of(update) > 0
    except OddField:
        return False


def ends_in_album(updates: Sequence[RawUpdate]) -> bool:
    """Return True if the last update is part of an album, so that more parts may follow."""
    message = updates[-1].get("message") if updates else None
    return isinstance(message, dict) and bool(message.get("media_group_id"))
