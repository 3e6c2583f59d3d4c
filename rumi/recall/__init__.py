"""Recall: what was said before, found again. An index of its own, which follows `state.db`."""

from rumi.recall.actor import Ask, Recall, asking, open_recall
from rumi.recall.schema import RECALL
from rumi.recall.shown import shown
from rumi.recall.store import Store, delete_index
from rumi.recall.types import (
    CatchUp,
    Count,
    Look,
    Passage,
    Prune,
    RecallMessage,
    RecallUnavailable,
    Search,
)
from rumi.recall.words import ENGLISH, language_of, plain_words, says_something

__all__ = [
    "ENGLISH",
    "RECALL",
    "Ask",
    "CatchUp",
    "Count",
    "Look",
    "Passage",
    "Prune",
    "Recall",
    "RecallMessage",
    "RecallUnavailable",
    "Search",
    "Store",
    "asking",
    "delete_index",
    "language_of",
    "open_recall",
    "plain_words",
    "says_something",
    "shown",
]
