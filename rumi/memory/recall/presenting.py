"""Formats passages for models and people: dated, with adjacent passages, and limited in length."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rumi.memory.recall.messages import Passage
from rumi.texts import Language, gettext

MOST_CHARS: Final = 700
"""Maximum number of characters shown of each side of an exchange."""


def shown(language: Language, passages: Sequence[Passage]) -> str:
    """Return passages as text, each with its date, chat and turn."""
    return "\n\n".join(_shown(language, passage) for passage in passages)


def _shown(language: Language, passage: Passage) -> str:
    when = datetime.fromtimestamp(passage.at).astimezone()
    user, assistant = gettext(language, "User"), gettext(language, "Assistant")
    source = " ".join(filter(None, (passage.chat, passage.turn)))
    lines = [f"[{when:%Y-%m-%d %H:%M}, {source}]"]
    if passage.before:
        lines.append(f"(… {passage.before})")
    if passage.kind == "episode":
        lines.append(_cut(passage.said))
    else:
        lines.append(f"{user}: {_cut(passage.said)}")
        lines += [f"{assistant}: {_cut(passage.answered)}"] if passage.answered else []
    if passage.after:
        lines.append(f"(… {passage.after})")
    return "\n".join(lines)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MOST_CHARS else f"{line[:MOST_CHARS]}…"
