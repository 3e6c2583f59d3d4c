"""Parses a query into words, related words, a time span, and the kinds of answer that the query asks for."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date
from typing import Final

from rumi.memory.recall.dates import DateSpan, span_in
from rumi.memory.recall.messages import MOST_QUERY_CHARS
from rumi.memory.recall.words import DATE, NAME, NUMBER, both, plain_words, related, says_something
from rumi.platform.date_words import MONTHS, WEEKDAYS
from rumi.platform.unaccented import unaccented

MOST_QUERY_WORDS: Final = 24

_WHEN: Final = re.compile(
    r"\b(?:when|what (?:day|date|time)|how long|cuando|que (?:dia|fecha|hora)|a que hora)\b"
)
_WHO: Final = re.compile(r"\b(?:who|whose|whom|quien|quienes|name of|called|como se llama|nombre)\b")
_COUNT: Final = re.compile(
    r"\b(?:how (?:much|many|old|tall|big|long|far)|what (?:size|price|number)|"
    r"cuant[oa]s?|que (?:talle|numero|edad))\b"
)
_NOW: Final = re.compile(
    r"\b(?:now|nowadays|current|currently|latest|these days|anymore|any more|still|finally|in the end|ahora|"
    r"actual|actualmente|hoy en dia|ultim[oa]|todavia|al final|finalmente|sigue|sigo|terminamos)\b"
)
_BEFORE: Final = re.compile(
    r"\b(?:originally|at first|first|initially|used to|previous|previously|before|earlier|old|formerly|"
    r"originalmente|al principio|primero|antes|anterior|vieja|viejo)\b"
)

Weight = Callable[[Collection[str]], float]
"""Returns a word's rarity, given its stems: log(number of passages / passages that contain the word)."""

OTHER_SIDE: Final = 0.85
"""The weight of a word in the assistant's answer, relative to one in the user's message."""
STANDS_FOR: Final = 0.5
"""The weight of a related word of the same concept, relative to the query's word."""
SATURATION, BY_LENGTH = 1.2, 0.35
"""The constants of BM25."""


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of a query: its stems, and the stems of related words that the query may mean as well."""

    text: str
    stems: frozenset[str]
    related: frozenset[str]


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A parsed query. `flags` says if it asks for a `NUMBER`, a `DATE` or a `NAME`.

    `lately` is 1 if the query asks for the current state of something, -1 for an earlier state, 0 for
    neither.
    """

    words: tuple[QueryWord, ...]
    span: DateSpan | None = None
    flags: int = 0
    lately: int = 0

    def score(self, said: Collection[str], answered: Collection[str], weight: Weight, length: float) -> float:
        """Return the score of a passage; each word of the query counts once.

        `length` is the passage's number of stems divided by the average number.
        """
        total, matched = 0.0, 0
        for word in self.words:
            worth = _worth(word, said, answered)
            if worth:
                total += worth * weight(word.stems or word.related)
                matched += 1
        factor = (SATURATION + 1) / (1 + SATURATION * (1 - BY_LENGTH + BY_LENGTH * length))
        return total * factor * (1 + 0.1 * max(0, matched - 1))


def _worth(word: QueryWord, said: Collection[str], answered: Collection[str]) -> float:
    if not word.stems.isdisjoint(said):
        return 1.0
    if not word.stems.isdisjoint(answered):
        return OTHER_SIDE
    if not word.related.isdisjoint(said):
        return STANDS_FOR
    return STANDS_FOR * OTHER_SIDE if not word.related.isdisjoint(answered) else 0.0


def read_query(text: str, today: date) -> ParsedQuery:
    """Parse a query; relative dates in it are relative to `today`."""
    plain = " ".join(unaccented(text[:MOST_QUERY_CHARS]).split())
    span = span_in(plain, today)
    dated = set(span.words.split()) if span is not None else set()
    words: dict[str, QueryWord] = {}
    for word in plain_words(plain):
        if says_something(word) and word not in words and len(words) < MOST_QUERY_WORDS:
            if word in dated and (word in MONTHS or word in WEEKDAYS or word.isdigit()):
                words[word] = QueryWord(word, frozenset(both(word)), frozenset())
            elif word not in dated:
                words[word] = QueryWord(word, frozenset(both(word)), related(word))
    flags = (DATE if _WHEN.search(plain) else 0) | (NAME if _WHO.search(plain) else 0)
    flags |= NUMBER if _COUNT.search(plain) else 0
    lately = 1 if _NOW.search(plain) else -1 if _BEFORE.search(plain) else 0
    return ParsedQuery(tuple(words.values()), span, flags, lately)
