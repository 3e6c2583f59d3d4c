"""Requests about tasks: their questions, states, histories and results."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Final, get_args

from rumi.platform.chat_ids import task_key
from rumi.store.journal.forgetting import DeleteChat, delete_chat
from rumi.store.journal.history import (
    MOST_ENTRY,
    NewSession,
    history_of,
    insert_history,
    new_session,
    session_of,
)
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
from rumi.store.journal.transaction import (
    SLICE,
    TASK_PARTITION_KEY,
    JournalRequest,
    OwnedWrite,
    Read,
    clean,
    mine,
    steps,
)
from rumi.store.steps import Transaction

MOST_ENTRIES: Final = 10_000
MOST_SAID: Final = 20
"""Maximum number of messages from people that may wait for a bot's session."""

_STATES: Final = get_args(TaskState)
_FIELDS: Final = (
    "id, kind, owner, chat, parent, message, attached, question, options, language, model, state, answer,"
    " report, spent, tainted, created, started, ended, schedule, bot, said, wake_at, user"
)


@dataclass(frozen=True, slots=True)
class AddTask(JournalRequest[TaskRecord]):
    """Store a queued task; return it with its number, or the existing task of the same `message`."""

    task: TaskRecord


@steps.of(AddTask)
def add_task(request: AddTask, transaction: Transaction) -> TaskRecord:
    """Store a queued task, or return the existing task of the same message."""
    task = request.task
    if task.message:
        found = _tasks(transaction, "message = ?", task.message)
        if found:
            return found[0]
    return insert_task(task, transaction)


def insert_task(task: TaskRecord, transaction: Transaction) -> TaskRecord:
    """Store a queued task; return it with its number."""
    now = transaction.now()
    (id,) = transaction.db.execute(
        "INSERT INTO tasks (kind, owner, chat, parent, message, attached, question, options, language, model,"
        " schedule, bot, user, state, created)"
        " VALUES (?, ?, ?, nullif(?, 0), nullif(?, 0), ?, ?, ?, ?, ?, nullif(?, 0), ?, ?, 'queued', ?)"
        " RETURNING id",
        (
            *(task.kind, task.owner, task.chat, task.parent, task.message, task.attached),
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


@dataclass(frozen=True, slots=True)
class LoadTask(Read[tuple[TaskRecord, tuple[HistoryEntry, ...]] | None]):
    """Return a task and its history; None if the task does not exist."""

    id: int


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


@dataclass(frozen=True, slots=True)
class BeginTask(OwnedWrite[None]):
    """Record that a task is running."""

    id: int


@steps.of(BeginTask)
def begin_task(request: BeginTask, transaction: Transaction) -> None:
    """Record that a task is running."""
    # Not from 'stopping': a stop that was recorded before the start must not be overwritten.
    transaction.db.execute(
        "UPDATE tasks SET state = 'running', started = coalesce(started, ?)"
        " WHERE id = ? AND state IN ('queued', 'sleeping')",
        (transaction.now(), request.id),
    )


@dataclass(frozen=True, slots=True)
class MarkStopping(JournalRequest[bool]):
    """Record that a task must stop; the record outlasts the process. Return False if the task has ended."""

    id: int


@steps.of(MarkStopping)
def mark_stopping(request: MarkStopping, transaction: Transaction) -> bool:
    """Record that a task must stop, and notify the worker that serves it."""
    row = transaction.db.execute(
        f"UPDATE tasks SET state = 'stopping' WHERE id = ? AND ended IS NULL RETURNING {TASK_PARTITION_KEY}",
        (request.id,),
    ).fetchone()
    if row is not None:
        transaction.touched.add(row[0])
    return row is not None


@dataclass(frozen=True, slots=True)
class KeepTask(OwnedWrite[None]):
    """Append entries to the history of a task and store its usage so far, in one transaction.

    `heard` is the number of messages from people that are among the entries; they are then no longer waiting.
    """

    id: int
    entries: tuple[HistoryEntry, ...]
    spent: Spent
    heard: int = 0


@steps.of(KeepTask)
def keep_task(request: KeepTask, transaction: Transaction) -> None:
    """Append entries to the history of a task, and store its usage."""
    key = task_key(request.id)
    session, _ = session_of(transaction, key)
    insert_history(transaction, key, session, request.entries)
    # No facts about a user are extracted from a task, because its texts are untrusted.
    transaction.db.execute("UPDATE sessions SET fresh = FALSE WHERE chat = ?", (key,))
    _spend(transaction, request.id, request.spent)
    if request.heard:
        (said,) = transaction.db.execute("SELECT said FROM tasks WHERE id = ?", (request.id,)).fetchone()
        _say(transaction, request.id, _texts(said)[request.heard :])


@dataclass(frozen=True, slots=True)
class EndIteration(OwnedWrite[Incoming | None]):
    """Store a finished iteration of a bot, begin the next iteration's session, set when the bot wakes.

    A `message` is a text for the bot's chat that asks about the parked calls in `asked`. It is stored too,
    and the stored message is returned. Everything happens in one transaction, and only once for each
    iteration.
    """

    id: int
    iteration: IterationRecord
    wake_at: float
    message: str = ""
    buttons: Buttons = ()
    asked: tuple[int, ...] = ()


@steps.of(EndIteration)
def end_iteration(request: EndIteration, transaction: Transaction) -> Incoming | None:
    """Store a finished iteration, and begin the session of the next iteration."""
    found = _tasks(transaction, "id = ? AND ended IS NULL", request.id)
    done = request.iteration
    if not found or not _add_iteration(transaction, request.id, done):
        return None
    task = found[0]
    new_session(NewSession(task_key(task.id)), transaction)
    _spend(transaction, task.id, done.spent)
    # Messages that arrived during the iteration end the sleep at once; a stop that arrived meanwhile stays.
    transaction.db.execute(
        "UPDATE tasks SET wake_at = ?, state = CASE state WHEN 'stopping' THEN state ELSE 'sleeping' END"
        " WHERE id = ?",
        (request.wake_at if not task.said else 0, task.id),
    )
    note_asked(transaction, task_key(task.id), request.asked)
    if not request.message or not task.chat:
        return None
    question = Incoming(
        chat=task.chat,
        text=request.message,
        language=task.language,
        task=task.id,
        buttons=request.buttons,
    )
    return insert_message(question, transaction)


@dataclass(frozen=True, slots=True)
class Iterations(Read[tuple[IterationRecord, ...]]):
    """Return the latest iterations of a task, or of all sessions of a `bot`, oldest first."""

    id: int
    limit: int = 1000
    bot: str = ""


@steps.of(Iterations)
def iterations(request: Iterations, transaction: Transaction) -> tuple[IterationRecord, ...]:
    """Return the latest iterations of a task or a bot."""
    which = "task IN (SELECT id FROM tasks WHERE bot = ?1)" if request.bot else "task = ?1"
    rows = transaction.db.execute(
        f"SELECT number, reason, summary, tainted, spent, ended FROM iterations WHERE {which}"
        " ORDER BY task DESC, number DESC LIMIT ?2",
        (request.bot or request.id, request.limit),
    ).fetchall()
    return tuple(
        IterationRecord(number, reason, summary, bool(tainted), _spent(spent), ended)
        for number, reason, summary, tainted, spent, ended in reversed(rows)
    )


@dataclass(frozen=True, slots=True)
class SayToTask(JournalRequest[bool]):
    """Store a person's message for the next iteration of a bot's session, and end the session's sleep.

    An empty text only ends the sleep. Return False if the session has ended, or if `MOST_SAID` messages are
    already waiting.
    """

    id: int
    text: str


@steps.of(SayToTask)
def say_to_task(request: SayToTask, transaction: Transaction) -> bool:
    """Store a person's message to a session, and end the session's sleep."""
    found = _tasks(transaction, "id = ? AND ended IS NULL", request.id)
    if not found or len(found[0].said) >= MOST_SAID:
        return False
    if request.text:
        _say(transaction, request.id, (*found[0].said, clean(request.text)))
    transaction.db.execute("UPDATE tasks SET wake_at = 0 WHERE id = ?", (request.id,))
    return True


@dataclass(frozen=True, slots=True)
class ReopenTask(JournalRequest[TaskRecord | None]):
    """Resume a bot's session that ended before reaching its goal; return the task.

    `options` and `model` replace the earlier ones. Return None, and change nothing, if the task is not a
    bot's session that ended early, or if another session of the bot is running.
    """

    id: int
    options: str
    model: str = ""
    attached: bool = False


@steps.of(ReopenTask)
def reopen_task(request: ReopenTask, transaction: Transaction) -> TaskRecord | None:
    """Resume an ended session of a bot."""
    found = _tasks(transaction, "id = ? AND bot != '' AND ended IS NOT NULL", request.id)
    if not found or found[0].state == "succeeded":
        return None
    if _tasks(transaction, "bot = ? AND ended IS NULL", found[0].bot):
        return None
    transaction.db.execute(
        "UPDATE tasks SET state = 'queued', ended = NULL, answer = '', report = '{}', wake_at = 0,"
        " attached = ?, options = ?, model = ? WHERE id = ?",
        (request.attached, request.options, request.model, request.id),
    )
    return _tasks(transaction, "id = ?", request.id)[0]


@dataclass(frozen=True, slots=True)
class EndTask(OwnedWrite[Incoming | None]):
    """Record how a task ended, and store the message with its result for its chat, in one transaction.

    Return the stored message; None if the task had already ended, or if no chat gets a message.
    """

    id: int
    state: TaskState
    answer: str
    report: str = "{}"
    spent: Spent | None = None
    tainted: bool = False
    message: str = ""
    """The text of the result for the task's chat; empty if the chat gets no message."""
    iteration: IterationRecord | None = None
    """The last iteration of a bot's session."""


@steps.of(EndTask)
def end_task(request: EndTask, transaction: Transaction) -> Incoming | None:
    """Record how a task ended, only once, and store the message with its result."""
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
    if request.iteration is not None:
        _add_iteration(transaction, request.id, request.iteration)
    fire_ended(transaction, "tasks", request.id, request.state)
    if not request.message or task.attached or not task.chat:
        return None
    message = Incoming(chat=task.chat, text=request.message, language=task.language, task=task.id)
    return insert_message(message, transaction)


@dataclass(frozen=True, slots=True)
class OpenTasks(Read[tuple[TaskRecord, ...]]):
    """Return the open tasks, oldest first: those of one `chat`, those in some `partitions`, or all."""

    chat: str = ""
    partitions: frozenset[int] | None = None


@steps.of(OpenTasks)
def open_tasks(request: OpenTasks, transaction: Transaction) -> tuple[TaskRecord, ...]:
    """Return the open tasks."""
    ours = mine(transaction, TASK_PARTITION_KEY, request.partitions)
    which = f"ended IS NULL AND (chat = ?1 OR ?1 = ''){ours} ORDER BY id"
    return _tasks(transaction, which, request.chat)


@dataclass(frozen=True, slots=True)
class InterruptTasks(JournalRequest[None]):
    """Record that open attached tasks were interrupted, because their clients ended with the process.

    `partitions` restricts this to tasks in these partitions.
    """

    partitions: frozenset[int] | None = None


@steps.of(InterruptTasks)
def interrupt_tasks(request: InterruptTasks, transaction: Transaction) -> None:
    """Record that open attached tasks were interrupted."""
    transaction.db.execute(
        "UPDATE tasks SET state = 'interrupted', ended = ? WHERE attached AND ended IS NULL"
        + mine(transaction, TASK_PARTITION_KEY, request.partitions),
        (transaction.now(),),
    )


@dataclass(frozen=True, slots=True)
class ListTasks(Read[tuple[TaskRecord, ...]]):
    """Return the latest tasks of an `owner`, or of all owners (None), newest first.

    Only tasks with a number below `before` are returned; with a `bot`, only its sessions.
    """

    owner: str | None
    limit: int = 50
    before: int = MOST_ENTRY
    bot: str = ""


@steps.of(ListTasks)
def list_tasks(request: ListTasks, transaction: Transaction) -> tuple[TaskRecord, ...]:
    """Return the latest tasks."""
    which = "id < ?1 AND (owner = ?2 OR ?2 IS NULL) AND (bot = ?4 OR ?4 = '') ORDER BY id DESC LIMIT ?3"
    return _tasks(transaction, which, request.before, request.owner, request.limit, request.bot)


@dataclass(frozen=True, slots=True)
class DeleteTask(JournalRequest[bool]):
    """Delete an ended task with its history. Return False if the task is open or does not exist."""

    id: int


@steps.of(DeleteTask)
def delete_task(request: DeleteTask, transaction: Transaction) -> bool:
    """Delete an ended task with its history."""
    deleted = transaction.db.execute(
        "DELETE FROM tasks WHERE id = ? AND ended IS NOT NULL", (request.id,)
    ).rowcount
    if deleted:
        transaction.db.execute("DELETE FROM iterations WHERE task = ?", (request.id,))
    while deleted and delete_chat(DeleteChat(task_key(request.id)), transaction):
        pass  # all slices in one transaction: the history of a task is short
    return bool(deleted)


@dataclass(frozen=True, slots=True)
class OldTasks(Read[tuple[int, ...]]):
    """Return the numbers of some tasks that ended earlier than `before`, in seconds since 1970."""

    before: float


@steps.of(OldTasks)
def old_tasks(request: OldTasks, transaction: Transaction) -> tuple[int, ...]:
    """Return the numbers of tasks past their retention."""
    rows = transaction.db.execute(
        f"SELECT id FROM tasks WHERE ended < ?{mine(transaction, TASK_PARTITION_KEY)} ORDER BY id LIMIT ?",
        (request.before, SLICE),
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
    numbers = ("parent", "message", "started", "ended", "schedule")
    row |= {name: row[name] or 0 for name in numbers}
    row |= {name: bool(row[name]) for name in ("attached", "tainted")}
    row["said"] = _texts(row["said"])
    row["language"] = row["language"] or "en"
    row["state"] = row["state"] if row["state"] in _STATES else "failed"
    return TaskRecord(**row, spent=spent)  # type: ignore[arg-type]
