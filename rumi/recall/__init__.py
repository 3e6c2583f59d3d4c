"""Recall: what was said before, found again. An index of its own, which follows the state."""

from rumi.recall.actor import Ask, Recall, asking, open_recall
from rumi.recall.facts import facts_for
from rumi.recall.presenting import shown
from rumi.recall.schema import RECALL
from rumi.recall.serving import RecallCommands, recall_calls, search_of
from rumi.recall.store import Store, delete_index
from rumi.recall.tool import RecallTool
from rumi.recall.types import (
    CatchUp,
    Count,
    Look,
    Passage,
    Prune,
    RecallMessage,
    RecallUnavailable,
    Search,
    Unindex,
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
    "RecallCommands",
    "RecallMessage",
    "RecallTool",
    "RecallUnavailable",
    "Search",
    "Store",
    "Unindex",
    "asking",
    "delete_index",
    "facts_for",
    "language_of",
    "open_recall",
    "plain_words",
    "recall_calls",
    "says_something",
    "search_of",
    "shown",
]
