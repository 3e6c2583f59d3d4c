"""What all steps of the journal use: the type of its messages, and common SQL conditions."""

from collections.abc import Collection
from typing import Any, Final, TypeAlias

from rumi.store.backend import as_values
from rumi.store.steps import Run, Transaction

SLICE: Final = 250
"""Maximum number of rows that one background transaction deletes or reads. Other requests wait for that
transaction, so it must be short."""

TASK_PARTITION_KEY: Final = "coalesce(nullif(chat, ''), owner)"
"""SQL expression for the partition key of a task: the chat that gets the result, or else the task's owner."""

JournalMessage: TypeAlias = Run[Any]
"""A message to the journal: one step of a transaction. Several requests may share one commit."""


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
