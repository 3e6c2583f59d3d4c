"""How much of a chat's history a turn is given: the latest whole exchanges that fit."""

from collections.abc import Sequence

from rumi.journal import Entry
from rumi.models import messages_tokens

NEARLY_FULL = 0.75
"""How much of the room for history is taken before its beginning is summed up."""


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


def outgrown(entries: Sequence[Entry], *, max_messages: int, max_tokens: int) -> tuple[Entry, ...]:
    """The oldest exchanges, when all together leave little room for the next one; nothing before that.

    So many that what is left takes about half of the room: otherwise each turn would begin with this again.
    """
    costs = [
        (len(exchange), messages_tokens(entry.message for entry in exchange))
        for exchange in exchanges(entries)
    ]
    messages, tokens = (sum(cost[n] for cost in costs) for n in (0, 1))
    if messages <= max_messages * NEARLY_FULL and tokens <= max_tokens * NEARLY_FULL:
        return ()
    kept = messages = tokens = 0
    for more_messages, more_tokens in reversed(costs):
        messages, tokens = messages + more_messages, tokens + more_tokens
        share = NEARLY_FULL if kept == 0 else NEARLY_FULL * 2 / 3
        if messages > max_messages * share or tokens > max_tokens * share:
            break
        kept += more_messages
    return tuple(entries[: len(entries) - kept])
