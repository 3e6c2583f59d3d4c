"""Searches passages, and returns as many of the best ones as fit into a number of tokens."""

from collections import Counter
from typing import Final

from rumi.memory.recall.following import text_of
from rumi.memory.recall.indexing import owner_number
from rumi.memory.recall.messages import TOKENS, Passage, Who
from rumi.memory.recall.owner_index import IndexedPassage, OwnerIndex
from rumi.memory.recall.presenting import Room, excerpt
from rumi.memory.recall.query import ParsedQuery, read_query
from rumi.memory.recall.ranking import RankedSide, rank
from rumi.memory.recall.state import Indexing
from rumi.platform.zones import local_at
from rumi.store.steps import step

MISFITS: Final = 12
"""Number of sides that did not fit after which the result is complete."""


@step(reads=True)
def count_passages(transaction: Indexing) -> int:
    """Return the number of indexed passages."""
    return int(transaction.db.execute("SELECT coalesce(sum(passages), 0) FROM owners").fetchone()[0])


@step(reads=True)
def search_passages(
    transaction: Indexing,
    owner: str,
    query: str,
    since: float | None = None,
    until: float | None = None,
    who: Who = "",
    tokens: int = TOKENS,
    zone: str = "",
) -> tuple[Passage, ...]:
    """Return an owner's passages for a query, the best first; shown as text they take at most `tokens`.

    Each passage has only those of its sides that are worth their tokens. A passage beside a good one is
    another passage. Only passages between the Unix times `since` and `until` are returned.
    Days are those of the time `zone`, by default of this machine.
    """
    db = transaction.db
    number = owner_number(db, owner)
    if number is None:
        return ()
    (passages,) = db.execute("SELECT passages FROM owners WHERE id = ?", (number,)).fetchone()
    parsed = read_query(query, local_at(transaction.now(), zone).date())
    index = OwnerIndex(db, transaction.state, number, passages, since, until, who)
    return _filled(index, *rank(index, parsed, zone), Room(tokens, zone))


def _filled(
    index: OwnerIndex, query: ParsedQuery, sides: list[RankedSide], room: Room
) -> tuple[Passage, ...]:
    """Return passages with the best sides that fit, in the order of the best side of each."""
    wanted = _wanted(index, query)
    texts: dict[int, tuple[str, str, bool] | None] = {}
    chosen: dict[int, dict[bool, str]] = {}
    scores: dict[int, tuple[IndexedPassage, float]] = {}
    misfits = 0
    for side in sides:
        if misfits == MISFITS:
            break
        passage = side.passage
        if passage.id not in texts:
            texts[passage.id] = text_of(index.state, passage.id)
        found = texts[passage.id]
        whole = "" if found is None else found[1] if side.is_answer else found[0]
        if not whole.strip():  # no such side, or deleted from the state, but not from the index yet
            continue
        shown = excerpt(whole, wanted)
        if not room.take(passage.chat, passage.turn, passage.at, shown, is_answer=side.is_answer):
            misfits += 1
            continue
        chosen.setdefault(passage.id, {})[side.is_answer] = shown
        scores.setdefault(passage.id, (passage, side.score))
    passages = []
    for id, (passage, score) in scores.items():
        found = texts[id]
        assert found is not None
        said, answered = (chosen[id].get(is_answer, "") for is_answer in (False, True))
        passages.append(
            Passage(passage.kind, passage.chat, passage.turn, passage.at, said, answered, found[2], score)
        )
    return tuple(passages)


def _wanted(index: OwnerIndex, query: ParsedQuery) -> Counter[str]:
    """Return the stems that an excerpt should contain, with their weights."""
    wanted: Counter[str] = Counter()
    for word in query.words:
        weight = index.weight(word.stems or word.related)
        for terms, share in ((word.related, 0.5), (word.stems, 1.0)):
            wanted.update({term.partition("_")[2]: weight * share for term in terms})
    return wanted
