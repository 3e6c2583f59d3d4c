"""The base of all journal requests: request types, the registry of steps, and common SQL conditions."""

from collections.abc import Collection
from typing import Any, Final, TypeAlias, TypeVar

from actors import Request
from rumi.store.backend import as_values
from rumi.store.steps import Steps, Transaction

R_co = TypeVar("R_co", covariant=True)

SLICE: Final = 250
"""Maximum number of rows that one background transaction deletes or reads. Other requests wait for that
transaction, so it must be short."""

TASK_PARTITION_KEY: Final = "coalesce(nullif(chat, ''), owner)"
"""SQL expression for the partition key of a task: the chat that gets the result, or else the task's owner."""

steps: Steps[Transaction] = Steps()
"""The registry with the steps of all journal requests."""


class JournalRequest(Request[R_co]):
    """A request to the journal: one step of a transaction. Several requests may share one commit."""

    __slots__ = ()


JournalMessage: TypeAlias = JournalRequest[Any]


class Read(JournalRequest[R_co]):
    """A request that reads. It writes only to create rows that it needs but that do not exist yet.

    The journal also answers such a request while the database cannot be written.
    """

    __slots__ = ()


class OwnedWrite(JournalRequest[R_co]):
    """A write from a running turn, task or schedule: refused unless this worker owns its partition."""

    __slots__ = ()


def clean(text: str) -> str:
    """Replace unpaired surrogates, which models sometimes write and SQLite refuses.

    Such a character must not cause a write error: the error would restart the journal and with it every chat.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def mine(transaction: Transaction, key_column: str = "chat", only: Collection[int] | None = None) -> str:
    """Return an SQL condition, to append to a WHERE clause, for rows whose chat this worker serves.

    `only` selects the rows of these partitions instead. The condition is empty if one process serves all
    chats.
    """
    if transaction.owned is None:
        return ""
    numbers = as_values(sorted(transaction.owned() if only is None else only))
    return f" AND partition_of({key_column}) IN ({numbers})" if numbers else " AND FALSE"
