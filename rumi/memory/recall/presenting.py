"""Formats passages for models and people: dated, in excerpts, with a known maximum of tokens."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from rumi.memory.recall.messages import Passage
from rumi.memory.recall.words import both, plain_words
from rumi.models.model import BYTES_PER_TOKEN
from rumi.platform.zones import local_at
from rumi.texts import Language, gettext, languages

MOST_CHARS: Final = 700
"""Maximum number of characters shown of each side of an exchange."""

_PIECE: Final = re.compile(r"(?<=[.!?;:…。！？])\s+|\s*\n\s*")
"""Where a text is divided into sentences and lines."""


def shown(language: Language, passages: Sequence[Passage], zone: str = "") -> str:
    """Return passages as text: those of the same chat and day in their order, under one head.

    Days and times are those of the time `zone`, by default of this machine.
    """
    days: dict[str, list[Passage]] = {}
    for passage in passages:
        days.setdefault(_head(passage.chat, passage.at, zone), []).append(passage)
    return "\n\n".join(
        "\n".join(
            (head, *(_shown(language, passage, zone) for passage in sorted(of_day, key=lambda p: p.at)))
        )
        for head, of_day in days.items()
    )


def _shown(language: Language, passage: Passage, zone: str) -> str:
    sides = ((gettext(language, "User"), passage.said), (gettext(language, "Assistant"), passage.answered))
    lines = [f"{name}: {text}" for name, text in sides if text]
    text = passage.said if passage.kind == "episode" else "\n".join(lines)
    return f"{_place(passage.turn, passage.at, zone)}{text}"


def _head(chat: str, at: float, zone: str) -> str:
    return f"[{local_at(at, zone):%Y-%m-%d} {chat}]"


def _place(turn: str, at: float, zone: str) -> str:
    return f"{local_at(at, zone):%H:%M} {turn}{' ' if turn else ''}"


class Room:
    """Counts down the tokens that are left for passages as text, in any language."""

    def __init__(self, tokens: int, zone: str = "") -> None:
        self._zone = zone
        self._left = tokens * BYTES_PER_TOKEN
        self._has: set[tuple[str, str]] = set()

    def take(self, chat: str, turn: str, at: float, text: str, *, is_answer: bool) -> bool:
        """Reserve the room for a side of a passage; return False if it does not fit."""
        head, place = _head(chat, at, self._zone), _place(turn, at, self._zone)
        new = {("", head): f"{head}\n\n", (head, place): place}
        cost = len(f"{_longest_name('Assistant' if is_answer else 'User')}: {text}\n".encode())
        cost += sum(len(part.encode()) for key, part in new.items() if key not in self._has)
        if cost > self._left:
            return False
        self._left -= cost
        self._has.update(new)
        return True


@cache
def _longest_name(name: str) -> str:
    return max((gettext(language, name) for language in languages()), key=lambda word: len(word.encode()))


def excerpt(text: str, wanted: Mapping[str, float]) -> str:
    """Return a text as one line; of a long one, the adjacent sentences with the most weight of `wanted`."""
    line = " ".join(text.split())
    if len(line) <= MOST_CHARS:
        return line
    pieces = [" ".join(piece.split())[:MOST_CHARS] for piece in _PIECE.split(text) if piece.strip()]
    stems = [{stem for word in plain_words(piece) for stem in both(word)} & wanted.keys() for piece in pieces]
    best, start, end = -1.0, 0, 1
    for first in range(len(pieces)):
        last, room = first, MOST_CHARS
        inside: set[str] = set()
        while last < len(pieces) and len(pieces[last]) <= room:
            room -= len(pieces[last]) + 1
            inside |= stems[last]
            last += 1
        weight = sum(wanted[stem] for stem in inside)
        if weight > best:
            best, start, end = weight, first, last
        if last == len(pieces):
            break
    cut = " ".join(pieces[start:end])
    more = end < len(pieces) or not line.endswith(cut)
    return f"{'…' if start else ''}{cut}{'…' if more else ''}"
