"""The built-in lexicon: words of Spanish and English that people exchange for one another."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from rumi.memory.recall.words import both

FILE: Final = "lexicon.txt"


@cache
def concepts() -> Mapping[str, frozenset[str]]:
    """Return for each stem the stems of the words that stand with it, in either language. Blocking."""
    found: dict[str, set[str]] = {}
    for line in files("rumi.memory.recall").joinpath(FILE).read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        stems = {stem for word in line.split() for stem in both(word)}
        for stem in stems:
            found.setdefault(stem, set()).update(stems)
    return {stem: frozenset(others - {stem}) for stem, others in found.items()}


def related(word: str) -> frozenset[str]:
    """Return the stems that a folded word may stand for besides its own."""
    own = both(word)
    return frozenset().union(*(concepts().get(stem, frozenset()) for stem in own)).difference(own)
