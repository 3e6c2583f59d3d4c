"""What all requests to the journal share: their types, the register of their steps, and common conditions."""

from collections.abc import Collection
from typing import Any, Final, TypeAlias, TypeVar

from actors import Request
from rumi.store.backend import as_values
from rumi.store.steps import Steps, Transaction

R_co = TypeVar("R_co", covariant=True)

SLICE: Final = 250
"""Rows that one transaction deletes of what is forgotten: others wait for no more than that."""

TASK_PARTITION_KEY: Final = "coalesce(nullif(chat, ''), owner)"
"""What a task belongs to: the chat that gets its result, or who asked for it."""

steps: Steps[Transaction] = Steps()
"""The function of each type of request."""


class JournalRequest(Request[R_co]):
    """A request to the journal: one step of a transaction. Several requests may share one commit."""

    __slots__ = ()


JournalMessage: TypeAlias = JournalRequest[Any]


class Read(JournalRequest[R_co]):
    """A request that is answered also while nothing can be written, as long as it finds all that it needs."""

    __slots__ = ()


class OwnedWrite(JournalRequest[R_co]):
    """A request of a turn, a task or a schedule at work: only the owner of its partition may do it."""

    __slots__ = ()


def clean(text: str) -> str:
    """Return the text without lone halves of surrogate pairs, which models write and SQLite refuses.

    One such character must not be a write error: that would restart the journal, and with it every chat.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def mine(transaction: Transaction, key_column: str = "chat", only: Collection[int] | None = None) -> str:
    """Return the condition that a row's chat is one of this worker's, for the end of a WHERE clause.

    With `only` it is in one of these partitions. It is empty where one process serves all chats.
    """
    if transaction.owned is None:
        return ""
    numbers = as_values(sorted(transaction.owned() if only is None else only))
    return f" AND partition_of({key_column}) IN ({numbers})" if numbers else " AND FALSE"
