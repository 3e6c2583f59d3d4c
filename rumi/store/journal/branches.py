"""Steps that branch a chat: a message begins a session that continues from before an earlier message."""

from rumi.store.journal.history import open_session
from rumi.store.journal.inbox import whole_message
from rumi.store.journal.lineage import rows_of, share
from rumi.store.journal.records import Incoming
from rumi.store.journal.scopes import of_chat
from rumi.store.journal.undo import withdraw_parked
from rumi.store.steps import Transaction, step


@step(of_chat, reads=True)
def find_branching(transaction: Transaction, chat: str, message: int) -> Incoming | None:
    """Return a message, with its parts, from which the chat can begin anew; None if it cannot.

    A person must have written the message, its turn must have begun, and the turn's history must be stored. A
    part of a message stands for the whole message. A turn with a session of its own has no such message.
    """
    first = _first_part(transaction, chat, message)
    found = whole_message(transaction, chat, first)
    if found is None or not found.turn or not found.by_hand or found.apart:
        return None
    return None if _beginning(transaction, chat, first) is None else found


@step(of_chat, owned=True)
def branch_session(transaction: Transaction, chat: str, message: int) -> int | None:
    """Begin the session for a `message` that branches the chat; return the session's number.

    The new session shares the history of the earlier message's session, up to the earlier message. The
    session that was open ends and can be reopened. The branch is tainted if the shared history is. Parked
    calls of the turns that are left behind are withdrawn, except those of schedules: their plan is not in the
    new history. Return None, and change nothing, if the earlier turn is not stored any more. Idempotent.
    """
    db = transaction.db
    begun, earlier = db.execute(
        "SELECT session, branches FROM messages WHERE chat = ? AND id = ?", (chat, message)
    ).fetchone() or (None, 0)
    if begun is not None and _is_open(transaction, chat, begun):
        return int(begun)
    beginning = _beginning(transaction, chat, earlier)
    if beginning is None:
        return None
    base, first = beginning
    for (turn,) in db.execute(
        "SELECT DISTINCT turn FROM parked WHERE chat = ?1 AND state = 'waits' AND schedule = 0 AND turn IN"
        " (SELECT turn FROM history WHERE chat = ?1 AND session = ?2 AND id >= ?3)",
        (chat, base, first),
    ).fetchall():
        withdraw_parked(transaction, chat, turn)
    db.execute("UPDATE sessions SET ended = ? WHERE chat = ? AND ended IS NULL", (transaction.now(), chat))
    session = open_session(transaction, chat)
    share(transaction, chat, session, base, first - 1)
    of_session, numbers = rows_of(transaction, chat, session)
    db.execute(
        "UPDATE sessions SET"
        " short = (SELECT short FROM sessions WHERE chat = ? AND number = ?),"
        # Entries that have expired tainted their session, and what stayed may repeat them.
        " tainted = EXISTS (SELECT 1 FROM sessions AS s WHERE s.chat = ? AND s.tainted AND"
        "  (s.number = ? OR s.number IN (SELECT base FROM lineage WHERE chat = ? AND session = ?)))"
        f" OR EXISTS (SELECT 1 FROM history WHERE chat = ? AND {of_session} AND tainted AND NOT undone)"
        " WHERE chat = ? AND number = ?",
        (chat, base, chat, base, chat, session, chat, *numbers, chat, session),
    )
    # A summary that covers more would tell the model what it must not know any more.
    db.execute(
        "INSERT INTO summaries (chat, session, turn, upto, text, told, tainted, links, created)"
        " SELECT chat, ?, turn, upto, text, told, tainted, links, created FROM summaries"
        " WHERE chat = ? AND session = ? AND upto < ?",
        (session, chat, base, first),
    )
    db.execute("UPDATE messages SET session = ? WHERE chat = ? AND id = ?", (session, chat, message))
    return session


def _first_part(transaction: Transaction, chat: str, message: int) -> int:
    row = transaction.db.execute(
        "SELECT coalesce(part_of, id) FROM messages WHERE chat = ? AND id = ?", (chat, message)
    ).fetchone()
    return int(row[0]) if row else 0


def _beginning(transaction: Transaction, chat: str, message: int) -> tuple[int, int] | None:
    """Return the session of a message's turn, and the number of the turn's first entry."""
    row = transaction.db.execute(
        "SELECT history.session, min(history.id) FROM messages JOIN history ON history.chat = messages.chat"
        " AND history.session = messages.session AND history.turn = messages.turn"
        " WHERE messages.chat = ? AND messages.id = ? AND NOT EXISTS (SELECT 1 FROM sessions AS s"
        "  WHERE s.chat = messages.chat AND s.number = messages.session AND s.forget)"
        " GROUP BY history.session",
        (chat, message),
    ).fetchone()
    return None if row is None else (int(row[0]), int(row[1]))


def _is_open(transaction: Transaction, chat: str, session: int) -> bool:
    found = transaction.db.execute(
        "SELECT EXISTS (SELECT 1 FROM sessions WHERE chat = ? AND number = ? AND ended IS NULL)",
        (chat, session),
    )
    return bool(found.fetchone()[0])
