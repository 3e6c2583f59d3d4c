"""Facts in sentences such as `remember that I live in Rome`, for the demo model."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rumi.texts import Language


@dataclass(frozen=True, slots=True)
class SaidFact:
    """A fact as a call of the tool `remember`, and the language of the sentence."""

    language: Language
    arguments: Mapping[str, object]


_THAT: Final[tuple[tuple[re.Pattern[str], Language], ...]] = (
    (re.compile(r"remember\s*,?\s+(?:that\s+)?(?=(?:i|i'm|i’m|my|we)\b)|remember\s+that\s+", re.I), "en"),
    (re.compile(r"(?:recuerda|record[aá]|acu[eé]rdate\s+de|acordate\s+de)\s+que\s+", re.I), "es"),
    (re.compile(r"lembr[ae](?:-se)?\s+(?:de\s+)?que\s+", re.I), "pt"),
)
_VALUE: Final = r"(?P<value>\S.*?)[\s.!]*"
_OWN: Final = r"(?P<key>[^\W\d_]+(?:\s+[^\W\d_]+){0,2})"

# The key, or "" if the sentence has it; and whether the old values under the key stay.
_FORMS: Final[tuple[tuple[Language, str, str, bool], ...]] = (
    ("en", r"(?:i|we)\s+live\s+in\s+", "city", False),
    ("en", r"(?:i\s+am|i'm|i’m)\s+called\s+", "name", False),
    ("en", r"i\s+work\s+(?:as|at|for|in)\s+", "work", False),
    ("en", r"(?:i|we)\s+(?:really\s+)?(?:like|love)\s+", "likes", True),
    ("en", r"(?:i|we)\s+(?:don't|don’t|do\s+not)\s+like\s+", "dislikes", True),
    ("en", rf"my\s+{_OWN}\s+(?:is\s+called|is|are)\s+", "", False),
    ("es", r"viv(?:o|imos)\s+en\s+", "ciudad", False),
    ("es", r"me\s+llamo\s+", "nombre", False),
    ("es", r"trabajo\s+(?:como|de|en|para)\s+", "trabajo", False),
    ("es", r"(?:me|nos)\s+(?:gustan?|encantan?)\s+", "gustos", True),
    ("es", r"no\s+(?:me|nos)\s+gustan?\s+", "disgustos", True),
    ("es", rf"mis?\s+{_OWN}\s+(?:es|son|se\s+llama)\s+", "", False),
    ("pt", r"(?:eu\s+)?moro\s+em\s+", "cidade", False),
    ("pt", r"(?:eu\s+)?me\s+chamo\s+", "nome", False),
    ("pt", r"(?:eu\s+)?trabalho\s+(?:como|em|na|no|para)\s+", "trabalho", False),
    ("pt", r"(?:eu\s+)?gosto\s+d[eoa]s?\s+", "gostos", True),
    ("pt", rf"(?:o\s+meu|a\s+minha|meu|minha)\s+{_OWN}\s+(?:é|são|se\s+chama)\s+", "", False),
)
_READ: Final = [
    (language, re.compile(form + _VALUE, re.IGNORECASE | re.DOTALL), key, also)
    for language, form, key, also in _FORMS
]
_SAID_THAT: Final = frozenset(("that", "que"))
_NOTES: Final[Mapping[Language, str]] = {"en": "note", "es": "nota", "pt": "nota"}


def fact_in(text: str) -> SaidFact | None:
    """Return the fact that a sentence asks to remember; None if it asks for nothing of the kind.

    A sentence of unknown form is stored whole, under the key `note`, beside earlier notes.
    """
    for that, language in _THAT:
        if (begin := that.match(text)) is None:
            continue
        said = text[begin.end() :].strip()
        for spoken, form, key, also in _READ:
            if spoken == language and (match := form.fullmatch(said)) is not None:
                arguments: dict[str, object] = {
                    "key": key or " ".join(match["key"].casefold().split()),
                    "value": match["value"],
                }
                return SaidFact(language, {**arguments, "also": True} if also else arguments)
        value = said.rstrip(" .!\n")
        # Without `that`, only a known form is a fact: `remember my birthday` says none.
        if value and begin[0].casefold().split()[-1] in _SAID_THAT:
            return SaidFact(language, {"key": _NOTES[language], "value": value, "also": True})
    return None
