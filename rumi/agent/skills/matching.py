"""Ranking of skills by the words that they share with a message; equal inputs give equal results.

The score of a word is its weight in the skill (name 4, tag 3, description 1) times its rarity among all
skills. Accents, case and endings do not matter, because only the first five letters of words are compared.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rumi.agent.skills.messages import Skill
from rumi.platform.unaccented import unaccented

MOST_QUERY_CHARS: Final = 4_000
_WORD: Final = re.compile(r"[^\W_]+")
_STEM_CHARS: Final = 5
_LITTLE_WORDS: Final = """
    a al an and are as at be by can con de del do el en es for from has in is it its la las lo los me mi my no
    not of on or para por que se si skill sin su than that the this to tu un una use used user usar what when
    which with y you your
"""
_SAY_NOTHING: Final = frozenset(_LITTLE_WORDS.split())


def stems(text: str) -> list[str]:
    """Return the significant words of a text, without duplicates, cut so that inflected forms match."""
    plain = unaccented(text[:MOST_QUERY_CHARS])
    words = [word[:_STEM_CHARS] for word in _WORD.findall(plain) if word not in _SAY_NOTHING]
    return list(dict.fromkeys(words))


def weights(skill: Skill) -> dict[str, int]:
    """Return the weight of each word of a skill."""
    found: dict[str, int] = {}
    parts = (
        (1, [skill.header.description]),
        (3, list(skill.header.tags)),
        (4, [skill.name, skill.header.title]),
    )
    for weight, texts in parts:
        for text in texts:
            found.update(dict.fromkeys(stems(text), weight))
    return found


class Index:
    """An index of the words of many skills, which ranks the skills for a message."""

    def __init__(self, words: Mapping[str, Mapping[str, int]]) -> None:
        self._words = words
        self._spread = Counter(stem for word_stems in words.values() for stem in word_stems)

    def best(self, query: str, among: Iterable[str]) -> list[str]:
        """Return all names in `among`, best matches first, and equally good matches in alphabetical order."""
        asked = stems(query)
        scores = {name: self._score(asked, self._words[name]) for name in among}
        return sorted(scores, key=lambda name: (-scores[name], name))

    def matching(self, query: str, among: Iterable[str], most: int) -> Sequence[str]:
        """Return at most `most` names in `among` that share a word with the message, best matches first."""
        asked = stems(query)
        some = [name for name in among if self._score(asked, self._words[name]) > 0]
        return self.best(query, some)[:most]

    def _score(self, asked: Iterable[str], words: Mapping[str, int]) -> float:
        total = len(self._words)
        shared = [stem for stem in asked if stem in words]
        return sum(words[stem] * math.log(1 + total / self._spread[stem]) for stem in shared)
