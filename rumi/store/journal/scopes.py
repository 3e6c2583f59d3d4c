"""Scopes of requests: the partitions that a request uses, and whether this worker must own them.

If several workers share a database, each transaction locks the rows of the partitions in its scope. This
makes the requests of one chat run one after another, as they do with a SQLite file.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from actors import Request
from rumi.store.backend import as_values
from rumi.store.journal.inbox import Accept, JoinAlbums, Load, Previewed, RecordMove, Retriable
from rumi.store.journal.outbox import Delivered, PartSent
from rumi.store.journal.parked import LoadParked
from rumi.store.journal.schedules import (
    AddSchedule,
    DeleteSchedule,
    Fire,
    MoveSchedules,
    PauseFailed,
    SetSchedule,
)
from rumi.store.journal.spending import Grant, MarkNoticed, RecordUsage, ReserveCall, SettleCall, SettleLeft
from rumi.store.journal.tasks import (
    AddTask,
    BeginTask,
    DeleteTask,
    EndIteration,
    EndTask,
    KeepTask,
    LoadTask,
    MarkStopping,
    ReopenTask,
    SayToTask,
)
from rumi.store.journal.transaction import OwnedWrite, Read, mine
from rumi.store.journal.undo import EndUndo
from rumi.store.ownership import SHARED, partition_of
from rumi.store.steps import Transaction

_OF_A_TASK: Final = (
    BeginTask,
    KeepTask,
    EndTask,
    EndIteration,
    MarkStopping,
    SayToTask,
    ReopenTask,
    DeleteTask,
    LoadTask,
)
_OF_A_SCHEDULE: Final = (SetSchedule, DeleteSchedule, PauseFailed)
_OF_ALL: Final = (
    RecordMove,
    Grant,
    MarkNoticed,
    RecordUsage,
    ReserveCall,
    SettleCall,
    SettleLeft,
    AddSchedule,
)
"""Requests that read data of all chats before changing it, so they also lock the row `SHARED`."""

_OPENS_A_SESSION: Final = (Load, Retriable, LoadTask)
"""Read requests that open a session if there is none: without a lock, two workers could open the same
session."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The partitions of a request. If `owned` is set, this worker must own all of them."""

    numbers: frozenset[int] = frozenset()
    owned: bool = False


def scopes_of(requests: Sequence[Request[Any]], transaction: Transaction) -> list[Scope]:
    """Return the scope of each request."""
    return [_scope_of(request, transaction) for request in requests]


def _scope_of(request: Request[Any], transaction: Transaction) -> Scope:
    if isinstance(request, (Read, LoadParked)) and not isinstance(request, _OPENS_A_SESSION):
        return Scope()
    partitions = frozenset(partition_of(key) for key in _partition_keys_of(request, transaction) if key)
    if isinstance(request, _OF_ALL):
        partitions |= {SHARED}
    return Scope(partitions, _is_owned(request))


def _is_owned(request: Request[Any]) -> bool:
    if isinstance(request, Delivered) and request.by_reader:
        return False
    return isinstance(request, OwnedWrite)


def _partition_keys_of(request: Request[Any], transaction: Transaction) -> Iterable[str]:
    """Return the partition keys (chats, or owners of tasks without chat) of rows that a request writes."""
    match request:
        case Accept():
            return [message.chat for message in request.batch]
        case Fire():
            return _found(transaction, "chat", "schedules", [firing.schedule for firing in request.firings])
        case MoveSchedules():
            return _found(transaction, "chat", "schedules", [move[0] for move in request.moves])
        case AddTask():
            return [request.task.partition_key]
        case AddSchedule():
            return [request.schedule.chat]
        case JoinAlbums():
            rows = transaction.db.execute(
                f"SELECT DISTINCT chat FROM album_parts WHERE TRUE{mine(transaction)}"
            )
            return [str(chat) for (chat,) in rows]
        case EndUndo():
            return _found(transaction, "chat", "messages", [request.undone.message])
        case Previewed():
            return _found(transaction, "chat", "messages", [request.message])
        case Delivered() | PartSent():
            return _found(transaction, "chat", "outbox", [request.delivery])
    if isinstance(request, _OF_A_TASK):
        return _found(transaction, "coalesce(nullif(chat, ''), owner)", "tasks", [request.id])
    if isinstance(request, _OF_A_SCHEDULE):
        return _found(transaction, "chat", "schedules", [request.id])
    chat = getattr(request, "chat", None)
    return [chat] if isinstance(chat, str) else []


def _found(transaction: Transaction, what: str, table: str, numbers: Sequence[int]) -> list[str]:
    if not numbers:
        return []
    sql = f"SELECT DISTINCT {what} FROM {table} WHERE id IN ({as_values(numbers)})"
    return [str(key) for (key,) in transaction.db.execute(sql)]
