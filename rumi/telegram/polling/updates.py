"""Updates as Telegram hands them out, before anybody has judged them."""

import math
from collections.abc import Sequence
from typing import TypeAlias

from telegram import Bot
from telegram.error import NetworkError

from rumi.telegram.api.guarded import NO_ANSWER
from rumi.telegram.polling.fields import Fields, OddField, number

RawUpdate: TypeAlias = Fields
"""An update as it came: it has a number, and may hold anything besides."""


async def raw_updates(
    bot: Bot, *, offset: int | None, wait_s: float, read_timeout_s: float, limit: int = 100
) -> list[RawUpdate]:
    """What waits for the bot, at most `limit`, oldest first, as it came; what has no number is left out.

    The server may hold the answer back for `wait_s` while nothing waits. Whatever is numbered below
    `offset` is confirmed and does not come again.

    Raises:
        TelegramError: no answer, or one that cannot be used.
    """
    # `Bot.get_updates` fails for a whole batch when one update in it is odd, and logs all of it. The
    # method's name is spelled so that `do_api_request` takes it (it refuses names of its own methods) and
    # still knows it as the one that has connections of its own.
    found = await bot.do_api_request(
        "get_Updates",
        {
            "offset": offset,
            "limit": limit,
            "timeout": math.ceil(wait_s),
            "allowed_updates": ["message", "callback_query"],
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
    """The update's number.

    Raises:
        OddField: it has none, so it is no update.
    """
    return number(update, "update_id")


def _is_numbered(update: object) -> bool:
    try:
        return isinstance(update, dict) and number_of(update) > 0
    except OddField:
        return False


def ends_in_album(updates: Sequence[RawUpdate]) -> bool:
    """Whether the last of them is part of an album, so that more of it may be on its way."""
    message = updates[-1].get("message") if updates else None
    return isinstance(message, dict) and bool(message.get("media_group_id"))
