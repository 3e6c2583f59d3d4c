"""How much of a chat's history a turn is given: the latest whole exchanges that fit."""

from collections.abc import Sequence

from rumi.journal import Entry
from rumi.models import messages_tokens


def exchanges(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The history by turns: what a person asked, and all that came of it."""
    grouped: list[list[Entry]] = []
    for entry in entries:
        if not grouped or grouped[-1][0].turn != entry.turn:
            grouped.append([])
        grouped[-1].append(entry)
    return grouped


def window(entries: Sequence[Entry], *, max_messages: int, max_tokens: int) -> tuple[Entry, ...]:
    """The latest exchanges within both limits, never a part of one.

    The last exchange is kept even when it is too long alone: it is what the user is talking about.
    """
    kept: list[list[Entry]] = []
    messages = tokens = 0
    for exchange in reversed(exchanges(entries)):
        messages += len(exchange)
        tokens += messages_tokens(entry.message for entry in exchange)
        if kept and (messages > max_messages or tokens > max_tokens):
            break
        kept.append(exchange)
    return tuple(entry for exchange in reversed(kept) for entry in exchange)
