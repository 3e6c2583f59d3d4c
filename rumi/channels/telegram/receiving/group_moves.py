"""Moves of groups to other numbers, as updates report them."""

from collections.abc import Sequence

from rumi.channels.telegram.receiving.fields import OddField, number, number_or_none, record, record_or_none
from rumi.channels.telegram.receiving.updates import RawUpdate


def groups_of(updates: Sequence[RawUpdate]) -> frozenset[int]:
    """Return the numbers of the groups that these messages and presses come from."""
    found = set()
    for update in updates:
        try:
            query = record_or_none(update, "callback_query")
            message = record_or_none(update if query is None else query, "message")
            if message is not None and (group := number(record(message, "chat"), "id")) < 0:
                found.add(group)
        except OddField:  # reading the message reports it
            continue
    return frozenset(found)


def moves_in(updates: Sequence[RawUpdate]) -> dict[int, tuple[int, int]]:
    """Return the moves among the updates, by the update's number: the old number of the group, and the new
    one.

    Both groups report it, so each comes twice. Only Telegram writes these: no user can claim a group's
    number.
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
