"""Steps that store tasks: what is asked of them, what they are at, and what came of them."""

import json
from dataclasses import asdict, replace
from typing import Final, get_args

from rumi.chat_ids import task_key
from rumi.journal.ended_fires import fire_ended
from rumi.journal.forgetting import delete_chat
from rumi.journal.history import history_of, insert_history, session_of
from rumi.journal.inbox import LANGUAGES, insert_message
from rumi.journal.messages import (
    MOST_ENTRY,
    SLICE,
    AddTask,
    BeginTask,
    DeleteChat,
    DeleteTask,
    EndTask,
    InterruptTasks,
    KeepTask,
    ListTasks,
    LoadTask,
    MarkStopping,
    OldTasks,
    OpenTasks,
)
from rumi.journal.records import HistoryEntry, Incoming, Spent, TaskRecord, TaskState
from rumi.journal.transaction import clean, steps
from rumi.steps import Transaction

MOST_ENTRIES: Final = 10_000
_STATES: Final = get_args(TaskState)
_FIELDS: Final = (
    "id, kind, owner, chat, parent, message, attached, question, options, language, model, state, answer,"
    " report, spent, tainted, created, started, ended, schedule"
)


@steps.of(AddTask)
def add_task(request: AddTask, transaction: Transaction) -> TaskRecord:
    """Store a task. Return the one that its message has asked for already, if there is one."""
    task = request.task
    if task.message:
        found = _tasks(transaction, "message = ?", task.message)
        if found:
            return found[0]
    return insert_task(task, transaction)


def insert_task(task: TaskRecord, transaction: Transaction) -> TaskRecord:
    """Store a task that is to run; return it with its number."""
    now = transaction.now()
    cursor = transaction.db.execute(
        "INSERT INTO tasks (kind, owner, chat, parent, message, attached, question, options, language, model,"
        " schedule, state, created)"
        " VALUES (?, ?, ?, nullif(?, 0), nullif(?, 0), ?, ?, ?, ?, ?, nullif(?, 0), 'queued', ?)",
        (
            *(task.kind, task.owner, task.chat, task.parent, task.message, task.attached),
            *(
                clean(task.question),
                clean(task.options),
                task.language,
                clean(task.model),
                task.schedule,
                now,
            ),
        ),
    )
    assert cursor.lastrowid is not None
    return replace(task, id=cursor.lastrowid, created=now)


@steps.of(LoadTask)
def load_task(
    request: LoadTask, transaction: Transaction
) -> tuple[TaskRecord, tuple[HistoryEntry, ...]] | None:
    """Return a task and its history."""
    found = _tasks(transaction, "id = ?", request.id) if 0 < request.id <= MOST_ENTRY else ()
    if not found:
        return None
    key = task_key(request.id)
    session, _ = session_of(transaction, key)
    _, entries = history_of(transaction, key, session, MOST_ENTRIES, None)
    return found[0], entries


@steps.of(BeginTask)
def begin_task(request: BeginTask, transaction: Transaction) -> None:
    """Note that a task runs."""
    transaction.db.execute(
        "UPDATE tasks SET state = 'running', started = coalesce(started, ?)"
        " WHERE id = ? AND state = 'queued'",
        (transaction.now(), request.id),
    )


@steps.of(MarkStopping)
def mark_stopping(request: MarkStopping, transaction: Transaction) -> bool:
    """Note that a task is to stop."""
    return bool(
        transaction.db.execute(
            "UPDATE tasks SET state = 'stopping' WHERE id = ? AND ended IS NULL", (request.id,)
        ).rowcount
    )


@steps.of(KeepTask)
def keep_task(request: KeepTask, transaction: Transaction) -> None:
    """Append to a task's history, and note what it has spent."""
    key = task_key(request.id)
    session, _ = session_of(transaction, key)
    insert_history(transaction, key, session, request.entries)
    # Nothing about a user is learned from a task: its words come from outside.
    transaction.db.execute("UPDATE sessions SET fresh = 0 WHERE chat = ?", (key,))
    _spend(transaction, request.id, request.spent)


@steps.of(EndTask)
def end_task(request: EndTask, transaction: Transaction) -> Incoming | None:
    """Note how a task ended, once, and store the message that brings its result."""
    found = _tasks(transaction, "id = ? AND ended IS NULL", request.id)
    if not found:
        return None
    task = found[0]
    transaction.db.execute(
        "UPDATE tasks SET state = ?, answer = ?, report = ?, tainted = ?, ended = ? WHERE id = ?",
        (
            *(request.state, clean(request.answer), clean(request.report), request.tainted),
            *(transaction.now(), request.id),
        ),
    )
    if request.spent is not None:
        _spend(transaction, request.id, request.spent)
    fire_ended(transaction, "tasks", request.id, request.state)
    if not request.message or task.attached or not task.chat:
        return None
    message = Incoming(chat=task.chat, text=request.message, language=task.language, task=task.id)
    return insert_message(message, transaction)


@steps.of(OpenTasks)
def open_tasks(request: OpenTasks, transaction: Transaction) -> tuple[TaskRecord, ...]:
    """Return the tasks that have not ended."""
    return _tasks(transaction, "ended IS NULL AND (chat = ?1 OR ?1 = '') ORDER BY id", request.chat)


@steps.of(InterruptTasks)
def interrupt_tasks(request: InterruptTasks, transaction: Transaction) -> None:
    """Note that who waited for the attached tasks is gone."""
    transaction.db.execute(
        "UPDATE tasks SET state = 'interrupted', ended = ? WHERE attached AND ended IS NULL",
        (transaction.now(),),
    )


@steps.of(ListTasks)
def list_tasks(request: ListTasks, transaction: Transaction) -> tuple[TaskRecord, ...]:
    """Return the latest tasks."""
    which = "id < ?1 AND (owner = ?2 OR ?2 = '') ORDER BY id DESC LIMIT ?3"
    return _tasks(transaction, which, request.before, request.owner, request.limit)


@steps.of(DeleteTask)
def delete_task(request: DeleteTask, transaction: Transaction) -> bool:
    """Delete a task that has ended, with its history."""
    gone = transaction.db.execute(
        "DELETE FROM tasks WHERE id = ? AND ended IS NOT NULL", (request.id,)
    ).rowcount
    while gone and delete_chat(DeleteChat(task_key(request.id)), transaction):
        pass  # a task's history is short
    return bool(gone)


@steps.of(OldTasks)
def old_tasks(request: OldTasks, transaction: Transaction) -> tuple[int, ...]:
    """Return tasks that ended before then."""
    rows = transaction.db.execute("SELECT id FROM tasks WHERE ended < ? LIMIT ?", (request.before, SLICE))
    return tuple(id for (id,) in rows)


def _spend(transaction: Transaction, id: int, spent: Spent) -> None:
    transaction.db.execute("UPDATE tasks SET spent = ? WHERE id = ?", (json.dumps(asdict(spent)), id))


def _tasks(transaction: Transaction, which: str, *values: object) -> tuple[TaskRecord, ...]:
    """Return the tasks for which a condition is true."""
    rows = transaction.db.execute(f"SELECT {_FIELDS} FROM tasks WHERE {which}", values)
    return tuple(_task(dict(zip(_FIELDS.replace(",", "").split(), row, strict=True))) for row in rows)


def _task(row: dict[str, object]) -> TaskRecord:
    """Return the task of a row; what a damaged file says of its costs and its state is left out."""
    try:
        spent = Spent(**json.loads(str(row.pop("spent"))))
    except (ValueError, TypeError):
        spent = Spent()
    numbers = ("parent", "message", "started", "ended", "schedule")
    row |= {name: row[name] or 0 for name in numbers}
    row |= {name: bool(row[name]) for name in ("attached", "tainted")}
    row["language"] = row["language"] if row["language"] in LANGUAGES else "en"
    row["state"] = row["state"] if row["state"] in _STATES else "failed"
    return TaskRecord(**row, spent=spent)  # type: ignore[arg-type]
