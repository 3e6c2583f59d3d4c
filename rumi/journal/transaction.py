"""What the steps of all the journal's requests share: their register, and the texts that a file takes."""

from typing import Final

from rumi.store.steps import Steps, Transaction

steps = Steps()
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


def mine(transaction: Transaction, place: str = "chat") -> str:
    """Return the condition that a row's chat is one of this worker's, for the end of a WHERE clause.

    It is empty where one process serves all chats.
    """
    if transaction.owned is None:
        return ""
    numbers = ", ".join(map(str, sorted(transaction.owned())))
    return f" AND partition_of({place}) IN ({numbers})" if numbers else " AND FALSE"
