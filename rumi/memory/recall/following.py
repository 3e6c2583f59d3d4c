"""Updates the search index from the state: adds new rows, removes deleted passages, and reads texts.

The state consists of the tables of `state.db`, in a file or in a database that workers share (`state.py`).
For each table, a cursor marks the last row that is already indexed. The index contains no text: texts are
read from the state, so deleted texts are no longer shown, even before their passages are removed from the
index.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TypeAlias

from rumi.memory.recall.indexing import StoredPassage, add, remove
from rumi.memory.recall.state import Indexing, StateTables
from rumi.platform.chat_ids import BOT, TASK, ChatIds
from rumi.store.journal.history import load_message
from rumi.store.protocol import Database
from rumi.store.steps import step

_Turn: TypeAlias = tuple[str, int, str]
"""A chat, its session, and the turn."""

_Entry: TypeAlias = tuple[int, str, object, float, object]
"""An entry of the history: its id, message, taint, time, and whether it was undone."""

SLICE = 200
"""Maximum number of rows of the state that one transaction indexes."""
LOOKED_AT = 5_000
"""Maximum number of passages that one transaction compares with the state."""

_REMOVED = (
    "NOT EXISTS (SELECT 1 FROM history AS h WHERE h.id = passages.last AND NOT h.undone)"
    " OR EXISTS (SELECT 1 FROM sessions AS s WHERE s.chat = passages.chat"
    " AND s.number = passages.session AND s.forget)"
)
_GONE = (
    f"(kind = 'exchange' AND ({_REMOVED}))"
    " OR (kind = 'task' AND NOT EXISTS (SELECT 1 FROM tasks AS t WHERE t.id = passages.first))"
    " OR (kind = 'episode' AND NOT EXISTS"
    " (SELECT 1 FROM episodes AS e WHERE e.id = passages.first AND e.chat = passages.chat))"
)


_SHOWN = (
    f"NOT ({_GONE}) AND NOT EXISTS (SELECT 1 FROM messages AS m"
    " WHERE m.chat = passages.chat AND m.turn = passages.turn AND m.reply IS NULL)"
)


@step()
def catch_up(transaction: Indexing, ids: ChatIds) -> bool:
    """Index a batch of new entries of the state. The reply is True if more new entries may remain.

    `ids` maps chats to their owners.
    """
    db, state = transaction.db, transaction.state
    more = [_history(db, state, ids), _tasks(db, state), _episodes(db, state, ids)]
    return any(more)


@step(erases=True)
def prune_passages(transaction: Indexing, after: int = 0) -> int | None:
    """Check a batch of passages with ids above `after`; remove those too old or deleted from the state.

    The reply is the cursor for the next batch, None at the end.
    """
    db, state = transaction.db, transaction.state
    last = db.execute(
        "SELECT max(id) FROM (SELECT id FROM passages WHERE id > ? ORDER BY id LIMIT ?)",
        (after, LOOKED_AT),
    ).fetchone()[0]
    if last is None:
        return None
    gone = {row[0] for row in state.passages(_GONE, after, last)}
    if oldest := state.oldest():
        gone |= {
            id
            for (id,) in db.execute(
                "SELECT id FROM passages WHERE id > ? AND id <= ? AND kind = 'exchange' AND last <= ?",
                (after, last, oldest),
            )
        }
    if gone:
        _remove_for_good(db, sorted(gone))
    return int(last)


@step(erases=True)
def unindex_owner(transaction: Indexing, owner: str) -> int:
    """Remove all passages of an owner; the reply is their number.

    Passages that are still in the state will be indexed again.
    """
    db = transaction.db
    rows = db.execute(
        "SELECT id FROM passages WHERE owner = (SELECT id FROM owners WHERE name = ?)", (owner,)
    ).fetchall()
    if rows:
        _remove_for_good(db, [id for (id,) in rows])
    return len(rows)


def _remove_for_good(db: Database, ids: list[int]) -> None:
    """Remove passages and their words. Without this, deleted words would remain in the index's segments.

    FTS5 keeps deleted words until it merges segments, so the command `optimize` merges the segments now.
    """
    remove(db, ids)
    db.execute("INSERT INTO words (words) VALUES ('optimize')")
    db.execute("INSERT INTO spellings (spellings) VALUES ('optimize')")


def _history(db: Database, state: StateTables, ids: ChatIds) -> bool:
    # Entries of tasks and bots only move the cursor; of tasks, the results are indexed by `_tasks`.
    rows = state.read(
        "SELECT id, chat, session, turn, tainted, created, undone,"
        f" CASE WHEN substr(chat, 1, {len(TASK)}) = '{TASK}' OR substr(chat, 1, {len(BOT)}) = '{BOT}'"
        " THEN '' ELSE message END FROM history WHERE id > ? ORDER BY id LIMIT ?",
        (int(state.begin("history")), SLICE),
    ).fetchall()
    turns: dict[_Turn, list[_Entry]] = {}
    for id, chat, session, turn, tainted, created, undone, message in rows:
        if message:
            turns.setdefault((chat, session, turn), []).append((id, message, tainted, created, undone))
    last = rows[-1][0] if rows else None
    if last is not None:
        add(db, _exchanges(db, state, ids, turns, last))
    state.looked("history", last, len(rows) == SLICE)
    return len(rows) == SLICE


def _exchanges(
    db: Database, state: StateTables, ids: ChatIds, turns: dict[_Turn, list[_Entry]], last: int
) -> Iterator[tuple[str, StoredPassage]]:
    """Yield the question and answer of each turn, with its owner. `last` is the last entry of the batch."""
    files = _files(state, [(chat, turn) for chat, _, turn in turns])
    for (chat, session, turn), entries in turns.items():
        known = db.execute(
            "SELECT first, last FROM passages"
            " WHERE chat = ? AND session = ? AND turn = ? AND kind = 'exchange'",
            (chat, session, turn),
        ).fetchone()
        first = entries[0][0]
        if known is not None:
            if entries[-1][0] <= known[1]:
                continue  # already indexed: the ids of a chat's entries ascend
            # The turn has grown: index it again as a whole.
            first = min(first, known[0])
            entries = _entries(state, chat, session, turn, first, last)
        said, answered, at, end, _ = _folded(entries, first)
        if said or answered:
            names = " ".join(files.get((chat, turn), ()))
            source = StoredPassage(
                "exchange", chat, session, turn, first, end, at, f"{said}\n{names}".strip(), answered
            )
            yield ids.owner_of(chat), source


def _entries(state: StateTables, chat: str, session: int, turn: str, first: int, last: int) -> list[_Entry]:
    return state.read(
        "SELECT id, message, tainted, created, undone FROM history"
        " WHERE chat = ? AND session = ? AND turn = ? AND id >= ? AND id <= ? ORDER BY id",
        (chat, session, turn, first, last),
    ).fetchall()


def _folded(entries: Iterable[_Entry], first: int) -> tuple[str, str, float, int, bool]:
    """Combine a turn's history entries: return the turn's question, answer, time, last entry and taint."""
    said: list[str] = []
    answered: list[str] = []
    at, end, tainted = 0.0, first, False
    for id, text, dirty, created, undone in entries:
        if undone:
            continue
        message = load_message(text)
        if message.role in ("user", "assistant") and message.content.strip():
            (said if message.role == "user" else answered).append(message.content)
            at, tainted = at or created, tainted or bool(dirty)
        end = id
    return "\n".join(said), "\n".join(answered), at, end, tainted


def _files(state: StateTables, turns: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[str]]:
    """Return for each turn the names of its attached files; turns without attachments are omitted."""
    turn_of = {(chat, int(turn[1:])): turn for chat, turn in turns if turn[1:].isdecimal()}
    names: dict[tuple[str, str], list[str]] = {}
    if not turn_of:
        return names
    for chat, id, enclosures in state.read(
        "SELECT chat, id, enclosures FROM messages"
        f" WHERE id IN ({', '.join('?' * len(turn_of))}) AND enclosures != '[]'",
        [id for _, id in turn_of],
    ):
        with suppress(ValueError, AttributeError, TypeError):
            if (turn := turn_of.get((chat, id))) is not None:
                names[chat, turn] = [str(enclosure.get("name") or "") for enclosure in json.loads(enclosures)]
    return names


def _tasks(db: Database, state: StateTables) -> bool:
    """Index the results of tasks that have no chat; other results are in the histories of tasks' chats."""
    rows = state.read(
        "SELECT id, owner, question, answer, ended FROM tasks"
        " WHERE ended > ? AND chat = '' AND answer != '' ORDER BY ended LIMIT ?",
        (state.begin("tasks"), SLICE),
    ).fetchall()
    add(
        db,
        [
            (owner, StoredPassage("task", f"{TASK}{id}", 0, "", id, id, ended, question, answer))
            for id, owner, question, answer, ended in rows
            if not _known(db, "task", f"{TASK}{id}", 0, id, ended)
        ],
    )
    state.looked("tasks", rows[-1][4] if rows else None, len(rows) == SLICE)
    return len(rows) == SLICE


def _episodes(db: Database, state: StateTables, ids: ChatIds) -> bool:
    rows = state.read(
        "SELECT id, chat, session, text, began FROM episodes WHERE id > ? ORDER BY id LIMIT ?",
        (int(state.begin("episodes")), SLICE),
    ).fetchall()
    add(
        db,
        [
            (ids.owner_of(chat), StoredPassage("episode", chat, session, "", id, id, began, text))
            for id, chat, session, text, began in rows
            if not _known(db, "episode", chat, session, id, began)
        ],
    )
    state.looked("episodes", rows[-1][0] if rows else None, len(rows) == SLICE)
    return len(rows) == SLICE


def _known(db: Database, kind: str, chat: str, session: int, first: int, at: float) -> bool:
    """Return True if a task or a session's line is already indexed and has not changed since."""
    row = db.execute(
        "SELECT 1 FROM passages WHERE chat = ? AND session = ? AND kind = ? AND first = ? AND at = ?",
        (chat, session, kind, first, at),
    ).fetchone()
    return row is not None


def text_of(state: StateTables, id: int) -> tuple[str, str, bool] | None:
    """Return the question, the answer and the taint of a passage; None if it was deleted.

    Also return None for a turn without a reply: such a turn is still running.
    """
    rows = state.passages(_SHOWN, id - 1, id)
    if not rows:
        return None
    _, kind, chat, session, turn, first, last = rows[0]
    if kind == "task":
        question, answer, tainted = state.read(
            "SELECT question, answer, tainted FROM tasks WHERE id = ?", (first,)
        ).fetchone()
        return str(question), str(answer), bool(tainted)
    if kind == "episode":
        (text,) = state.read("SELECT text FROM episodes WHERE id = ?", (first,)).fetchone()
        return str(text), "", False
    said, answered, _, _, tainted = _folded(_entries(state, chat, session, turn, first, last), first)
    names = _files(state, [(chat, turn)]).get((chat, turn), ())
    files = " ".join(name for name in names if name and name not in said)
    return "\n".join(filter(None, (said, files))), answered, tainted
