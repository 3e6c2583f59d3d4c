"""What the steps of all the journal's requests share: their register, and the texts that a file takes."""

from collections.abc import Collection
from typing import Final

from rumi.store.backend import as_values
from rumi.store.steps import Steps, Transaction

steps: Steps[Transaction] = Steps()
"""The functions of `inbox`, `outbox`, `history`, `reading`, `lessons`, `tasks`, `spending`, `forgetting`."""

TASK_PLACE: Final = "coalesce(nullif(chat, ''), owner)"
"""What a task belongs to: the chat that gets its result, or who asked for it."""


def clean(text: str) -> str:
    """Return the text without lone halves of surrogate pairs, which models write and SQLite refuses.

    One such character must not be a write error: that would restart the journal, and with it every chat.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def mine(transaction: Transaction, place: str = "chat", only: Collection[int] | None = None) -> str:
    """Return the condition that a row's chat is one of this worker's, for the end of a WHERE clause.

    With `only` it is in one of these partitions. It is empty where one process serves all chats.
    """
    if transaction.owned is None:
        return ""
    numbers = as_values(sorted(transaction.owned() if only is None else only))
    return f" AND partition_of({place}) IN ({numbers})" if numbers else " AND FALSE"
