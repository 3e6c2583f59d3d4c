"""Updates as Telegram delivers them, before they are judged."""

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
"""An update as it came: it has a number, and may have any other content."""


ALLOWED: Final = ("message", "callback_query")
"""The kinds of updates that Telegram is asked for."""


async def raw_updates(
    bot: Bot, *, offset: int | None, wait_s: float, read_timeout_s: float, limit: int = 100
) -> list[RawUpdate]:
    """Return the waiting updates, at most `limit`, oldest first; those without a number are left out.

    The server may hold the answer back for `wait_s` while nothing waits. Updates below `offset` are confirmed
    and do not come again.

    Raises:
        TelegramError: There is no answer, or an unusable one.
    """
    # `Bot.get_updates` fails for a whole batch when one update in it is odd, and logs all of it. The method's
    # name is spelled so that `do_api_request` accepts it (it refuses names of its own methods) and still
    # recognises it as the one with its own connections.
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
        OddField: It has none, so it is not an update.
    """
    return number(update, "update_id")


def update_of(number: int, bot: str = "") -> Update:
    """Return the name that the journal has for the update with that number: each bot has its own numbers."""
    return Update(TelegramBotSection.section(bot), number)


def _is_numbered(update: object) -> bool:
    try:
        return isinstance(update, dict) and number_of(update) > 0
    except OddField:
        return False


def ends_in_album(updates: Sequence[RawUpdate]) -> bool:
    """Return True if the last one is part of an album, so that more of it may be on its way."""
    message = updates[-1].get("message") if updates else None
    return isinstance(message, dict) and bool(message.get("media_group_id"))
