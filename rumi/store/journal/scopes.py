"""Scopes of requests: the partitions that a request uses, and whether this worker must own them.

If several workers share a database, each transaction locks the rows of the partitions in its scope. This
makes the requests of one chat run one after another, as they do with a SQLite file. The keys of a partition
are chats, and the owners of tasks without a chat; each step names the function that finds its keys.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rumi.store.backend import as_values
from rumi.store.journal.transaction import TASK_PARTITION_KEY
from rumi.store.ownership import SHARED, partition_of
from rumi.store.steps import Run, Transaction


@dataclass(frozen=True, slots=True)
class Scope:
    """The partitions of a request. If `owned` is set, this worker must own all of them."""

    numbers: frozenset[int] = frozenset()
    owned: bool = False


def scopes_of(requests: Sequence[Run[Any]], transaction: Transaction) -> list[Scope]:
    """Return the scope of each request."""
    return [_scope_of(request, transaction) for request in requests]


def _scope_of(request: Run[Any], transaction: Transaction) -> Scope:
    step = request.step
    keys = () if step.keys is None else step.keys(transaction, request.args[0])
    partitions = frozenset(partition_of(key) for key in keys if key)
    return Scope(partitions | {SHARED} if step.shared else partitions, step.owned)


def of_chat(transaction: Transaction, chat: str) -> Iterable[str]:
    """Return the chat itself."""
    return (chat,)


def keys_in(transaction: Transaction, table: str, ids: Sequence[int], key: str = "chat") -> list[str]:
    """Return the keys of rows of a table; `key` is the SQL expression for a row's key."""
    if not ids:
        return []
    sql = f"SELECT DISTINCT {key} FROM {table} WHERE id IN ({as_values(ids)})"
    return [str(found) for (found,) in transaction.db.execute(sql)]


def _of_row_in(table: str, key: str = "chat") -> Callable[[Transaction, int], Iterable[str]]:
    return lambda transaction, id: keys_in(transaction, table, (id,), key)


of_message: Final = _of_row_in("messages")
of_reply: Final = _of_row_in("outbox")
of_schedule: Final = _of_row_in("schedules")
of_task: Final = _of_row_in("tasks", TASK_PARTITION_KEY)
