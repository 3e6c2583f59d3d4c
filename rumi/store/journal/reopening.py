"""Steps that list the sessions of a chat and reopen one of them."""

from typing import Final

from rumi.store.journal.outbox import settle
from rumi.store.journal.records import FinalReply, StoredSession
from rumi.store.journal.scopes import of_chat
from rumi.store.steps import Transaction, step

_SESSIONS: Final = """
SELECT number, ended IS NULL,
    (SELECT created FROM history WHERE history.chat = sessions.chat AND session = number AND NOT undone
        ORDER BY id DESC LIMIT 1) AS at,
    tainted OR EXISTS (SELECT 1 FROM history WHERE history.chat = sessions.chat AND session = number
        AND history.tainted AND NOT undone)
FROM sessions WHERE chat = ?1 AND NOT forget AND number = coalesce(?2, number)
"""

_SAID: Final = """
SELECT session, min(id), count(*) FROM messages
WHERE chat = ?1 AND turn IS NOT NULL AND part_of IS NULL AND session = coalesce(?2, session)
GROUP BY session
"""


@step(of_chat, reads=True)
def list_sessions(transaction: Transaction, chat: str, limit: int) -> tuple[StoredSession, ...]:
    """Return the sessions of a chat that can be reopened, the latest first, and the current one.

    Sessions without messages, and sessions that a reset deletes, are left out.
    """
    found = sorted(_sessions(transaction, chat), key=lambda session: session.at, reverse=True)
    return tuple(found[:limit])


@step(of_chat, reads=True)
def find_session(transaction: Transaction, chat: str, number: int) -> StoredSession | None:
    """Return a session of a chat; None if it does not exist, has no messages or is being deleted."""
    return next(iter(_sessions(transaction, chat, number)), None)


@step(of_chat, owned=True)
def reopen_session(
    transaction: Transaction, chat: str, number: int, due: float, reply: FinalReply | None = None
) -> int | None:
    """End the chat's session and continue the session `number`, which ends at the time `due` in silence.

    The `reply` to the message that asked for it is stored in the same transaction; return its delivery
    number, or 0 without a reply. Return None, and change nothing, if the session cannot be reopened.
    Idempotent.
    """
    if find_session.do(transaction, chat, number) is None:
        return None
    # One open session at a time: `session_of` takes the open session with the highest number.
    transaction.db.execute(
        "UPDATE sessions SET ended = ? WHERE chat = ? AND ended IS NULL AND number != ?",
        (transaction.now(), chat, number),
    )
    transaction.db.execute(
        "UPDATE sessions SET ended = NULL, due = ? WHERE chat = ? AND number = ?", (due, chat, number)
    )
    return 0 if reply is None else settle.do(transaction, chat, reply)


def _sessions(transaction: Transaction, chat: str, number: int | None = None) -> list[StoredSession]:
    rows = transaction.db.execute(_SESSIONS, (chat, number)).fetchall()
    said = {
        session: (first, count)
        for session, first, count in transaction.db.execute(_SAID, (chat, number)).fetchall()
    }
    found = []
    for session, current, at, tainted in rows:
        if at is None:
            continue
        first, count = said.get(session, (0, 0))
        text = transaction.db.execute("SELECT text FROM messages WHERE id = ?", (first,)).fetchone()
        said_first = str(text[0]) if text else ""
        found.append(StoredSession(chat, session, at, said_first, count, bool(current), bool(tainted)))
    return found
