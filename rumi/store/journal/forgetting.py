"""Steps that delete rows in slices: forgotten sessions, deleted chats, and rows past their retention.

Each request deletes one slice, a limited number of rows, so that other requests need not wait long.
"""

from dataclasses import dataclass
from datetime import datetime

from rumi.store.journal.scopes import of_chat
from rumi.store.journal.spending import merge_chat
from rumi.store.journal.transaction import SLICE, mine
from rumi.store.journal.workspaces import drop_workspace, forget_workspace
from rumi.store.steps import Transaction, step


@dataclass(frozen=True, slots=True)
class ExpiryCursor:
    """The cursor of `expire_rows`: the index of a table in `_TABLES`, and the last examined row's key."""

    table: int = 0
    row: int = 0


_OF_A_SESSION = (
    " AND NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.chat = {0}.chat AND s.number = {0}.session"
    " AND (s.fresh OR (s.ended IS NULL AND (s.due = 0 OR s.due >= :now))))"
    " AND NOT EXISTS (SELECT 1 FROM lineage JOIN sessions AS b"
    " ON b.chat = lineage.chat AND b.number = lineage.session"
    " WHERE lineage.chat = {0}.chat AND base = {0}.session"
    " AND b.ended IS NULL AND (b.due = 0 OR b.due >= :now))"
)
"""SQL condition that excludes rows of current sessions and of sessions that still need fact extraction.

Rows of a session from which a current one has branched stay, too."""

_OF_EARLIER_MONTHS = " AND created < :month - 86400"
"""SQL condition for rows older than the current month: budgets still count the usage of this month."""

UNDO = ("undos", "schedule_changes", "list_changes")

_TABLES = (
    (
        "messages",
        "received",
        " AND EXISTS (SELECT 1 FROM outbox WHERE outbox.id = reply AND delivered IS NOT NULL)"
        # Numbers continue from the highest row, also in the next process: the last message must stay.
        " AND id < (SELECT max(id) FROM messages)" + _OF_A_SESSION.format("messages"),
    ),
    ("history", "created", _OF_A_SESSION.format("history")),
    (
        "outbox",
        "created",
        " AND delivered IS NOT NULL AND NOT EXISTS (SELECT 1 FROM messages WHERE reply = outbox.id)",
    ),
    *((table, "created", _OF_A_SESSION.format(table)) for table in ("summaries", "episodes")),
    *((table, "created", _OF_EARLIER_MONTHS) for table in ("usage", "grants", "budget_notices")),
    ("undos", "created", " AND done"),
    ("schedule_changes", "created", ""),
    ("list_changes", "created", ""),
    ("effects", "created", " AND state IN ('done', 'failed')"),
)
"""Tables whose rows expire, in the order of deletion. Each has a column with the time of the row and an
additional SQL condition."""

_KEYS = {"summaries": "rowid", "budget_notices": "rowid", "undos": "message"}
"""Key columns of tables without an `id`; the keys are in the order in which the rows were inserted."""


@step()
def sweep_forgotten(transaction: Transaction) -> bool:
    """Delete a slice of the history of forgotten sessions. Return True if there may be more."""
    left = SLICE
    while left:  # many small sessions fit into one slice
        found = _forgotten(transaction)
        if found is None:
            return False
        deleted = transaction.db.execute(
            "DELETE FROM history WHERE id IN"
            " (SELECT id FROM history WHERE chat = ? AND session = ? ORDER BY id LIMIT ?)",
            (*found, left),
        ).rowcount
        if deleted < left:
            transaction.db.execute("UPDATE sessions SET forget = FALSE WHERE chat = ? AND number = ?", found)
        left -= deleted
    return True


def _forgotten(transaction: Transaction) -> tuple[str, int] | None:
    """Return the chat and number of the first session whose history must be deleted now, or None."""
    found: tuple[str, int] | None = transaction.db.execute(
        "SELECT chat, number FROM sessions WHERE forget AND NOT fresh"
        f"{mine(transaction)} ORDER BY chat, number LIMIT 1"
    ).fetchone()
    return found


@step()
def truncate_log(transaction: Transaction) -> bool:
    """Remove deleted rows from the write-ahead log of `state.db` as well.

    Return False if a reader of the file prevents this; the request must then be sent again. On PostgreSQL
    nothing is done and the reply is True, because the server manages its log.
    """
    return True  # `Store.run` truncates the log after the transaction


@step(of_chat)
def delete_chat(transaction: Transaction, chat: str) -> bool:
    """Delete a slice of all rows of a deleted chat. Return True if there may be more.

    Facts are not deleted, because they belong to the owner of the chat.
    """
    left = SLICE
    _empty_last_message(transaction, chat)
    for table in ("history", "messages", "outbox"):
        left -= transaction.db.execute(
            f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE chat = ? LIMIT ?)",
            (chat, left),
        ).rowcount
        if left <= 0:
            return True
    if drop_workspace.do(transaction, chat):
        return True
    transaction.db.execute("UPDATE tasks SET chat = '' WHERE chat = ?", (chat,))
    merge_chat(transaction, chat)
    schedules = "SELECT id FROM schedules WHERE chat = ?"
    transaction.db.execute(f"DELETE FROM fires WHERE schedule IN ({schedules})", (chat,))
    for table in (
        "sessions",
        "summaries",
        "episodes",
        "titles",
        "lineage",
        "members",
        "tainted_files",
        "parked",
        "schedules",
        "unreachable",
        "album_parts",
        "list_items",
        "voices",
        "effects",
        "matrix_events",
        "matrix_rooms",
        *UNDO,
    ):
        transaction.db.execute(f"DELETE FROM {table} WHERE chat = ?", (chat,))
    return False


@step(of_chat)
def forget_chat(transaction: Transaction, chat: str, before: int) -> bool:
    """Delete a slice of a chat's content older than a given message. Return True if there may be more.

    The chat continues. No facts are extracted from the deleted content. Undelivered replies are not deleted.
    """
    left = SLICE
    transaction.db.execute("UPDATE sessions SET fresh = FALSE, asked = FALSE WHERE chat = ?", (chat,))
    for table, which in (
        ("history", "chat = :chat"),
        (
            "messages",
            "chat = :chat AND id < :before AND reply IS NOT NULL AND id < (SELECT max(id) FROM messages)",
        ),
        (
            "outbox",
            "chat = :chat AND delivered IS NOT NULL"
            " AND NOT EXISTS (SELECT 1 FROM messages WHERE reply = outbox.id)",
        ),
    ):
        left -= transaction.db.execute(
            f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE {which} LIMIT :left)",
            {"chat": chat, "before": before, "left": left},
        ).rowcount
        if left <= 0:
            return True
    if forget_workspace(transaction, chat):
        return True
    for table in (
        "summaries",
        "episodes",
        "parked",
        "titles",
        "lineage",
        "members",
        "list_items",
        "effects",
        *UNDO,
    ):
        transaction.db.execute(f"DELETE FROM {table} WHERE chat = ?", (chat,))
    return False


def _empty_last_message(transaction: Transaction, chat: str) -> None:
    """Clear the content of the newest message in the database if it belongs to this chat.

    The row is not deleted, because new message numbers continue from it.
    """
    row = transaction.db.execute(
        "SELECT id FROM messages WHERE id = (SELECT max(id) FROM messages) AND chat = ?", (chat,)
    ).fetchone()
    if row is None:
        return
    now = transaction.now()
    (reply,) = transaction.db.execute(
        "INSERT INTO outbox (chat, text, created, delivered) VALUES ('', '', ?, ?) RETURNING id", (now, now)
    ).fetchone()
    transaction.db.execute(
        "UPDATE messages SET chat = '', text = '', session = NULL, turn = NULL, reason = NULL, origin = NULL,"
        " enclosures = '[]', preview = NULL, user = NULL, admin = FALSE, reply = ? WHERE id = ?",
        (reply, row[0]),
    )


def _month(now: float) -> float:
    """Return the beginning of the current local month, in seconds since 1970."""
    start = datetime.fromtimestamp(now).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return start.timestamp()


@step()
def expire_rows(transaction: Transaction, before: float, cursor: ExpiryCursor) -> ExpiryCursor | None:
    """Examine a slice of rows, and delete finished rows older than `before`, in seconds since 1970.

    Rows are not deleted if they are open or undelivered, or if their session is current or still needs fact
    extraction. Return the cursor of the next slice, None after the last slice.
    """
    table, age, condition = _TABLES[cursor.table]
    key = _KEYS.get(table, "id")
    rows = transaction.db.execute(
        f"SELECT {key}, {age} FROM {table} WHERE {key} > ? ORDER BY {key} LIMIT ?", (cursor.row, SLICE)
    ).fetchall()
    # Rows are in the order of their arrival: after a slice of new rows there are only new ones.
    if not rows or all(at >= before for _, at in rows):
        return ExpiryCursor(cursor.table + 1) if cursor.table + 1 < len(_TABLES) else None
    last = rows[-1][0]
    found = f"FROM {table} WHERE {key} > :row AND {key} <= :last AND {age} < :before{condition}"
    values = {
        "row": cursor.row,
        "last": last,
        "before": before,
        "now": transaction.now(),
        "month": _month(transaction.now()),
    }
    if table == "history":
        # The session may be reopened, and its later entries may repeat what these have read.
        transaction.db.execute(
            "UPDATE sessions SET tainted = TRUE"
            f" WHERE NOT tainted AND (chat, number) IN (SELECT chat, session {found} AND tainted)",
            values,
        )
    transaction.db.execute(f"DELETE {found}", values)
    return ExpiryCursor(cursor.table, last)
