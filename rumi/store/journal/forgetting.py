"""Requests that delete: what is to be forgotten, and what is older than it has to be kept. A slice each."""

from dataclasses import dataclass
from datetime import datetime

from rumi.store.journal.spending import merge_chat
from rumi.store.journal.transaction import SLICE, JournalRequest, mine, steps
from rumi.store.journal.workspaces import DropWorkspace, drop_workspace, forget_workspace
from rumi.store.steps import Transaction


@dataclass(frozen=True, slots=True)
class ExpiryCursor:
    """How far an expiry has come: the number of a table, and the last row that was looked at."""

    table: int = 0
    row: int = 0


_OF_A_SESSION = (
    " AND NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.chat = {0}.chat AND s.number = {0}.session"
    " AND (s.fresh OR (s.ended IS NULL AND (s.due = 0 OR s.due >= :now))))"
)
"""Not of a session that goes on, nor of one that is still to be learned from."""

_OF_EARLIER_MONTHS = " AND created < :month - 86400"
"""Older than the month that runs: its budgets count what was used since its first day."""

UNDO = ("undos", "schedule_changes")

_TABLES = (
    (
        "messages",
        "received",
        " AND EXISTS (SELECT 1 FROM outbox WHERE outbox.id = reply AND delivered IS NOT NULL)"
        # Messages are numbered on from the last one, also by the next process.
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
)
"""What expires, in this order: its table, the column of its age, and what has to be true of it."""

_KEYS = {"summaries": "rowid", "budget_notices": "rowid", "undos": "message"}
"""The columns that number the rows of tables without an `id` in the order of their arrival."""


@dataclass(frozen=True, slots=True)
class Sweep(JournalRequest[bool]):
    """Delete a slice of what is to be forgotten. The reply is True if there may be more."""


@steps.of(Sweep)
def sweep(request: Sweep, transaction: Transaction) -> bool:
    """Delete a slice of the history of sessions to forget. Return True if there may be more."""
    left = SLICE
    while left:
        found = _forgotten(transaction)
        if found is None:
            return False
        gone = transaction.db.execute(
            "DELETE FROM history WHERE id IN"
            " (SELECT id FROM history WHERE chat = ? AND session = ? ORDER BY id LIMIT ?)",
            (*found, left),
        ).rowcount
        if gone < left:
            transaction.db.execute("UPDATE sessions SET forget = FALSE WHERE chat = ? AND number = ?", found)
        left -= gone
    return True


def _forgotten(transaction: Transaction) -> tuple[str, int] | None:
    """Return the first session whose history is to be deleted."""
    found: tuple[str, int] | None = transaction.db.execute(
        "SELECT chat, number FROM sessions WHERE forget AND NOT fresh"
        f"{mine(transaction)} ORDER BY chat, number LIMIT 1"
    ).fetchone()
    return found


@dataclass(frozen=True, slots=True)
class LeaveNoTrace(JournalRequest[bool]):
    """Remove what was deleted from the write-ahead log of `state.db` as well.

    The reply is False if others read the file, so that it must be asked again. A PostgreSQL server keeps its
    log by rules of its own: there it is True, and nothing is done.
    """


@steps.of(LeaveNoTrace)
def leave_no_trace(request: LeaveNoTrace, transaction: Transaction) -> bool:
    """Do nothing: the store does it after the transaction."""
    return True


@dataclass(frozen=True, slots=True)
class DeleteChat(JournalRequest[bool]):
    """Delete a slice of all that is stored of a chat that has ended. The reply is True if there may be more.

    Facts are not the chat's, but their owner's; they stay.
    """

    chat: str


@steps.of(DeleteChat)
def delete_chat(request: DeleteChat, transaction: Transaction) -> bool:
    """Delete a slice of a chat: history and messages first, since the rest leads to them."""
    chat, left = request.chat, SLICE
    _empty_last_message(transaction, chat)
    for table in ("history", "messages", "outbox"):
        left -= transaction.db.execute(
            f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE chat = ? LIMIT ?)",
            (chat, left),
        ).rowcount
        if left <= 0:
            return True
    if drop_workspace(DropWorkspace(chat), transaction):
        return True
    transaction.db.execute("UPDATE tasks SET chat = '' WHERE chat = ?", (chat,))
    merge_chat(transaction, chat)
    gone = "SELECT id FROM schedules WHERE chat = ?"
    transaction.db.execute(f"DELETE FROM fires WHERE schedule IN ({gone})", (chat,))
    for table in (
        "sessions",
        "summaries",
        "episodes",
        "titles",
        "tainted_files",
        "parked",
        "schedules",
        "album_parts",
        *UNDO,
    ):
        transaction.db.execute(f"DELETE FROM {table} WHERE chat = ?", (chat,))
    return False


@dataclass(frozen=True, slots=True)
class ForgetChat(JournalRequest[bool]):
    """Delete a slice of what was said in a chat before that message. The reply is True if there may be more.

    The chat goes on. Nothing is learned from what is deleted; replies that nobody has yet stay.
    """

    chat: str
    before: int


@steps.of(ForgetChat)
def forget_chat(request: ForgetChat, transaction: Transaction) -> bool:
    """Delete a slice of a chat that goes on: history, messages, replies, and what was made of them."""
    chat, left = request.chat, SLICE
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
            {"chat": chat, "before": request.before, "left": left},
        ).rowcount
        if left <= 0:
            return True
    if forget_workspace(transaction, chat):
        return True
    for table in ("summaries", "episodes", "parked", "titles", *UNDO):
        transaction.db.execute(f"DELETE FROM {table} WHERE chat = ?", (chat,))
    return False


def _empty_last_message(transaction: Transaction, chat: str) -> None:
    """Empty the last message of all if it is the chat's: messages are numbered on from it."""
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
    """Return the beginning of the local month."""
    start = datetime.fromtimestamp(now).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return start.timestamp()


@dataclass(frozen=True, slots=True)
class Expire(JournalRequest[ExpiryCursor | None]):
    """Look at a slice of what is older than `before`, in seconds since 1970, and delete what is over.

    What is open, undelivered, of a session that goes on, or still to be learned from stays. Replies with
    where to go on, None at the end.
    """

    before: float
    cursor: ExpiryCursor


@steps.of(Expire)
def expire(request: Expire, transaction: Transaction) -> ExpiryCursor | None:
    """Look at the next rows, and delete those that are old and finished. Return where to go on.

    Rows are in the order of their arrival: after a slice of new rows there are only new ones.
    """
    cursor = request.cursor
    table, age, over = _TABLES[cursor.table]
    key = _KEYS.get(table, "id")
    rows = transaction.db.execute(
        f"SELECT {key}, {age} FROM {table} WHERE {key} > ? ORDER BY {key} LIMIT ?", (cursor.row, SLICE)
    ).fetchall()
    if not rows or all(at >= request.before for _, at in rows):
        return ExpiryCursor(cursor.table + 1) if cursor.table + 1 < len(_TABLES) else None
    last = rows[-1][0]
    transaction.db.execute(
        f"DELETE FROM {table} WHERE {key} > :row AND {key} <= :last AND {age} < :before{over}",
        {
            "row": cursor.row,
            "last": last,
            "before": request.before,
            "now": transaction.now(),
            "month": _month(transaction.now()),
        },
    )
    return ExpiryCursor(cursor.table, last)
