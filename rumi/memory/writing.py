"""Normalizes facts, compares them, and checks whether a fact may be stored."""

import unicodedata
from typing import Final

from rumi.memory.messages import MAX_KEY_CHARS, MAX_VALUE_CHARS, FactRefused, NewFact
from rumi.memory.secrets import looks_secret
from rumi.texts import Text

_JOINERS: Final = "\u200c\u200d"
"""The only invisible characters that belong to words: joiners in Persian, Hindi and emoji."""


def written(text: str) -> str:
    """Normalize a text to one line for storage and display: NFC, single blanks, no control characters.

    Marks that change the reading direction and lone surrogates are removed as well.
    """
    kept = "".join(
        c if c in _JOINERS or not unicodedata.category(c).startswith("C") else _instead(c) for c in text
    )
    return unicodedata.normalize("NFC", " ".join(kept.split()))


def _instead(character: str) -> str:
    return " " if character.isspace() else ""


def folded(text: str) -> str:
    """Normalize a key for comparison: ignore case and extra blanks, but not accents."""
    return unicodedata.normalize("NFC", written(text).casefold())


def checked(key: str, value: str) -> NewFact:
    """Return the fact as it would be stored.

    Raises:
        FactRefused: the key or the value is empty or too long, or the fact looks like a secret.
    """
    fact = NewFact(written(key), written(value))
    if not fact.key:
        raise FactRefused("The key of a fact cannot be empty.")
    if not fact.value:
        raise FactRefused("The value of a fact cannot be empty.")
    if len(fact.key) > MAX_KEY_CHARS or len(fact.value) > MAX_VALUE_CHARS:
        raise FactRefused(
            Text(
                "The key of a fact may have {most} characters, and this one has {count}.",
                most=MAX_KEY_CHARS,
                count=len(fact.key),
            )
            if len(fact.key) > MAX_KEY_CHARS
            else Text(
                "The value of a fact may have {most} characters, and this one has {count}.",
                most=MAX_VALUE_CHARS,
                count=len(fact.value),
            ),
            "Keep what matters, or put the text into a file.",
        )
    if looks_secret(fact):
        raise FactRefused(
            "That looks like a password, a key or a card number, and those are not kept in the memory.",
            "Keep it in a password manager.",
        )
    return fact
