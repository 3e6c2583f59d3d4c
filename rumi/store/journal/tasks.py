"""Steps about tasks: their questions, states, histories and results."""

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Final, get_args

from rumi.platform.chat_ids import task_key
from rumi.store.journal.forgetting import delete_chat
from rumi.store.journal.history import MOST_ENTRY, history_of, insert_history, new_session, session_of
from rumi.store.journal.inbox import insert_message
from rumi.store.journal.outbox import fire_ended
from rumi.store.journal.parked import note_asked
from rumi.store.journal.records import (
    Buttons,
    HistoryEntry,
    Incoming,
    IterationRecord,
    Spent,
    TaskRecord,
    TaskState,
)
from rumi.store.journal.scopes import of_task
from rumi.store.journal.transaction import SLICE, TASK_PARTITION_KEY, clean, mine
from rumi.store.steps import Transaction, step

MOST_ENTRIES: Final = 10_000
MOST_SAID: Final = 20
"""Maximum number of messages from people that may wait for a bot's session."""

_STATES: Final = get_args(TaskState)
_FIELDS: Final = (
    "id, kind, owner, chat, message, attached, question, options, language, model, state, answer,"
    " report, spent, tainted, created, started, ended, schedule, bot, said, wake_at, user"
)


def _of_new(transaction: Transaction, task: TaskRecord) -> Iterable[str]:
    return (task.partition_key,)


@step(_of_new)
def add_task(transaction: Transaction, task: TaskRecord) -> TaskRecord:
    """Store a queued task; return it with its number, or the existing task of the same `message`."""
    if task.message:
        found = _tasks(transaction, "message = ?", task.message)
        if found:
            return found[0]
    return insert_task(task, transaction)


def insert_task(task: TaskRecord, transaction: Transaction) -> TaskRecord:
    """Store a queued task; return it with its number."""
    now = transaction.now()
    (id,) = transaction.db.execute(
        "INSERT INTO tasks (kind, owner, chat, message, attached, question, options, language, model,"
        " schedule, bot, user, state, created)"
        " VALUES (?, ?, ?, nullif(?, 0), ?, ?, ?, ?, ?, nullif(?, 0), ?, ?, 'queued', ?)"
        " RETURNING id",
        (
            *(task.kind, task.owner, task.chat, task.message, task.attached),
            *(
                clean(task.question),
                clean(task.options),
                task.language,
                clean(task.model),
                task.schedule,
                task.bot,
                task.user,
                now,
            ),
        ),
    ).fetchone()
    transaction.touched.add(task.partition_key)
    return replace(task, id=id, created=now)


@step(of_task, reads=True)
def load_task(transaction: Transaction, id: int) -> tuple[TaskRecord, tuple[HistoryEntry, ...]] | None:
    """Return a task and its history; None if the task does not exist."""
    found = _tasks(transaction, "id = ?", id) if 0 < id <= MOST_ENTRY else ()
    if not found:
        return None
    key = task_key(id)
    session, _ = session_of(transaction, key)
    _, entries = history_of(transaction, key, session, MOST_ENTRIES, None)
    return found[0], entries


@step(of_task, owned=True)
def begin_task(transaction: Transaction, id: int) -> None:
    """Record that a task is running."""
    # Not from 'stopping': a stop that was recorded before the start must not be overwritten.
    transaction.db.execute(
        "UPDATE tasks SET state = 'running', started = coalesce(started, ?)"
        " WHERE id = ? AND state IN ('queued', 'sleeping')",
        (transaction.now(), id),
    )


@step(of_task)
def mark_stopping(transaction: Transaction, id: int) -> bool:
    """Record that a task must stop; the record outlasts the process. Return False if the task has ended."""
    row = transaction.db.execute(
        f"UPDATE tasks SET state = 'stopping' WHERE id = ? AND ended IS NULL RETURNING {TASK_PARTITION_KEY}",
        (id,),
    ).fetchone()
    if row is not None:
        transaction.touched.add(row[0])
    return row is not None


@step(of_task, owned=True)
def keep_task(
    transaction: Transaction, id: int, entries: tuple[HistoryEntry, ...], spent: Spent, heard: int = 0
) -> None:
    """Append entries to the history of a task and store its usage so far, in one transaction.

    `heard` is the number of messages from people that are among the entries; they are then no longer waiting.
    """
    key = task_key(id)
    session, _ = session_of(transaction, key)
    insert_history(transaction, key, session, entries)
    # No facts about a user are extracted from a task, because its texts are untrusted.
    transaction.db.execute("UPDATE sessions SET fresh = FALSE WHERE chat = ?", (key,))
    _spend(transaction, id, spent)
    if heard:
        (said,) = transaction.db.execute("SELECT said FROM tasks WHERE id = ?", (id,)).fetchone()
        _say(transaction, id, _texts(said)[heard:])


@step(of_task, owned=True)
def end_iteration(
    transaction: Transaction,
    id: int,
    iteration: IterationRecord,
    wake_at: float,
    message: str = "",
    buttons: Buttons = (),
    asked: tuple[int, ...] = (),
) -> Incoming | None:
    """Store a finished iteration of a bot, begin the next iteration's session, set when the bot wakes.

    A `message` is a text for the bot's chat that asks about the parked calls in `asked`. It is stored too,
    and the stored message is returned. Everything happens in one transaction, and only once for each
    iteration.
    """
    found = _tasks(transaction, "id = ? AND ended IS NULL", id)
    done = iteration
    if not found or not _add_iteration(transaction, id, done):
        return None
    task = found[0]
    new_session.do(transaction, task_key(task.id))
    _spend(transaction, task.id, done.spent)
    # Messages that arrived during the iteration end the sleep at once; a stop that arrived meanwhile stays.
    transaction.db.execute(
        "UPDATE tasks SET wake_at = ?, state = CASE state WHEN 'stopping' THEN state ELSE 'sleeping' END"
        " WHERE id = ?",
        (wake_at if not task.said else 0, task.id),
    )
    note_asked(transaction, task_key(task.id), asked)
    if not message or not task.chat:
        return None
    question = Incoming(
        chat=task.chat,
        text=message,
        language=task.language,
        task=task.id,
        buttons=buttons,
    )
    return insert_message(question, transaction)


@step(reads=True)
def list_iterations(
    transaction: Transaction, id: int, limit: int = 1000, bot: str = ""
) -> tuple[IterationRecord, ...]:
    """Return the latest iterations of a task, or of all sessions of a `bot`, oldest first."""
    which = "task IN (SELECT id FROM tasks WHERE bot = ?1)" if bot else "task = ?1"
    rows = transaction.db.execute(
        f"SELECT number, reason, summary, tainted, spent, ended FROM iterations WHERE {which}"
        " ORDER BY task DESC, number DESC LIMIT ?2",
        (bot or id, limit),
    ).fetchall()
    return tuple(
        IterationRecord(number, reason, summary, bool(tainted), _spent(spent), ended)
        for number, reason, summary, tainted, spent, ended in reversed(rows)
    )


@step(of_task)
def say_to_task(transaction: Transaction, id: int, text: str) -> bool:
    """Store a person's message for the next iteration of a bot's session, and end the session's sleep.

    An empty text only ends the sleep. Return False if the session has ended, or if `MOST_SAID` messages are
    already waiting.
    """
    found = _tasks(transaction, "id = ? AND ended IS NULL", id)
    if not found or len(found[0].said) >= MOST_SAID:
        return False
    if text:
        _say(transaction, id, (*found[0].said, clean(text)))
    transaction.db.execute("UPDATE tasks SET wake_at = 0 WHERE id = ?", (id,))
    return True


@step(of_task)
def reopen_task(
    transaction: Transaction, id: int, options: str, model: str = "", attached: bool = False
) -> TaskRecord | None:
    """Resume a bot's session that ended before reaching its goal; return the task.

    `options` and `model` replace the earlier ones. Return None, and change nothing, if the task is not a
    bot's session that ended early, or if another session of the bot is running.
    """
    found = _tasks(transaction, "id = ? AND bot != '' AND ended IS NOT NULL", id)
    if not found or found[0].state == "succeeded":
        return None
    if _tasks(transaction, "bot = ? AND ended IS NULL", found[0].bot):
        return None
    transaction.db.execute(
        "UPDATE tasks SET state = 'queued', ended = NULL, answer = '', report = '{}', wake_at = 0,"
        " attached = ?, options = ?, model = ? WHERE id = ?",
        (attached, options, model, id),
    )
    return _tasks(transaction, "id = ?", id)[0]


@step(of_task, owned=True)
def end_task(
    transaction: Transaction,
    id: int,
    state: TaskState,
    answer: str,
    report: str = "{}",
    spent: Spent | None = None,
    tainted: bool = False,
    message: str = "",
    iteration: IterationRecord | None = None,
) -> Incoming | None:
    """Record how a task ended, and store the message with its result for its chat, in one transaction.

    `message` is the text of the result for the task's chat, empty if the chat gets no message. `iteration` is
    the last iteration of a bot's session. Return the stored message; None if the task had already ended, or
    if no chat gets a message.
    """
    found = _tasks(transaction, "id = ? AND ended IS NULL", id)
    if not found:
        return None
    task = found[0]
    transaction.db.execute(
        "UPDATE tasks SET state = ?, answer = ?, report = ?, tainted = ?, ended = ? WHERE id = ?",
        (
            *(state, clean(answer), clean(report), tainted),
            *(transaction.now(), id),
        ),
    )
    if spent is not None:
        _spend(transaction, id, spent)
    if iteration is not None:
        _add_iteration(transaction, id, iteration)
    fire_ended(transaction, "tasks", id, state)
    if not message or task.attached or not task.chat:
        return None
    result = Incoming(chat=task.chat, text=message, language=task.language, task=task.id)
    return insert_message(result, transaction)


@step(reads=True)
def open_tasks(
    transaction: Transaction, chat: str = "", partitions: frozenset[int] | None = None
) -> tuple[TaskRecord, ...]:
    """Return the open tasks, oldest first: those of one `chat`, those in some `partitions`, or all."""
    ours = mine(transaction, TASK_PARTITION_KEY, partitions)
    which = f"ended IS NULL AND (chat = ?1 OR ?1 = ''){ours} ORDER BY id"
    return _tasks(transaction, which, chat)


@step()
def interrupt_tasks(transaction: Transaction, partitions: frozenset[int] | None = None) -> None:
    """Record that open attached tasks were interrupted, because their clients ended with the process.

    `partitions` restricts this to tasks in these partitions.
    """
    transaction.db.execute(
        "UPDATE tasks SET state = 'interrupted', ended = ? WHERE attached AND ended IS NULL"
        + mine(transaction, TASK_PARTITION_KEY, partitions),
        (transaction.now(),),
    )


@step(reads=True)
def list_tasks(
    transaction: Transaction, owner: str | None, limit: int = 50, before: int = MOST_ENTRY, bot: str = ""
) -> tuple[TaskRecord, ...]:
    """Return the latest tasks of an `owner`, or of all owners (None), newest first.

    Only tasks with a number below `before` are returned; with a `bot`, only its sessions.
    """
    which = "id < ?1 AND (owner = ?2 OR ?2 IS NULL) AND (bot = ?4 OR ?4 = '') ORDER BY id DESC LIMIT ?3"
    return _tasks(transaction, which, before, owner, limit, bot)


@step(of_task)
def delete_task(transaction: Transaction, id: int) -> bool:
    """Delete an ended task with its history. Return False if the task is open or does not exist."""
    deleted = transaction.db.execute("DELETE FROM tasks WHERE id = ? AND ended IS NOT NULL", (id,)).rowcount
    if deleted:
        transaction.db.execute("DELETE FROM iterations WHERE task = ?", (id,))
    while deleted and delete_chat.do(transaction, task_key(id)):
        pass  # all slices in one transaction: the history of a task is short
    return bool(deleted)


@step(reads=True)
def old_tasks(transaction: Transaction, before: float) -> tuple[int, ...]:
    """Return the numbers of some tasks that ended earlier than `before`, in seconds since 1970."""
    rows = transaction.db.execute(
        f"SELECT id FROM tasks WHERE ended < ?{mine(transaction, TASK_PARTITION_KEY)} ORDER BY id LIMIT ?",
        (before, SLICE),
    )
    return tuple(id for (id,) in rows)


def _spend(transaction: Transaction, id: int, spent: Spent) -> None:
    transaction.db.execute("UPDATE tasks SET spent = ? WHERE id = ?", (json.dumps(asdict(spent)), id))


def _add_iteration(transaction: Transaction, id: int, done: IterationRecord) -> bool:
    """Store a finished iteration; return False if it is already stored."""
    values = (
        *(id, done.number, done.reason, clean(done.summary), done.tainted),
        *(json.dumps(asdict(done.spent)), transaction.now()),
    )
    return bool(
        transaction.db.execute(
            "INSERT INTO iterations (task, number, reason, summary, tainted, spent, ended)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            values,
        ).rowcount
    )


def _say(transaction: Transaction, id: int, said: tuple[str, ...]) -> None:
    transaction.db.execute(
        "UPDATE tasks SET said = ? WHERE id = ?", (json.dumps(said, ensure_ascii=False), id)
    )


def _texts(said: object) -> tuple[str, ...]:
    """Load texts from a JSON list; return none if the list is damaged."""
    try:
        return tuple(map(str, json.loads(str(said))))
    except (ValueError, TypeError):
        return ()


def _spent(spent: object) -> Spent:
    """Load the usage of a task from a JSON object; return zeros if the object is damaged."""
    try:
        return Spent(**json.loads(str(spent)))
    except (ValueError, TypeError):
        return Spent()


def _tasks(transaction: Transaction, which: str, *values: object) -> tuple[TaskRecord, ...]:
    """Return the tasks that match an SQL condition."""
    rows = transaction.db.execute(f"SELECT {_FIELDS} FROM tasks WHERE {which}", values)
    return tuple(_task(dict(zip(_FIELDS.replace(",", "").split(), row, strict=True))) for row in rows)


def _task(row: dict[str, object]) -> TaskRecord:
    """Load a task from a row; replace damaged values, such as the usage, with defaults."""
    spent = _spent(row.pop("spent"))
    numbers = ("message", "started", "ended", "schedule")
    row |= {name: row[name] or 0 for name in numbers}
    row |= {name: bool(row[name]) for name in ("attached", "tainted")}
    row["said"] = _texts(row["said"])
    row["language"] = row["language"] or "en"
    row["state"] = row["state"] if row["state"] in _STATES else "failed"
    return TaskRecord(**row, spent=spent)  # type: ignore[arg-type]
