"""The base of all journal requests: their types, the registry of their steps, and common SQL conditions."""

from collections.abc import Collection
from typing import Any, Final, TypeAlias, TypeVar

from actors import Request
from rumi.store.backend import as_values
from rumi.store.steps import Steps, Transaction

R_co = TypeVar("R_co", covariant=True)

SLICE: Final = 250
"""Maximum number of rows that one transaction deletes or reads in the background. Other requests wait for
that transaction, so it must be short."""

TASK_PARTITION_KEY: Final = "coalesce(nullif(chat, ''), owner)"
"""SQL expression for the partition key of a task: the chat that gets its result, or the task's owner."""

steps: Steps[Transaction] = Steps()
"""The registry of the steps of all journal requests."""


class JournalRequest(Request[R_co]):
    """A request to the journal: one step of a transaction. Several requests may share one commit."""

    __slots__ = ()


JournalMessage: TypeAlias = JournalRequest[Any]


class Read(JournalRequest[R_co]):
    """A request that only reads, as long as it finds all rows that it needs.

    The journal answers it also while the database cannot be written.
    """

    __slots__ = ()


class OwnedWrite(JournalRequest[R_co]):
    """A request of a running turn, task or schedule: refused unless this worker owns its partition."""

    __slots__ = ()


def clean(text: str) -> str:
    """Replace lone halves of surrogate pairs, which models sometimes write and SQLite refuses.

    Such a character must not cause a write error, which would restart the journal and with it every chat.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def mine(transaction: Transaction, key_column: str = "chat", only: Collection[int] | None = None) -> str:
    """Return an SQL condition for rows whose chat this worker serves, to append to a WHERE clause.

    `only` restricts it to these partitions instead. The condition is empty if one process serves all chats.
    """
    if transaction.owned is None:
        return ""
    numbers = as_values(sorted(transaction.owned() if only is None else only))
    return f" AND partition_of({key_column}) IN ({numbers})" if numbers else " AND FALSE"
