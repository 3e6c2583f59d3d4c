"""Adds passages to the index and removes them, within the open transaction."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from rumi.memory.recall.messages import Kind
from rumi.memory.recall.words import flags_of, stems_of
from rumi.store.protocol import Database


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A passage of the state. `first` and `last` are its first and last row's ids; `at` is a Unix time."""

    kind: Kind
    chat: str
    session: int
    turn: str
    first: int
    last: int
    at: float
    said: str
    answered: str = ""


def owner_number(db: Database, owner: str) -> int | None:
    """Return the id of an owner in the index; None if the owner has no passages."""
    row = db.execute("SELECT id FROM owners WHERE name = ?", (owner,)).fetchone()
    return None if row is None else int(row[0])


def add(db: Database, passages: Iterable[tuple[str, StoredPassage]]) -> None:
    """Index passages, each with its owner. A passage that is already indexed is replaced."""
    counts: Counter[str] = Counter()
    for owner, passage in passages:
        key = (passage.chat, passage.session, passage.turn, passage.kind)
        old = db.execute(
            "SELECT id FROM passages WHERE chat = ? AND session = ? AND turn = ? AND kind = ?", key
        ).fetchone()
        if old is not None:
            remove(db, [old[0]])
        db.execute("INSERT OR IGNORE INTO owners (name) VALUES (?)", (owner,))
        number = owner_number(db, owner)
        db.execute("UPDATE owners SET passages = passages + 1 WHERE id = ?", (number,))
        # The owner's id is part of each term, so that a search can never match passages of another owner.
        columns = [
            [f"{number}_{stem}" for stem in stems_of(text)] for text in (passage.said, passage.answered)
        ]
        counts.update({*columns[0], *columns[1]})
        (id,) = db.execute(
            "INSERT INTO passages (owner, chat, session, turn, kind, first, last, at, flags)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
            (
                number,
                *key,
                passage.first,
                passage.last,
                passage.at,
                flags_of(f"{passage.said}\n{passage.answered}"),
            ),
        ).fetchone()
        db.execute(
            "INSERT INTO words (rowid, said, answered) VALUES (?, ?, ?)", (id, *map(" ".join, columns))
        )
    for term, count in counts.items():
        row = db.execute("UPDATE terms SET passages = passages + ? WHERE term = ?", (count, term))
        if not row.rowcount:
            (id,) = db.execute(
                "INSERT INTO terms (term, passages) VALUES (?, ?) RETURNING id", (term, count)
            ).fetchone()
            db.execute("INSERT INTO spellings (rowid, term) VALUES (?, ?)", (id, term))


def remove(db: Database, ids: Iterable[int]) -> None:
    """Remove passages, and terms that no remaining passage contains."""
    counts: Counter[str] = Counter()
    for id in ids:
        row = db.execute("SELECT said, answered FROM words WHERE rowid = ?", (id,)).fetchone()
        if row is not None:
            counts.update({*row[0].split(), *row[1].split()})
        db.execute("DELETE FROM words WHERE rowid = ?", (id,))
        db.execute(
            "UPDATE owners SET passages = passages - 1 WHERE id = (SELECT owner FROM passages WHERE id = ?)",
            (id,),
        )
        db.execute("DELETE FROM passages WHERE id = ?", (id,))
    for term, count in counts.items():
        db.execute("UPDATE terms SET passages = passages - ? WHERE term = ?", (count, term))
        gone = db.execute("SELECT id FROM terms WHERE term = ? AND passages <= 0", (term,)).fetchone()
        if gone is not None:
            # `spellings` has external content: FTS5 needs the old text for the deletion, before its row goes.
            db.execute(
                "INSERT INTO spellings (spellings, rowid, term) VALUES ('delete', ?, ?)", (gone[0], term)
            )
            db.execute("DELETE FROM terms WHERE id = ?", gone)
    db.execute("DELETE FROM owners WHERE passages <= 0")
