"""Requests that store tasks: what is asked of them, what they are at, and what came of them."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Final, get_args

from rumi.platform.chat_ids import task_key
from rumi.store.journal.ended_fires import fire_ended
from rumi.store.journal.forgetting import DeleteChat, delete_chat
from rumi.store.journal.history import (
    MOST_ENTRY,
    NewSession,
    history_of,
    insert_history,
    new_session,
    session_of,
)
from rumi.store.journal.inbox import LANGUAGES, insert_message
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
"""So many texts wait to be heard by a session."""

_STATES: Final = get_args(TaskState)
_FIELDS: Final = (
    "id, kind, owner, chat, parent, message, attached, question, options, language, model, state, answer,"
    " report, spent, tainted, created, started, ended, schedule, bot, said, wake_at, user"
)


@dataclass(frozen=True, slots=True)
class AddTask(JournalRequest[TaskRecord]):
    """Store a task that is to run. Returns it with its number; the same one for the same `message`."""

    task: TaskRecord


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
    """Return a task and its history; None for one that is not there."""

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
    """Note that a task runs."""

    id: int


@steps.of(BeginTask)
def begin_task(request: BeginTask, transaction: Transaction) -> None:
    """Note that a task runs."""
    transaction.db.execute(
        "UPDATE tasks SET state = 'running', started = coalesce(started, ?)"
        " WHERE id = ? AND state IN ('queued', 'sleeping')",
        (transaction.now(), request.id),
    )


@dataclass(frozen=True, slots=True)
class MarkStopping(JournalRequest[bool]):
    """Note that a task is to stop, whatever becomes of its process. Returns False if it has ended."""

    id: int


@steps.of(MarkStopping)
def mark_stopping(request: MarkStopping, transaction: Transaction) -> bool:
    """Note that a task is to stop; its worker is notified."""
    row = transaction.db.execute(
        f"UPDATE tasks SET state = 'stopping' WHERE id = ? AND ended IS NULL RETURNING {TASK_PARTITION_KEY}",
        (request.id,),
    ).fetchone()
    if row is not None:
        transaction.touched.add(row[0])
    return row is not None


@dataclass(frozen=True, slots=True)
class KeepTask(OwnedWrite[None]):
    """Append to a task's history, and note what it has spent so far, in one transaction.

    The first `heard` of what people have said to it are among the entries.
    """

    id: int
    entries: tuple[HistoryEntry, ...]
    spent: Spent
    heard: int = 0


@steps.of(KeepTask)
def keep_task(request: KeepTask, transaction: Transaction) -> None:
    """Append to a task's history, and note what it has spent."""
    key = task_key(request.id)
    session, _ = session_of(transaction, key)
    insert_history(transaction, key, session, request.entries)
    # Nothing about a user is learned from a task: its words come from outside.
    transaction.db.execute("UPDATE sessions SET fresh = FALSE WHERE chat = ?", (key,))
    _spend(transaction, request.id, request.spent)
    if request.heard:
        (said,) = transaction.db.execute("SELECT said FROM tasks WHERE id = ?", (request.id,)).fetchone()
        _say(transaction, request.id, _texts(said)[request.heard :])


@dataclass(frozen=True, slots=True)
class EndIteration(OwnedWrite[Incoming | None]):
    """Store an iteration of a bot, begin the next one's history, and note until when the bot sleeps.

    With a `message`, a text for its chat, that is stored too, and returned; it asks for the parked calls
    `asked`. All in one transaction; of the same iteration it is done once.
    """

    id: int
    iteration: IterationRecord
    wake_at: float
    message: str = ""
    buttons: Buttons = ()
    asked: tuple[int, ...] = ()


@steps.of(EndIteration)
def end_iteration(request: EndIteration, transaction: Transaction) -> Incoming | None:
    """Store an iteration, and begin the history of the next one."""
    found = _tasks(transaction, "id = ? AND ended IS NULL", request.id)
    done = request.iteration
    if not found or not _add_iteration(transaction, request.id, done):
        return None
    task = found[0]
    new_session(NewSession(task_key(task.id)), transaction)
    _spend(transaction, task.id, done.spent)
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
    """Return the last iterations of a task, or of all sessions of a `bot`, oldest first."""

    id: int
    limit: int = 1000
    bot: str = ""


@steps.of(Iterations)
def iterations(request: Iterations, transaction: Transaction) -> tuple[IterationRecord, ...]:
    """Return the last iterations of a task."""
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
    """Store what a person says to a bot's session, which hears it in its next iteration, and end its sleep.

    An empty text only ends the sleep. Returns False if the session has ended, or has too much to hear.
    """

    id: int
    text: str


@steps.of(SayToTask)
def say_to_task(request: SayToTask, transaction: Transaction) -> bool:
    """Store what a person says to a session, and end its sleep."""
    found = _tasks(transaction, "id = ? AND ended IS NULL", request.id)
    if not found or len(found[0].said) >= MOST_SAID:
        return False
    if request.text:
        _say(transaction, request.id, (*found[0].said, clean(request.text)))
    transaction.db.execute("UPDATE tasks SET wake_at = 0 WHERE id = ?", (request.id,))
    return True


@dataclass(frozen=True, slots=True)
class ReopenTask(JournalRequest[TaskRecord | None]):
    """Have a bot's session go on that has ended before its goal, with these options and model; return it.

    None, and nothing is changed, if the task is not such a session, or another one of its bot has not ended.
    """

    id: int
    options: str
    model: str = ""
    attached: bool = False


@steps.of(ReopenTask)
def reopen_task(request: ReopenTask, transaction: Transaction) -> TaskRecord | None:
    """Have a session go on."""
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
    """Note how a task ended, and store the message to its chat that brings the result, in one transaction.

    Returns that message as it is stored; None where the task has ended before, or where it brings none.
    """

    id: int
    state: TaskState
    answer: str
    report: str = "{}"
    spent: Spent | None = None
    tainted: bool = False
    message: str = ""
    """The text of the result for its chat; empty: the chat gets none."""
    iteration: IterationRecord | None = None
    """A bot's last one."""


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
    if request.iteration is not None:
        _add_iteration(transaction, request.id, request.iteration)
    fire_ended(transaction, "tasks", request.id, request.state)
    if not request.message or task.attached or not task.chat:
        return None
    message = Incoming(chat=task.chat, text=request.message, language=task.language, task=task.id)
    return insert_message(message, transaction)


@dataclass(frozen=True, slots=True)
class OpenTasks(Read[tuple[TaskRecord, ...]]):
    """Return the tasks that have not ended, oldest first; of a `chat`, of some `partitions`, or all."""

    chat: str = ""
    partitions: frozenset[int] | None = None


@steps.of(OpenTasks)
def open_tasks(request: OpenTasks, transaction: Transaction) -> tuple[TaskRecord, ...]:
    """Return the tasks that have not ended."""
    ours = mine(transaction, TASK_PARTITION_KEY, request.partitions)
    which = f"ended IS NULL AND (chat = ?1 OR ?1 = ''){ours} ORDER BY id"
    return _tasks(transaction, which, request.chat)


@dataclass(frozen=True, slots=True)
class InterruptTasks(JournalRequest[None]):
    """Note that the attached tasks were interrupted: who waited for them has gone with an earlier process.

    Only those of some `partitions`, if named.
    """

    partitions: frozenset[int] | None = None


@steps.of(InterruptTasks)
def interrupt_tasks(request: InterruptTasks, transaction: Transaction) -> None:
    """Note that who waited for the attached tasks is gone."""
    transaction.db.execute(
        "UPDATE tasks SET state = 'interrupted', ended = ? WHERE attached AND ended IS NULL"
        + mine(transaction, TASK_PARTITION_KEY, request.partitions),
        (transaction.now(),),
    )


@dataclass(frozen=True, slots=True)
class ListTasks(Read[tuple[TaskRecord, ...]]):
    """Return the latest tasks, the newest first; of an `owner`, or of all (None).

    They are those before the number `before`; with a `bot` only its sessions.
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
    """Delete a task that has ended, with its history. Returns False if it has not, or is not there."""

    id: int


@steps.of(DeleteTask)
def delete_task(request: DeleteTask, transaction: Transaction) -> bool:
    """Delete a task that has ended, with its history."""
    gone = transaction.db.execute(
        "DELETE FROM tasks WHERE id = ? AND ended IS NOT NULL", (request.id,)
    ).rowcount
    if gone:
        transaction.db.execute("DELETE FROM iterations WHERE task = ?", (request.id,))
    while gone and delete_chat(DeleteChat(task_key(request.id)), transaction):
        pass  # a task's history is short
    return bool(gone)


@dataclass(frozen=True, slots=True)
class OldTasks(Read[tuple[int, ...]]):
    """Return the numbers of some tasks that ended before then, in seconds since 1970."""

    before: float


@steps.of(OldTasks)
def old_tasks(request: OldTasks, transaction: Transaction) -> tuple[int, ...]:
    """Return tasks that ended before then."""
    rows = transaction.db.execute(
        f"SELECT id FROM tasks WHERE ended < ?{mine(transaction, TASK_PARTITION_KEY)} ORDER BY id LIMIT ?",
        (request.before, SLICE),
    )
    return tuple(id for (id,) in rows)


def _spend(transaction: Transaction, id: int, spent: Spent) -> None:
    transaction.db.execute("UPDATE tasks SET spent = ? WHERE id = ?", (json.dumps(asdict(spent)), id))


def _add_iteration(transaction: Transaction, id: int, done: IterationRecord) -> bool:
    """Store an iteration that has ended; return False if it is stored already."""
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
    """Return the texts of a JSON list; none of a damaged one."""
    try:
        return tuple(map(str, json.loads(str(said))))
    except (ValueError, TypeError):
        return ()


def _spent(spent: object) -> Spent:
    """Return the costs of a JSON object; none of a damaged one."""
    try:
        return Spent(**json.loads(str(spent)))
    except (ValueError, TypeError):
        return Spent()


def _tasks(transaction: Transaction, which: str, *values: object) -> tuple[TaskRecord, ...]:
    """Return the tasks for which a condition is true."""
    rows = transaction.db.execute(f"SELECT {_FIELDS} FROM tasks WHERE {which}", values)
    return tuple(_task(dict(zip(_FIELDS.replace(",", "").split(), row, strict=True))) for row in rows)


def _task(row: dict[str, object]) -> TaskRecord:
    """Return the task of a row; what a damaged file says of its costs and its state is left out."""
    spent = _spent(row.pop("spent"))
    numbers = ("parent", "message", "started", "ended", "schedule")
    row |= {name: row[name] or 0 for name in numbers}
    row |= {name: bool(row[name]) for name in ("attached", "tainted")}
    row["said"] = _texts(row["said"])
    row["language"] = row["language"] if row["language"] in LANGUAGES else "en"
    row["state"] = row["state"] if row["state"] in _STATES else "failed"
    return TaskRecord(**row, spent=spent)  # type: ignore[arg-type]
