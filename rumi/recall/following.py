"""Follows `state.db`: indexes what is new in it by cursors, removes what was deleted, reads passages from it.

The index has no text of its own: what is shown is read from `state.db`, so what was deleted there is shown no
more, even before it is removed from the index.
"""

import json
from collections.abc import Iterator

from rumi.chat_ids import BOT, TASK, ChatIds
from rumi.journal import load_message
from rumi.recall.indexing import Source, add, remove
from rumi.recall.steps import steps
from rumi.recall.types import CatchUp, Prune, Unindex
from rumi.store.protocol import Database
from rumi.store.steps import Transaction

SLICE = 200
"""Rows of `state.db` that one transaction indexes."""
LOOKED_AT = 5_000
"""Passages that one transaction compares with `state.db`."""

_REMOVED = (
    "NOT EXISTS (SELECT 1 FROM state.history AS h WHERE h.id = passages.last AND NOT h.undone)"
    " OR EXISTS (SELECT 1 FROM state.sessions AS s WHERE s.chat = passages.chat"
    " AND s.number = passages.session AND s.forget)"
)
_GONE = (
    f"(kind = 'exchange' AND ({_REMOVED}))"
    " OR (kind = 'task' AND NOT EXISTS (SELECT 1 FROM state.tasks AS t WHERE t.id = passages.first))"
    " OR (kind = 'episode' AND NOT EXISTS"
    " (SELECT 1 FROM state.episodes AS e WHERE e.id = passages.first AND e.chat = passages.chat))"
)


@steps.of(CatchUp)
def catch_up(request: CatchUp, transaction: Transaction) -> bool:
    """Index the next entries of the history, tasks that have ended, and lines of sessions."""
    db = transaction.db
    more = [_history(db, request.ids), _tasks(db), _episodes(db, request.ids)]
    return any(more)


@steps.of(Prune)
def prune(request: Prune, transaction: Transaction) -> int | None:
    """Remove what is gone of the next passages."""
    db = transaction.db
    last = db.execute(
        "SELECT max(id) FROM (SELECT id FROM passages WHERE id > ? ORDER BY id LIMIT ?)",
        (request.after, LOOKED_AT),
    ).fetchone()[0]
    if last is None:
        return None
    gone = db.execute(
        f"SELECT id FROM passages WHERE id > ? AND id <= ? AND ({_GONE})", (request.after, last)
    ).fetchall()
    if gone:
        _remove_for_good(db, [id for (id,) in gone])
    return int(last)


@steps.of(Unindex)
def unindex(request: Unindex, transaction: Transaction) -> int:
    """Remove an owner's passages."""
    db = transaction.db
    rows = db.execute(
        "SELECT id FROM passages WHERE owner = (SELECT id FROM owners WHERE name = ?)", (request.owner,)
    ).fetchall()
    if rows:
        _remove_for_good(db, [id for (id,) in rows])
    return len(rows)


def _remove_for_good(db: Database, ids: list[int]) -> None:
    """Remove passages; deleted words would otherwise stay in the index's segments until these are merged."""
    remove(db, ids)
    db.execute("INSERT INTO words (words) VALUES ('optimize')")
    db.execute("INSERT INTO spellings (spellings) VALUES ('optimize')")


def is_ahead(db: Database) -> bool:
    """Return True if more is indexed than `state.db` ever had: it is another file than before."""
    row = db.execute("SELECT seq FROM state.sqlite_sequence WHERE name = 'history'").fetchone()
    return cursor(db, "history") > (0 if row is None else row[0])


def cursor(db: Database, name: str) -> float:
    """Return up to where something is indexed."""
    row = db.execute("SELECT value FROM cursors WHERE name = ?", (name,)).fetchone()
    return 0.0 if row is None else float(row[0])


def _advance(db: Database, name: str, value: float) -> None:
    db.execute("INSERT OR REPLACE INTO cursors (name, value) VALUES (?, ?)", (name, value))


def _history(db: Database, ids: ChatIds) -> bool:
    after = int(cursor(db, "history"))
    rows = db.execute(
        "SELECT id, chat, session, turn FROM state.history WHERE id > ? ORDER BY id LIMIT ?", (after, SLICE)
    ).fetchall()
    if not rows:
        return False
    last = rows[-1][0]
    begins: dict[tuple[str, int, str], int] = {}
    for id, chat, session, turn in rows:
        if not chat.startswith((TASK, BOT)):
            begins.setdefault((chat, session, turn), id)
    add(db, _exchanges(db, ids, begins, last))
    _advance(db, "history", last)
    return len(rows) == SLICE


def _exchanges(
    db: Database, ids: ChatIds, begins: dict[tuple[str, int, str], int], last: int
) -> Iterator[tuple[str, Source]]:
    for (chat, session, turn), begin in begins.items():
        known = db.execute(
            "SELECT first FROM passages WHERE chat = ? AND session = ? AND turn = ? AND kind = 'exchange'",
            (chat, session, turn),
        ).fetchone()
        first = begin if known is None else min(begin, known[0])
        said, answered, at, end, _ = _read(db, chat, session, turn, first, last)
        if said or answered:
            files = " ".join(_files(db, chat, turn))
            source = Source(
                "exchange", chat, session, turn, first, end, at, f"{said}\n{files}".strip(), answered
            )
            yield ids.owner_of(chat), source


def _read(
    db: Database, chat: str, session: int, turn: str, first: int, last: int
) -> tuple[str, str, float, int, bool]:
    """Return what was said and answered in a turn, when, its last entry, and whether it is tainted."""
    said: list[str] = []
    answered: list[str] = []
    at, end, tainted = 0.0, first, False
    for id, text, dirty, created in db.execute(
        "SELECT id, message, tainted, created FROM state.history"
        " WHERE chat = ? AND session = ? AND turn = ? AND id >= ? AND id <= ? AND NOT undone ORDER BY id",
        (chat, session, turn, first, last),
    ):
        message = load_message(text)
        if message.role in ("user", "assistant") and message.content.strip():
            (said if message.role == "user" else answered).append(message.content)
            at, tainted = at or created, tainted or bool(dirty)
        end = id
    return "\n".join(said), "\n".join(answered), at, end, tainted


def _files(db: Database, chat: str, turn: str) -> Iterator[str]:
    """Yield the names of the files that came with a turn's message."""
    row = db.execute(
        "SELECT enclosures FROM state.messages WHERE chat = ? AND id = ? AND enclosures != '[]'",
        (chat, int(turn[1:]) if turn[1:].isdecimal() else 0),
    ).fetchone()
    try:
        for each in json.loads(row[0]) if row is not None else ():
            yield str(each.get("name") or "")
    except (ValueError, AttributeError, TypeError):
        return


def _tasks(db: Database) -> bool:
    """Index the results that no chat was told of: the others are in their chats' histories."""
    rows = db.execute(
        "SELECT id, owner, question, answer, ended FROM state.tasks"
        " WHERE ended > ? AND chat = '' AND answer != '' ORDER BY ended LIMIT ?",
        (cursor(db, "tasks"), SLICE),
    ).fetchall()
    add(
        db,
        [
            (owner, Source("task", f"{TASK}{id}", 0, "", id, id, ended, question, answer))
            for id, owner, question, answer, ended in rows
        ],
    )
    if rows:
        _advance(db, "tasks", rows[-1][4])
    return len(rows) == SLICE


def _episodes(db: Database, ids: ChatIds) -> bool:
    rows = db.execute(
        "SELECT id, chat, session, text, began FROM state.episodes WHERE id > ? ORDER BY id LIMIT ?",
        (int(cursor(db, "episodes")), SLICE),
    ).fetchall()
    add(
        db,
        [
            (ids.owner_of(chat), Source("episode", chat, session, "", id, id, began, text))
            for id, chat, session, text, began in rows
        ],
    )
    if rows:
        _advance(db, "episodes", rows[-1][0])
    return len(rows) == SLICE


def text_of(db: Database, id: int) -> tuple[str, str, bool] | None:
    """Return what was said and answered in a passage, and whether it is tainted; None if it is gone.

    A turn that has no reply yet is not among the earlier ones.
    """
    row = db.execute(
        "SELECT kind, chat, session, turn, first, last FROM passages"
        f" WHERE id = ? AND NOT ({_GONE}) AND NOT EXISTS (SELECT 1 FROM state.messages AS m"
        " WHERE m.chat = passages.chat AND m.turn = passages.turn AND m.reply IS NULL)",
        (id,),
    ).fetchone()
    if row is None:
        return None
    kind, chat, session, turn, first, last = row
    if kind == "task":
        found = db.execute(
            "SELECT question, answer, tainted FROM state.tasks WHERE id = ?", (first,)
        ).fetchone()
        return str(found[0]), str(found[1]), bool(found[2])
    if kind == "episode":
        return (
            str(db.execute("SELECT text FROM state.episodes WHERE id = ?", (first,)).fetchone()[0]),
            "",
            False,
        )
    said, answered, _, _, tainted = _read(db, chat, session, turn, first, last)
    files = " ".join(name for name in _files(db, chat, turn) if name and name not in said)
    return "\n".join(filter(None, (said, files))), answered, tainted
