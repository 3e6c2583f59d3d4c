"""Checked access to the numbers and fields of raw updates, before the updates are interpreted."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from telegram import Bot
from telegram.error import NetworkError

from rumi.channels.telegram.api.guarded import NO_ANSWER
from rumi.platform.config.schema import TelegramBotSection
from rumi.store.journal.records import Update
from rumi.texts import Text

Fields: TypeAlias = Mapping[str, Any]

RawUpdate: TypeAlias = Fields
"""An update as received. It has a number; its other content is not checked."""


ALLOWED: Final = ("message", "edited_message", "callback_query")
"""Kinds of update that Rumi requests from Telegram."""


async def raw_updates(
    bot: Bot, *, offset: int | None, wait_s: float, read_timeout_s: float, limit: int = 100
) -> list[RawUpdate]:
    """Return at most `limit` queued updates, oldest first. Entries without a number are omitted.

    If no update is queued, the server may delay the response by `wait_s` seconds. The request confirms
    updates with numbers below `offset`, and Telegram does not deliver them again.

    Raises:
        TelegramError: No response arrived, or the response is unusable.
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
        OddField: The number is missing, so the object is not an update.
    """
    return number(update, "update_id")


def update_of(number: int, bot: str = "") -> Update:
    """Return the journal's key of an update.

    The key includes the bot, because each bot numbers its updates.
    """
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


class OddField(ValueError):
    """A field differs from Telegram's documentation. The error's text contains only the field's name."""

    def __init__(self, name: str) -> None:
        super().__init__(Text("the field {name} is odd", name=name))


def number(fields: Fields, name: str) -> int:
    """Return the number in the required field `name`. It has at most 53 bits, so any database can store it.

    Raises:
        OddField: The field is missing or not a number.
    """
    found = number_or_none(fields, name)
    if found is None:
        raise OddField(name)
    return found


def number_or_none(fields: Fields, name: str) -> int | None:
    """Return the number in the optional field `name`; None if the field is missing.

    Raises:
        OddField: The field is not a number.
    """
    found = fields.get(name)
    # Not isinstance: True is not a number here. Telegram promises at most 52 bits.
    if found is None or (type(found) is int and abs(found) < 2**53):
        return found
    raise OddField(name)


def text_or_none(fields: Fields, name: str) -> str | None:
    """Return the text in the optional field `name`; None if the field is missing.

    Raises:
        OddField: The field is not a text.
    """
    found = fields.get(name)
    if found is None or isinstance(found, str):
        return found
    raise OddField(name)


def record(fields: Fields, name: str) -> Fields:
    """Return the object in the required field `name`.

    Raises:
        OddField: The field is missing or not an object.
    """
    found = record_or_none(fields, name)
    if found is None:
        raise OddField(name)
    return found


def record_or_none(fields: Fields, name: str) -> Fields | None:
    """Return the object in the optional field `name`; None if the field is missing.

    Raises:
        OddField: The field is not an object.
    """
    found = fields.get(name)
    if found is None or isinstance(found, dict):
        return found
    raise OddField(name)


def records(fields: Fields, name: str) -> Sequence[Fields]:
    """Return the list of objects in the field `name`; empty if the field is missing.

    Raises:
        OddField: The field is not a list of objects.
    """
    found = fields.get(name)
    if found is None:
        return ()
    if isinstance(found, list) and all(isinstance(one, dict) for one in found):
        return found
    raise OddField(name)


def flag(fields: Fields, name: str) -> bool:
    """Return True if the field `name` is present and True."""
    return fields.get(name) is True


def groups_of(updates: Sequence[RawUpdate]) -> frozenset[int]:
    """Return the numbers of the groups from which these messages and presses came."""
    found = set()
    for update in updates:
        try:
            query = record_or_none(update, "callback_query")
            message = record_or_none(update if query is None else query, "message")
            message = message or record_or_none(update, "edited_message")
            if message is not None and (group := number(record(message, "chat"), "id")) < 0:
                found.add(group)
        except OddField:  # reading the message reports it
            continue
    return frozenset(found)


def moves_in(updates: Sequence[RawUpdate]) -> dict[int, tuple[int, int]]:
    """Return the group moves that these updates report: a map of update numbers to old and new group number.

    Telegram reports a move in both groups, so each move arrives twice. Only Telegram sets these fields, so no
    user can claim a group's number.
    """
    found = {}
    for update in updates:
        try:
            move = _move_in(update)
        except OddField:  # reading the message reports it
            continue
        if move is not None:
            found[number(update, "update_id")] = move
    return found


def _move_in(update: RawUpdate) -> tuple[int, int] | None:
    message = record_or_none(update, "message")
    if message is None:
        return None
    to, came = (number_or_none(message, f"migrate_{way}_chat_id") for way in ("to", "from"))
    if to is None and came is None:
        return None
    here = number(record(message, "chat"), "id")
    old, new = (here, to) if to is not None else (came, here)
    assert old is not None
    assert new is not None
    return (old, new) if old < 0 and new < 0 else None
