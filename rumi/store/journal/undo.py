"""Steps that undo a turn: its history, schedules, parked calls and reply."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from rumi.models.model import ToolCall
from rumi.store.journal.history import load_message
from rumi.store.journal.lineage import branches_of
from rumi.store.journal.lists import restore_items
from rumi.store.journal.records import Undone
from rumi.store.journal.rows import put_row, row_json
from rumi.store.journal.scopes import of_chat, of_message
from rumi.store.journal.transaction import clean
from rumi.store.steps import Transaction, step


@dataclass(frozen=True, slots=True)
class LastTurn:
    """A turn that can be undone: its message, its user, and the tool calls that it made.

    `behind` is the number of later turns in the chat, which have already been undone.
    """

    turn: str
    text: str
    user: int | None
    calls: tuple[ToolCall, ...] = ()
    behind: int = 0


UNDONE = "this turn was taken back"
"""The reason stored with a withdrawn reply."""


@step(reads=True)
def find_last_turn(transaction: Transaction, chat: str) -> LastTurn | None:
    """Return the latest turn of the chat that was not undone and whose history still exists."""
    turns = transaction.db.execute(
        "SELECT turn FROM history"
        " JOIN sessions ON sessions.chat = history.chat AND number = history.session AND NOT forget"
        " WHERE history.chat = ? AND NOT undone ORDER BY history.id DESC",
        (chat,),
    )
    examined, found = "", None
    for (turn,) in turns:
        if turn == examined:
            continue
        examined, message = turn, _message_of(turn)
        found = transaction.db.execute(
            "SELECT text, user FROM messages WHERE id = ? AND chat = ? AND turn = ?",
            (message, chat, turn),
        ).fetchone()
        if found is not None:
            break
    turns.close()
    if found is None:
        return None
    text, user = found
    later = transaction.db.execute("SELECT turn FROM undos WHERE chat = ?", (chat,))
    behind = sum(_message_of(undone) > message for (undone,) in later)
    return LastTurn(turn, text, user, _calls_of(transaction, chat, turn), behind)


def _message_of(turn: str) -> int:
    """Return the number of the message that started a turn, 0 for a turn without a message."""
    number = turn[1:]
    return int(number) if number.isdecimal() and len(number) < 19 else 0


def _calls_of(transaction: Transaction, chat: str, turn: str) -> tuple[ToolCall, ...]:
    rows = transaction.db.execute(
        "SELECT message FROM history WHERE chat = ? AND turn = ? ORDER BY id", (chat, turn)
    )
    return tuple(call for (text,) in rows for call in load_message(text).tool_calls)


@step(of_chat, owned=True)
def take_back(transaction: Transaction, chat: str, undone: Undone, clean_files: bool = False) -> Undone:
    """Undo the rows of a turn in `state.db`. The caller undoes the other effects and then calls `end_undo`.

    Prompts no longer show the turn. Its parked calls are withdrawn. Its schedules are restored, unless they
    have changed since the turn. Its reply is withdrawn, unless a part of the reply was sent. `undone`
    contains what is already known, such as the message that requested the undo. `clean_files` means that the
    restored files contain no untrusted content. Each message undoes only one turn, even if this request is
    repeated.
    """
    db = transaction.db
    # This commit decides the undo. After a kill the chat finds the record and completes files and facts.
    if (found := find_undo.do(transaction, chat, undone.message)) is not None:
        return found
    turn = undone.turn
    undone = replace(
        undone,
        parked=withdraw_parked(transaction, chat, turn),
        tasks=_tasks_of(transaction, chat, turn),
        withdrawn=_withdraw_reply(transaction, chat, turn),
    )
    undone = _restore_schedules(transaction, undone)
    items, kept = restore_items(transaction, turn)
    undone = replace(undone, items=items, items_kept=kept)
    first, session = db.execute(
        "SELECT id, session FROM history WHERE chat = ? AND turn = ? ORDER BY id LIMIT 1", (chat, turn)
    ).fetchone() or (0, 0)
    db.execute("UPDATE history SET undone = TRUE WHERE chat = ? AND turn = ?", (chat, turn))
    # Delete a summary that has words of the turn: the next one is made without them.
    db.executemany(
        "DELETE FROM summaries WHERE chat = ? AND session = ? AND upto >= ?",
        [(chat, each, first) for each in branches_of(transaction, chat, session, first)],
    )
    if clean_files:
        db.execute("DELETE FROM tainted_files WHERE chat = ?", (chat,))
    db.execute(
        "INSERT INTO undos (message, chat, turn, undone, done, created) VALUES (?, ?, ?, ?, FALSE, ?)",
        (undone.message, chat, turn, _dump(undone), transaction.now()),
    )
    return undone


def _of_message_of(transaction: Transaction, undone: Undone) -> Iterable[str]:
    return of_message(transaction, undone.message)


@step(_of_message_of, owned=True)
def end_undo(transaction: Transaction, undone: Undone) -> None:
    """Record that an undo is complete, and store its result."""
    undone = replace(undone, done=True)
    transaction.db.execute(
        "UPDATE undos SET done = TRUE, undone = ? WHERE message = ?", (_dump(undone), undone.message)
    )


@step(reads=True)
def find_undo(transaction: Transaction, chat: str, message: int = 0) -> Undone | None:
    """Return the undo that a message requested; without a `message`, the chat's unfinished undo."""
    which = "message = ?2" if message else "NOT done"
    row = transaction.db.execute(
        f"SELECT undone FROM undos WHERE chat = ?1 AND {which} ORDER BY message LIMIT 1",
        (chat, message) if message else (chat,),
    ).fetchone()
    return None if row is None else _load(row[0])


def note_schedule(transaction: Transaction, turn: str, chat: str, id: int, before: str | None) -> None:
    """Record that a turn changed a schedule. `before` is the earlier row, None if the schedule is new."""
    if turn:
        transaction.db.execute(
            "INSERT INTO schedule_changes (turn, chat, schedule, before, after, created)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (turn, chat, id, before, schedule_row(transaction, id), transaction.now()),
        )


def schedule_row(transaction: Transaction, id: int) -> str | None:
    """Return all columns of a schedule as a JSON object; None if the schedule does not exist."""
    return row_json(transaction, "schedules", id)


def _restore_schedules(transaction: Transaction, undone: Undone) -> Undone:
    """Restore the schedules that the turn changed, the last change first.

    A schedule that was changed again after the turn is not restored.
    """
    db, restored, conflicts, ended = transaction.db, list[int](), list[int](), set[int]()
    rows = db.execute(
        "SELECT schedule, before, after FROM schedule_changes WHERE turn = ? ORDER BY id DESC", (undone.turn,)
    ).fetchall()
    for id, before, after in rows:
        now = schedule_row(transaction, id)
        if now is not None and before is None and id not in conflicts:
            db.execute("DELETE FROM fires WHERE schedule = ?", (id,))
            db.execute("DELETE FROM schedules WHERE id = ?", (id,))  # also one that has fired since
        elif now == after and before is not None:
            # An undo never restores an approval: a person approves again, and sees what.
            if _approval_in(before) or _approval_in(now):
                ended.add(id)
            put_row(transaction, "schedules", id, before)
            db.execute("UPDATE schedules SET approval = '' WHERE id = ?", (id,))
        elif now is not None or before is not None:
            conflicts.append(id)
            # What the turn may have approved ends, even if the schedule has fired since.
            if _approval_in(now):
                ended.add(id)
            db.execute("UPDATE schedules SET approval = '' WHERE id = ?", (id,))
            continue
        restored.append(id)
    db.execute("DELETE FROM schedule_changes WHERE turn = ?", (undone.turn,))
    return replace(
        undone,
        schedules=tuple(sorted(set(restored) - set(conflicts))),
        schedules_kept=tuple(sorted(set(conflicts))),
        approvals=tuple(sorted(ended)),
    )


def _approval_in(row: str | None) -> str:
    return str(json.loads(row).get("approval", "")) if row is not None else ""


def withdraw_parked(transaction: Transaction, chat: str, turn: str) -> tuple[int, ...]:
    """Withdraw the turn's parked calls that wait for approval; return their numbers."""
    rows = transaction.db.execute(
        "UPDATE parked SET state = 'withdrawn' WHERE chat = ? AND turn = ? AND state = 'waits'"
        " RETURNING number",
        (chat, turn),
    )
    return tuple(sorted(number for (number,) in rows.fetchall()))


def _tasks_of(transaction: Transaction, chat: str, turn: str) -> tuple[int, ...]:
    """Return the open tasks that the turn started."""
    # Tasks do not store their turn: these were created during it, and not by a command or a schedule.
    rows = transaction.db.execute(
        "SELECT id FROM tasks WHERE chat = ?1 AND message IS NULL AND schedule IS NULL AND NOT attached"
        " AND ended IS NULL AND created >= (SELECT min(created) FROM history WHERE chat = ?1 AND turn = ?2)"
        " AND created <= (SELECT max(outbox.created) FROM messages JOIN outbox ON outbox.id = reply"
        " WHERE messages.chat = ?1 AND turn = ?2) ORDER BY id",
        (chat, turn),
    )
    return tuple(id for (id,) in rows)


def _withdraw_reply(transaction: Transaction, chat: str, turn: str) -> int:
    """Withdraw the turn's reply if no part of the reply was sent; return its delivery number, or 0."""
    row = transaction.db.execute(
        "UPDATE outbox SET delivered = ?, failure = ? WHERE delivered IS NULL AND parts = 0"
        " AND id = (SELECT reply FROM messages WHERE chat = ? AND turn = ?) RETURNING id",
        (transaction.now(), UNDONE, chat, turn),
    ).fetchone()
    return int(row[0]) if row else 0


def _dump(undone: Undone) -> str:
    return clean(json.dumps(asdict(undone), ensure_ascii=False))


def _load(text: str) -> Undone:
    fields: dict[str, Any] = json.loads(text)
    read: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    return Undone(**read)
