"""Formats passages for models and people: dated, in excerpts, with a known maximum of tokens."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Final

from rumi.memory.recall.messages import Passage
from rumi.memory.recall.words import both, plain_words
from rumi.models.model import text_tokens
from rumi.texts import Language, gettext, languages

MOST_CHARS: Final = 700
"""Maximum number of characters shown of each side of an exchange."""

_PIECE: Final = re.compile(r"(?<=[.!?;:…。！？])\s+|\s*\n\s*")
"""Where a text is divided into sentences and lines."""


def shown(language: Language, passages: Sequence[Passage]) -> str:
    """Return passages as text, each with its date, chat and turn."""
    return "\n\n".join(_shown(language, passage) for passage in passages)


def _shown(language: Language, passage: Passage) -> str:
    when = datetime.fromtimestamp(passage.at).astimezone()
    lines = [f"[{when:%Y-%m-%d %H:%M}, {' '.join(filter(None, (passage.chat, passage.turn)))}]"]
    if passage.kind == "episode":
        return "\n".join((*lines, passage.said))
    sides = ((gettext(language, "User"), passage.said), (gettext(language, "Assistant"), passage.answered))
    return "\n".join((*lines, *(f"{name}: {text}" for name, text in sides if text)))


def head_tokens(chat: str, turn: str) -> int:
    """Return the maximum number of tokens of the line with a passage's date, chat and turn."""
    return text_tokens(f"[2026-01-01 00:00, {chat} {turn}]\n\n")


def side_tokens(text: str) -> int:
    """Return the maximum number of tokens of the line with a side of a passage, in any language."""
    return text_tokens(f"{_longest_name()}: {text}\n")


@cache
def _longest_name() -> str:
    names = [gettext(language, name) for language in languages() for name in ("User", "Assistant")]
    return "x" * max(len(name.encode()) for name in names)


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
