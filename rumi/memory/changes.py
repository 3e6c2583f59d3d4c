"""Records the changes that turns make to facts, so that an undo can reverse the changes.

For each key that a turn's request changes, all rows are recorded as they were before and after the request.
So side effects are recorded too, such as the deletion of another fact when the maximum number of facts is
reached.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from rumi.memory.messages import TakenBack
from rumi.store.protocol import Database
from rumi.store.steps import Transaction

RETENTION_S: Final = 7 * 86_400.0
"""Retention of recorded changes, in seconds."""

MAX_CHANGES: Final = 1_000
"""Maximum number of recorded changes, of all turns together."""

_Rows: TypeAlias = list[dict[str, object]]


@contextmanager
def recording_changes(transaction: Transaction, turn: str, owner: str) -> Iterator[None]:
    """Record the changes to an owner's facts within this `with` block; without a turn, record nothing."""
    if not turn:
        yield
        return
    db, now = transaction.db, transaction.now()
    before = _by_key(db, owner)
    yield
    after = _by_key(db, owner)
    db.executemany(
        "INSERT INTO changes (turn, owner, folded, before, after, at) VALUES (?, ?, ?, ?, ?, ?)",
        [
            (turn, owner, key, json.dumps(before.get(key, [])), json.dumps(after.get(key, [])), now)
            for key in sorted(before.keys() | after.keys())
            if before.get(key) != after.get(key)
        ],
    )
    db.execute(
        "DELETE FROM changes WHERE at < ? OR id <= (SELECT max(id) FROM changes) - ?",
        (now - RETENTION_S, MAX_CHANGES),
    )


def take_back(transaction: Transaction, turn: str) -> TakenBack:
    """Restore the facts that a turn has changed, in reverse order of the changes."""
    db, restored, kept = transaction.db, dict[str, None](), dict[str, None]()
    changes = db.execute(
        "SELECT owner, folded, before, after FROM changes WHERE turn = ? ORDER BY id DESC", (turn,)
    ).fetchall()
    for owner, key, before, after in changes:
        # Somebody else has changed this key since: their change counts more than the undo.
        if _by_key(db, owner, key).get(key, []) != json.loads(after):
            kept[key] = None
            continue
        db.execute("DELETE FROM facts WHERE owner = ? AND folded = ?", (owner, key))
        db.execute("DELETE FROM forgotten WHERE owner = ? AND folded = ?", (owner, key))
        for row in json.loads(before):
            names, marks = ", ".join(row), ", ".join("?" * len(row))  # column names that this module wrote
            row["tainted"] = bool(row["tainted"])
            db.execute(f"INSERT INTO facts ({names}) VALUES ({marks})", list(row.values()))
        restored[key] = None
    db.execute("DELETE FROM changes WHERE turn = ?", (turn,))
    return TakenBack(tuple(key for key in restored if key not in kept), tuple(kept))


def _by_key(db: Database, owner: str, key: str | None = None) -> dict[str, _Rows]:
    """Return the owner's rows, grouped by normalized key, with all columns except the id."""
    cursor = db.execute(
        "SELECT * FROM facts WHERE owner = ?1 AND folded = coalesce(?2, folded) ORDER BY id", (owner, key)
    )
    names = [column[0] for column in cursor.description]
    found: dict[str, _Rows] = {}
    for values in cursor:
        row = dict(zip(names, values, strict=True))
        del row["id"]
        row["tainted"] = int(str(row["tainted"]) in ("1", "True"))  # SQLite returns 1, PostgreSQL True
        found.setdefault(str(row["folded"]), []).append(row)
    return found
