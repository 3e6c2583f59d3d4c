"""Ranks the sides of exchanges, which are the user's message and the answer, for a query.

Candidates come from FTS5 with BM25. The query's rare words are searched first; words that are too frequent
are not searched. Each side is scored by its own words, each word of the query once. Then it gets a part of
the score of the sides next to it, because an answer is often beside the words that lead to it, and of the
best sides of its session. A second search is done for rare words from the best sides.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from itertools import product
from typing import Final, TypeAlias

from rumi.memory.recall.owner_index import CANDIDATES, IndexedPassage, OwnerIndex
from rumi.memory.recall.query import OTHER_SIDE, ParsedQuery, QueryWord
from rumi.platform.zones import instant_at, local_at

NEXT, NEAR = 0.6, 0.3
"""Share of a side's score that is added to the sides directly beside it, and to those one exchange away."""
NEAR_SIDES: Final = 3
"""How many sides away `NEAR` reaches."""
SPREAD: Final = 12
"""Number of best sides whose adjacent exchanges are looked up."""
IN_SESSION, OF_SESSION = 0.1, 10
"""Share of the scores of the best sides that is added to all sides of their session; number of best sides."""
HOP: Final = 0.3
"""Weight of the second hop: of words that the best sides contain and the query does not."""
HOP_FROM, HOP_WORDS = 3, 8
"""Number of best sides that the second hop starts from, and number of words taken from them."""
FITS: Final = 0.15
"""Share added to the score of a passage with a number, a date or a name, if the query asks for one."""
IN_SPAN, OUT_OF_SPAN = 1.5, 0.8
"""Factors for passages inside and outside of the span of time that the query names."""
LATELY, RECENT = 0.35, 0.05
"""Share added to the latest candidate: if the query asks for the current state, and for other queries."""

_Key: TypeAlias = tuple[int, bool]
"""A side: the id of its passage, and whether it is the answer."""


@dataclass(frozen=True, slots=True)
class RankedSide:
    """A side of a passage: the answer, or what the user said."""

    passage: IndexedPassage
    is_answer: bool
    score: float


def rank(index: OwnerIndex, query: ParsedQuery, zone: str = "") -> tuple[ParsedQuery, list[RankedSide]]:
    """Return the query with the owner's terms that were searched, and the sides found, the best first.

    Days are those of the time `zone`, by default of this machine.
    """
    query = index.own(query)
    index.look_up(term for word in query.words for term in (*word.stems, *word.related))
    query = _with_spellings(index, query)
    own = [stem for word in query.words for stem in word.stems]
    others = [stem for word in query.words for stem in word.related]
    lists = [own, [*own, *others]] if any(map(index.count, others)) else [own]
    found = {passage.id: passage for stems in lists for passage in index.candidates(stems)}
    if not found:
        return query, _of_the_span(index, query, zone)
    sides = _Sides(index, query, _average(found.values()), zone)
    sides.admit(found.values())
    sides.hop()
    sides.spread()
    sides.fit()
    ranked = [
        RankedSide(sides.passages[id], is_answer, score)
        for (id, is_answer), score in sides.scores.items()
        if score
    ]
    return query, sorted(ranked, key=lambda side: (-side.score, -side.passage.at, side.is_answer))


def _average(passages: Iterable[IndexedPassage]) -> float:
    lengths = [len(side) for passage in passages for side in (passage.said, passage.answered) if side]
    return sum(lengths) / len(lengths) if lengths else 1.0


@dataclass(slots=True)
class _Sides:
    """The candidates of a search. `average` is the average number of terms of a side."""

    index: OwnerIndex
    query: ParsedQuery
    average: float
    zone: str
    passages: dict[int, IndexedPassage] = field(default_factory=dict)
    scores: dict[_Key, float] = field(default_factory=dict)

    def admit(self, passages: Iterable[IndexedPassage]) -> None:
        """Add passages that are not candidates yet; score both sides by their own words."""
        for passage in passages:
            if passage.id in self.passages:
                continue
            self.passages[passage.id] = passage
            for is_answer, terms in ((False, passage.said), (True, passage.answered)):
                score = self.query.score(terms, (), self.index.weight, len(terms) / self.average)
                self.scores[passage.id, is_answer] = score * OTHER_SIDE if is_answer else score

    def best(self, number: int) -> list[_Key]:
        """Return the sides with the highest scores."""
        return sorted((key for key in self.scores if self.scores[key]), key=lambda key: -self.scores[key])[
            :number
        ]

    def terms(self, key: _Key) -> frozenset[str]:
        """Return the terms of a side."""
        passage = self.passages[key[0]]
        return passage.answered if key[1] else passage.said

    def hop(self) -> None:
        """Also score sides by rare words from the best sides, as a name there may lead to the answer."""
        index, best = self.index, self.best(HOP_FROM)
        if not best:
            return
        asked = {stem for word in self.query.words for stem in (*word.stems, *word.related)}
        origins = [self.passages[id] for id, _ in best]
        new_stems = [stem for passage in origins for stem in (passage.said | passage.answered) - asked]
        index.look_up(new_stems)
        # A word of one passage only leads back to that passage; a frequent word leads anywhere.
        rare = [
            stem for stem in dict.fromkeys(new_stems) if 1 < index.count(stem) <= max(3, index.passages // 50)
        ]
        rare = sorted(rare, key=lambda stem: (index.count(stem), stem))[:HOP_WORDS]
        top = self.scores[best[0]]
        self.admit(index.candidates(rare))
        weights = {stem: index.weight((stem,)) for stem in rare}
        most = sum(sorted(weights.values())[-2:]) or 1.0
        for key in self.scores:
            if self.passages[key[0]] not in origins:
                shared = sum(weights[stem] for stem in rare if stem in self.terms(key))
                self.scores[key] += HOP * top * min(1.0, shared / most)

    def spread(self) -> None:
        """Add a part of the scores to the sides nearby, and a part of the best ones to their sessions."""
        own = dict(self.scores)
        best = self.best(OF_SESSION)
        sequences = {id: [passage] for id, passage in self.passages.items()}
        for id in dict.fromkeys(id for id, _ in self.best(SPREAD)):
            passage = self.passages[id]
            around = [self.index.beside(passage, after=after) for after in (False, True)]
            near = [other if other and self.index.within(other.at) else None for other in around]
            sequences[id] = [other for other in (near[0], passage, near[1]) if other is not None]
            self.admit(filter(None, near))
        nexts: dict[_Key, float] = {}
        nears: dict[_Key, float] = {}
        for id, sequence in sequences.items():
            keys = list(product((passage.id for passage in sequence), (False, True)))
            for (at, key), (there, other) in product(enumerate(keys), repeat=2):
                distance = abs(at - there)
                if key[0] == id and 0 < distance <= NEAR_SIDES:
                    gains = nexts if distance == 1 else nears
                    gains[other] = max(gains.get(other, 0.0), own[key])
        sessions: dict[tuple[str, int], float] = {}
        for key in best:
            passage = self.passages[key[0]]
            session = passage.chat, passage.session
            sessions[session] = sessions.get(session, 0.0) + own[key]
        for key in self.scores:
            passage = self.passages[key[0]]
            self.scores[key] += NEXT * nexts.get(key, 0.0) + NEAR * nears.get(key, 0.0)
            if self.scores[key]:
                self.scores[key] += IN_SESSION * sessions.get((passage.chat, passage.session), 0.0)

    def fit(self) -> None:
        """Raise scores of passages that are recent, or that match the kind or time of answer asked for."""
        query = self.query
        in_order = sorted(self.passages.values(), key=lambda passage: passage.at)
        for place, passage in enumerate(in_order):
            recent = place / max(1, len(in_order) - 1)
            recent = 1 - recent if query.lately < 0 else recent
            factor = 1 + (LATELY if query.lately else RECENT) * recent
            if passage.flags & query.flags:
                factor *= 1 + FITS
            if query.span is not None:
                day = local_at(passage.at, self.zone).date()
                factor *= IN_SPAN if query.span.first <= day <= query.span.last else OUT_OF_SPAN
            for is_answer in (False, True):
                self.scores[passage.id, is_answer] *= factor


def _with_spellings(index: OwnerIndex, query: ParsedQuery) -> ParsedQuery:
    """Return the query after replacing words that no passage contains with words of similar spelling."""
    words = []
    for word in query.words:
        if any(map(index.count, word.stems)) or len(word.text) < 4:
            words.append(word)
            continue
        alike = index.spelt_like(word.text)
        index.look_up(alike)
        words.append(QueryWord(word.text, frozenset(alike), word.related) if alike else word)
    return replace(query, words=tuple(words))


def _of_the_span(index: OwnerIndex, query: ParsedQuery, zone: str) -> list[RankedSide]:
    """Return the latest passages of the requested time span; used if no passage contains a query word."""
    since, until = index.since, index.until
    if query.span is not None:
        since, until = (
            instant_at(datetime.combine(day, at), zone)
            for day, at in ((query.span.first, time.min), (query.span.last, time.max))
        )
    if since is None and until is None:
        return []
    return [
        RankedSide(passage, is_answer, 1.0)
        for passage in index.latest(since or 0.0, until or 9e15, CANDIDATES)
        for is_answer in (False, True)
    ]
