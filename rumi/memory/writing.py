"""How facts are written and compared, and which are none."""

import unicodedata
from typing import Final

from rumi.memory.secrets import looks_secret
from rumi.memory.types import MAX_KEY_CHARS, MAX_VALUE_CHARS, FactRefused, NewFact

_JOINERS: Final = "\u200c\u200d"
"""The only characters without a shape that belong to words: Persian's and Hindi's, and those in emoji."""


def written(text: str) -> str:
    """The text on one line, as it is stored and shown: NFC, single blanks, nothing that steers a terminal.

    Control characters, marks that turn the direction of reading, and halves of surrogate pairs go.
    """
    kept = "".join(
        c if c in _JOINERS or not unicodedata.category(c).startswith("C") else _instead(c) for c in text
    )
    return unicodedata.normalize("NFC", " ".join(kept.split()))


def _instead(character: str) -> str:
    return " " if character.isspace() else ""


def folded(text: str) -> str:
    """What a key is compared by: case and blanks make no difference, accents do."""
    return unicodedata.normalize("NFC", written(text).casefold())


def checked(key: str, value: str) -> NewFact:
    """The fact as it would be stored.

    Raises:
        FactRefused: there is no key or no value, one is too long, or it looks like a secret.
    """
    fact = NewFact(written(key), written(value))
    for name, text, most in (("key", fact.key, MAX_KEY_CHARS), ("value", fact.value, MAX_VALUE_CHARS)):
        if not text:
            raise FactRefused(f"The {name} of a fact cannot be empty.")
        if len(text) > most:
            raise FactRefused(
                f"The {name} of a fact may have {most} characters, and this one has {len(text)}.",
                "Keep what matters, or put the text into a file.",
            )
    if looks_secret(fact):
        raise FactRefused(
            "That looks like a password, a key or a card number, and those are not kept in the memory.",
            "Keep it in a password manager.",
        )
    return fact
