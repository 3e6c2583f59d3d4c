"""Search for passages by words, related words, similar spellings and dates.

Candidates come from FTS5 with BM25. The query's rare words are searched first; words that are too frequent
are not searched. A candidate's score counts each word of the query once. The passages adjacent to a good
passage get a part of its score. The passages of a session get a part of the score of the line that describes
the session. Then a second search is done for rare words from the best passages.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from math import log
from typing import Final, TypeAlias

from rumi.memory.recall.following import text_of
from rumi.memory.recall.indexing import owner_number
from rumi.memory.recall.messages import MOST, Passage, Who
from rumi.memory.recall.query import ParsedQuery, QueryWord, read_query
from rumi.memory.recall.state import Indexing, StateTables
from rumi.store.protocol import Database
from rumi.store.steps import step

CANDIDATES: Final = 40
"""Maximum number of passages in one list of candidates."""
POSTINGS: Final = 2_000
"""Maximum number of passages scanned for one list; beyond it, the most frequent words are omitted."""
BESIDE: Final = 0.3
"""Share of a passage's score that is added to each adjacent passage."""
SPREAD: Final = 6
"""Number of best passages that add a share of their score to the adjacent passages."""
IN_SESSION: Final = 0.15
"""Share of the score of a session's line that is added to the session's passages."""
HOP: Final = 0.3
"""Weight of the second hop: of words that the best passages contain and the query does not."""
HOP_FROM, HOP_WORDS = 3, 8
"""Number of best passages that the second hop starts from, and number of words taken from them."""
FITS: Final = 0.15
"""Score added to a passage that contains a number, a date or a name, if the query asks for one."""
IN_SPAN, OUT_OF_SPAN = 1.5, 0.8
"""Factors for passages inside and outside of the span of time that the query names."""
LATELY, RECENT = 0.35, 0.05
"""Score added to the latest candidate: if the query asks for the current state, and for other queries."""
ALIKE: Final = 0.45
"""Minimum share of letter groups that two similar spellings have in common."""
NEIGHBOUR_CHARS: Final = 160


_Row: TypeAlias = tuple[int, str, str, int, int, float, int, str, str]


@dataclass(slots=True)
class _ScoredPassage:
    id: int
    kind: str
    chat: str
    session: int
    first: int
    at: float
    flags: int
    said: frozenset[str]
    answered: frozenset[str]
    score: float = 0.0

    @property
    def length(self) -> int:
        return len(self.said) + len(self.answered)


@dataclass(slots=True)
class _OwnerIndex:
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

    def candidates(self, terms: Iterable[str]) -> list[_ScoredPassage]:
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
            "SELECT p.id, kind, chat, session, first, at, flags, w.said, w.answered FROM"
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

    def beside(self, found: _ScoredPassage, *, after: bool) -> _ScoredPassage | None:
        """Return the session's exchange after or before the found one; None if there is none."""
        order = ("first > ?", "ASC") if after else ("first < ?", "DESC")
        row = self.db.execute(
            "SELECT p.id, kind, chat, session, first, at, flags, said, answered FROM passages AS p"
            f" JOIN words ON words.rowid = p.id WHERE chat = ? AND session = ? AND {order[0]}"
            f" AND kind = 'exchange' ORDER BY first {order[1]} LIMIT 1",
            (found.chat, found.session, found.first),
        ).fetchone()
        return None if row is None or found.kind != "exchange" else self.found(row)

    def found(self, row: _Row) -> _ScoredPassage:
        """Convert a row of the index to a candidate."""
        id, kind, chat, session, first, at, flags, said, answered = row
        who = self.who
        return _ScoredPassage(
            id, kind, chat, session, first, at, flags,
            frozenset(said.split()) if who != "assistant" else frozenset(),
            frozenset(answered.split()) if who != "user" else frozenset(),
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


_Scored: TypeAlias = Callable[[_ScoredPassage], float]


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
    limit: int = MOST,
) -> tuple[Passage, ...]:
    """Return an owner's passages for a query, the best first, each with its text and adjacent passages.

    Only passages between the Unix times `since` and `until` are returned.
    """
    db = transaction.db
    number = owner_number(db, owner)
    if number is None:
        return ()
    (passages,) = db.execute("SELECT passages FROM owners WHERE id = ?", (number,)).fetchone()
    parsed = read_query(query, datetime.fromtimestamp(transaction.now()).astimezone().date())
    index = _OwnerIndex(db, transaction.state, number, passages, since, until, who)
    shown: list[Passage] = []
    for found in _ranked(index, parsed):
        passage = _passage(index, found)
        if passage is not None:  # None: deleted from the state, but not from the index yet
            shown.append(passage)
        if len(shown) == limit:
            break
    return tuple(shown)


def _ranked(index: _OwnerIndex, query: ParsedQuery) -> list[_ScoredPassage]:
    """Return the candidates, the best first."""
    query = index.own(query)
    index.look_up(term for word in query.words for term in (*word.stems, *word.related))
    query = _with_spellings(index, query)
    own = [stem for word in query.words for stem in word.stems]
    others = [stem for word in query.words for stem in word.related]
    lists = [own, [*own, *others]] if any(map(index.count, others)) else [own]
    pool = {candidate.id: candidate for stems in lists for candidate in index.candidates(stems)}
    if not pool:
        return _of_the_span(index, query)
    average = sum(candidate.length for candidate in pool.values()) / len(pool) or 1.0

    def scored(candidate: _ScoredPassage) -> float:
        return query.score(candidate.said, candidate.answered, index.weight, candidate.length / average)

    for candidate in pool.values():
        candidate.score = scored(candidate)
    _hop(index, query, pool, scored)
    _hand_on(index, pool, scored)
    _fit(query, pool)
    return sorted(pool.values(), key=lambda candidate: (-candidate.score, -candidate.at))


def _with_spellings(index: _OwnerIndex, query: ParsedQuery) -> ParsedQuery:
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


def _hop(index: _OwnerIndex, query: ParsedQuery, pool: dict[int, _ScoredPassage], scored: _Scored) -> None:
    """Also score passages by rare words from the best passages, as a name there may lead to the answer."""
    best = sorted(pool.values(), key=lambda candidate: -candidate.score)[:HOP_FROM]
    asked = {stem for word in query.words for stem in (*word.stems, *word.related)}
    new_stems = [stem for candidate in best for stem in (candidate.said | candidate.answered) - asked]
    index.look_up(new_stems)
    # A word of one passage only leads back to that passage; a frequent word leads anywhere.
    rare = [
        stem for stem in dict.fromkeys(new_stems) if 1 < index.count(stem) <= max(3, index.passages // 50)
    ]
    rare = sorted(rare, key=index.count)[:HOP_WORDS]
    top = best[0].score
    for candidate in index.candidates(rare):
        if candidate.id not in pool:
            candidate.score = scored(candidate)
            pool[candidate.id] = candidate
    weights = {stem: index.weight((stem,)) for stem in rare}
    most = sum(sorted(weights.values())[-2:]) or 1.0
    for candidate in pool.values():
        if candidate not in best:
            shared = sum(
                weights[stem] for stem in rare if stem in candidate.said or stem in candidate.answered
            )
            candidate.score += HOP * top * min(1.0, shared / most) * 0.5


def _hand_on(index: _OwnerIndex, pool: dict[int, _ScoredPassage], scored: _Scored) -> None:
    """Add a part of the scores of the best passages to the adjacent passages and the sessions."""
    best = sorted(pool.values(), key=lambda candidate: -candidate.score)[:SPREAD]
    gains: dict[int, float] = {}
    for candidate in best:
        for after in (False, True):
            beside = index.beside(candidate, after=after)
            if beside is None or not index.within(beside.at):
                continue
            if beside.id not in pool:
                beside.score = scored(beside)
                pool[beside.id] = beside
            gains[beside.id] = max(gains.get(beside.id, 0.0), BESIDE * candidate.score)
    for id, gain in gains.items():
        pool[id].score += gain
    lines = {
        (candidate.chat, candidate.session): candidate.score
        for candidate in best
        if candidate.kind == "episode"
    }
    for candidate in pool.values():
        if candidate.kind != "episode":
            candidate.score += IN_SESSION * lines.get((candidate.chat, candidate.session), 0.0)


def _fit(query: ParsedQuery, pool: dict[int, _ScoredPassage]) -> None:
    """Raise the scores of candidates that are recent, or that match the kind or time of answer asked for."""
    in_order = sorted(pool.values(), key=lambda candidate: candidate.at)
    for rank, candidate in enumerate(in_order):
        recent = rank / max(1, len(in_order) - 1)
        recent = 1 - recent if query.lately < 0 else recent
        candidate.score *= 1 + (LATELY if query.lately else RECENT) * recent
        if candidate.flags & query.flags:
            candidate.score *= 1 + FITS
        if query.span is not None:
            day = datetime.fromtimestamp(candidate.at).astimezone().date()
            candidate.score *= IN_SPAN if query.span.first <= day <= query.span.last else OUT_OF_SPAN


def _of_the_span(index: _OwnerIndex, query: ParsedQuery) -> list[_ScoredPassage]:
    """Return the latest passages of the requested time span; used if no passage contains a query word."""
    since, until = index.since, index.until
    if query.span is not None:
        since, until = _seconds(query.span.first, time.min), _seconds(query.span.last, time.max)
    if since is None and until is None:
        return []
    rows = index.db.execute(
        "SELECT p.id, kind, chat, session, first, at, flags, said, answered FROM passages AS p"
        " JOIN words ON words.rowid = p.id WHERE owner = ? AND at >= ? AND at <= ? ORDER BY at DESC LIMIT ?",
        (index.owner, since or 0.0, until or 9e15, CANDIDATES),
    )
    return [index.found(row) for row in rows]


def _seconds(day: date, at: time) -> float:
    return datetime.combine(day, at).astimezone().timestamp()


def _passage(index: _OwnerIndex, found: _ScoredPassage) -> Passage | None:
    text = text_of(index.state, found.id)
    if text is None:
        return None
    said, answered, tainted = text
    neighbours = []
    for later in (False, True):
        beside = index.beside(found, after=later)
        other = text_of(index.state, beside.id) if beside is not None else None
        line = " ".join(other[0].split()) if other is not None else ""
        tainted = tainted or (other is not None and other[2])  # the passage shows a part of its neighbours
        neighbours.append(f"{line[:NEIGHBOUR_CHARS]}{'…' if len(line) > NEIGHBOUR_CHARS else ''}")
    (turn,) = index.db.execute("SELECT turn FROM passages WHERE id = ?", (found.id,)).fetchone()
    before, after = neighbours
    return Passage(
        "episode" if found.kind == "episode" else "task" if found.kind == "task" else "exchange",
        found.chat,
        turn,
        found.at,
        said,
        answered,
        before,
        after,
        tainted,
        found.score,
    )
