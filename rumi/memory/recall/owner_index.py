"""One owner's part of the index: passages that contain terms, adjacent ones, similar spellings."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from math import log
from typing import Final, TypeAlias

from rumi.memory.recall.messages import Kind, Who
from rumi.memory.recall.query import ParsedQuery, QueryWord
from rumi.memory.recall.state import StateTables
from rumi.store.protocol import Database

CANDIDATES: Final = 40
"""Maximum number of passages in one list of candidates."""
POSTINGS: Final = 2_000
"""Maximum number of passages scanned for one list; beyond it, the most frequent words are omitted."""
ALIKE: Final = 0.45
"""Minimum share of letter groups that two similar spellings have in common."""

_Row: TypeAlias = tuple[int, Kind, str, int, int, float, int, str, str, str]


@dataclass(frozen=True, slots=True)
class IndexedPassage:
    """A passage of the index, with the terms of its two sides."""

    id: int
    kind: Kind
    chat: str
    session: int
    first: int
    at: float
    flags: int
    said: frozenset[str]
    answered: frozenset[str]
    turn: str


@dataclass(slots=True)
class OwnerIndex:
    """One owner's part of the index. `counts` caches, for each term, the number of passages that contain it.

    A term is a stem with the owner's id as a prefix, so passages of other owners have other terms.
    """

    db: Database
    state: StateTables
    owner: int
    passages: int
    since: float | None
    until: float | None
    who: Who
    counts: dict[str, int] = field(default_factory=dict)

    def weight(self, terms: Collection[str]) -> float:
        """Return how rare a word is, judged by the most frequent of its terms."""
        count = max(map(self.count, terms), default=0)
        return log(1 + (self.passages - count + 0.5) / (count + 0.5)) if count else log(1 + self.passages)

    def count(self, term: str) -> int:
        """Return the number of passages that contain a term; 0 if `look_up` has not read this number yet."""
        return self.counts.get(term, 0)

    def look_up(self, terms: Iterable[str]) -> None:
        """Read and cache the number of passages for each of these terms that is not cached yet."""
        new = [term for term in dict.fromkeys(terms) if term not in self.counts]
        for at in range(0, len(new), 500):  # far below SQLite's limit of parameters of one statement
            part = new[at : at + 500]
            self.counts.update(dict.fromkeys(part, 0))
            self.counts.update(
                self.db.execute(
                    f"SELECT term, passages FROM terms WHERE term IN ({', '.join('?' * len(part))})", part
                ).fetchall()
            )

    def own(self, query: ParsedQuery) -> ParsedQuery:
        """Return the query with its stems replaced by this owner's terms."""

        def terms(stems: Iterable[str]) -> frozenset[str]:
            return frozenset(f"{self.owner}_{stem}" for stem in stems)

        words = tuple(QueryWord(word.text, terms(word.stems), terms(word.related)) for word in query.words)
        return replace(query, words=words)

    def candidates(self, terms: Iterable[str]) -> list[IndexedPassage]:
        """Return the best passages by BM25 that contain any of the terms; too frequent terms are ignored."""
        chosen: list[str] = []
        left = POSTINGS
        for term in sorted(filter(self.count, dict.fromkeys(terms)), key=self.count):
            left -= self.count(term)
            if left < 0 and chosen:
                break
            chosen.append(f'"{term}"')
        if not chosen:
            return []
        only = {"user": "said : ", "assistant": "answered : "}.get(self.who, "")
        since, until = self.since, self.until
        dated = " AND at >= ? AND at <= ?" if since is not None or until is not None else ""
        span = [since if since is not None else 0.0, until if until is not None else 9e15] if dated else []
        rows = self.db.execute(
            "SELECT p.id, kind, chat, session, first, at, flags, w.said, w.answered, turn FROM"
            " (SELECT words.rowid AS id FROM words"
            f"{' JOIN passages ON passages.id = words.rowid' if dated else ''}"
            f" WHERE words MATCH ?{dated} ORDER BY bm25(words, 1.0, 0.7) LIMIT ?) AS best"
            " JOIN passages AS p ON p.id = best.id JOIN words AS w ON w.rowid = best.id",
            (f"{only}({' OR '.join(chosen)})", *span, CANDIDATES),
        )
        return [self.found(row) for row in rows]

    def within(self, at: float) -> bool:
        """Return True if the time `at` is between `since` and `until`."""
        since, until = self.since, self.until
        return (since is None or at >= since) and (until is None or at <= until)

    def beside(self, found: IndexedPassage, *, after: bool) -> IndexedPassage | None:
        """Return the session's exchange after or before the found one; None if there is none."""
        order = ("first > ?", "ASC") if after else ("first < ?", "DESC")
        row = self.db.execute(
            "SELECT p.id, kind, chat, session, first, at, flags, said, answered, turn FROM passages AS p"
            f" JOIN words ON words.rowid = p.id WHERE chat = ? AND session = ? AND {order[0]}"
            f" AND kind = 'exchange' ORDER BY first {order[1]} LIMIT 1",
            (found.chat, found.session, found.first),
        ).fetchone()
        return None if row is None or found.kind != "exchange" else self.found(row)

    def latest(self, since: float, until: float, limit: int) -> list[IndexedPassage]:
        """Return the latest passages between two Unix times, the latest first."""
        rows = self.db.execute(
            "SELECT p.id, kind, chat, session, first, at, flags, said, answered, turn FROM passages AS p"
            " JOIN words ON words.rowid = p.id WHERE owner = ? AND at >= ? AND at <= ?"
            " ORDER BY at DESC LIMIT ?",
            (self.owner, since, until, limit),
        )
        return [self.found(row) for row in rows]

    def found(self, row: _Row) -> IndexedPassage:
        """Convert a row of the index to a candidate."""
        id, kind, chat, session, first, at, flags, said, answered, turn = row
        who = self.who
        return IndexedPassage(
            id, kind, chat, session, first, at, flags,
            frozenset(said.split()) if who != "assistant" else frozenset(),
            frozenset(answered.split()) if who != "user" else frozenset(),
            turn,
        )  # fmt: skip

    def spelt_like(self, word: str) -> list[str]:
        """For a word that no passage contains, return terms with a similar spelling."""
        wanted = " OR ".join(f'"{word[at : at + 3]}"' for at in range(len(word) - 2))
        rows = self.db.execute(
            "SELECT terms.term FROM (SELECT rowid FROM spellings WHERE spellings MATCH ? LIMIT 3000) AS s"
            " JOIN terms ON terms.id = s.rowid WHERE terms.term GLOB ?",
            (wanted, f"{self.owner}_*"),
        )
        alike = []
        for (term,) in rows:
            stem = term.partition("_")[2]
            share = max(_in_common(word, stem, 3), _in_common(word, stem, 2) if stem[0] == word[0] else 0.0)
            if share >= ALIKE or stem.startswith(word):
                alike.append((-share, term))
        return [term for _, term in sorted(alike)[:4]]


def _in_common(one: str, other: str, size: int) -> float:
    """Return which fraction of the `size`-letter sequences of two words is common to both."""
    first, second = (
        frozenset(word[at : at + size] for at in range(len(word) - size + 1)) for word in (one, other)
    )
    return 2 * len(first & second) / (len(first) + len(second)) if first and second else 0.0
