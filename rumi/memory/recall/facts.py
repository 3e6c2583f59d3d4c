"""Chooses the facts that matter for a message, by the words of the query and what they may stand for."""

from collections.abc import Sequence
from datetime import datetime
from math import log
from typing import Final

from rumi.memory.messages import Fact
from rumi.memory.recall.query import read_query
from rumi.memory.recall.words import stems_of

LEAST: Final = 0.3
"""The share of the best fact's score that another one needs."""


def facts_for(text: str, facts: Sequence[Fact], now: float) -> list[Fact]:
    """Return the facts that have to do with a text, the best first; none where no word leads to one."""
    query = read_query(text, datetime.fromtimestamp(now).astimezone().date())
    if not query.words or not facts:
        return []
    sides = [(frozenset(stems_of(fact.key)), frozenset(stems_of(fact.value))) for fact in facts]
    counts: dict[str, int] = {}
    for key, value in sides:
        for stem in key | value:
            counts[stem] = counts.get(stem, 0) + 1

    def weight(stems: frozenset[str]) -> float:
        count = max((counts.get(stem, 0) for stem in stems), default=0)
        return log(1 + (len(facts) + 1) / (count + 0.5))

    scored = [
        (query.score(key, value, lambda stems: weight(frozenset(stems)), 1.0), fact.updated, index)
        for index, ((key, value), fact) in enumerate(zip(sides, facts, strict=True))
    ]
    best = max(score for score, _, _ in scored)
    if not best:
        return []
    return [facts[index] for score, _, index in sorted(scored, reverse=True) if score >= LEAST * best]
