"""Steps for extracting facts from sessions: due sessions, their excerpts, and finished extractions."""

import math
from collections.abc import Iterable

from rumi.store.journal.history import load_message, role_of
from rumi.store.journal.records import DueSessions, SessionExcerpt
from rumi.store.journal.scopes import of_chat
from rumi.store.journal.transaction import clean, mine
from rumi.store.steps import Transaction, step

_DUE = """
SELECT chat, number, CASE WHEN learn_after > ends THEN learn_after ELSE ends END AS since FROM (
    SELECT chat, number, learn_after,
        CASE WHEN ended IS NOT NULL OR asked THEN 0 WHEN due = 0 THEN ?2 ELSE due END AS ends
    FROM sessions WHERE fresh AND chat = coalesce(?1, chat){mine}
) AS each ORDER BY since, chat, number
"""


@step(reads=True)
def find_due_sessions(
    transaction: Transaction, chat: str | None = None, going_on: bool = False
) -> DueSessions:
    """Return the sessions that are due: facts should be extracted from their new messages now.

    A session is due if it has ended, if it was silent too long, or if a user requested the extraction. `chat`
    restricts the search to one chat. With `going_on`, sessions that are not due yet are included.
    """
    now, due, then = transaction.now(), [], math.inf
    sessions = transaction.db.execute(_DUE.format(mine=mine(transaction)), (chat, math.inf))
    for due_chat, number, since in sessions:
        if since > now and not going_on:
            then = since
            break
        due.append((due_chat, number))
    return DueSessions(tuple(due), then)


@step(reads=True)
def read_unextracted(transaction: Transaction, chat: str, session: int) -> SessionExcerpt:
    """Return the part of a session from which no facts were extracted yet, without tool results."""
    row = transaction.db.execute(
        "SELECT learned, tries,"
        " (SELECT coalesce(max(id), 0) FROM history WHERE chat = sessions.chat AND session = number)"
        " FROM sessions WHERE chat = ? AND number = ?",
        (chat, session),
    ).fetchone()
    extracted_upto, tries, upto = row or (0, 0, 0)
    rows = transaction.db.execute(
        "SELECT message, created FROM history WHERE chat = ? AND session = ? AND id > ?"
        " AND NOT tainted AND NOT undone ORDER BY id",
        (chat, session, extracted_upto),
    )
    said = [
        (message, created)
        for text, created in rows
        if role_of(text) in ("user", "assistant") and (message := load_message(text))
    ]
    (language,) = transaction.db.execute(
        "SELECT language FROM messages WHERE chat = ? ORDER BY id DESC LIMIT 1", (chat,)
    ).fetchone() or ("",)
    messages = tuple(message for message, _ in said if message.content.strip())
    return SessionExcerpt(upto, messages, language, tries, said[0][1] if said else transaction.now())


@step(of_chat, owned=True)
def mark_extracted(
    transaction: Transaction, chat: str, session: int, upto: int, episode: str = "", began: float = 0.0
) -> None:
    """Record the last history entry from which facts were extracted; a forgotten session can then be deleted.

    `episode` is one line about the subject of the session, or empty. `began` is the start time of the
    session, in seconds since 1970.
    """
    # The user may have written more during the extraction: then the session stays fresh.
    since = transaction.db.execute(
        "SELECT message FROM history WHERE chat = ? AND session = ? AND id > ?",
        (chat, session, upto),
    )
    fresh = any(role_of(text) == "user" for (text,) in since)
    transaction.db.execute(
        "UPDATE sessions SET learned = ?, tries = 0, learn_after = 0, asked = FALSE, fresh = ?"
        " WHERE chat = ? AND number = ?",
        (upto, fresh, chat, session),
    )
    if episode:
        transaction.db.execute(
            "INSERT INTO episodes (chat, session, text, began, created)"
            " SELECT chat, number, ?3, ?4, ?5 FROM sessions WHERE chat = ?1 AND number = ?2 AND NOT forget"
            " ON CONFLICT (chat, session) DO UPDATE SET text = excluded.text, began = excluded.began,"
            " created = excluded.created",
            (chat, session, clean(episode), began, transaction.now()),
        )


@step(of_chat, owned=True)
def postpone_extraction(transaction: Transaction, chat: str, session: int, until: float) -> None:
    """Record a failed extraction; `until` is the time of the next attempt, in seconds since 1970."""
    transaction.db.execute(
        "UPDATE sessions SET tries = tries + 1, learn_after = ? WHERE chat = ? AND number = ?",
        (until, chat, session),
    )


def _of_one(transaction: Transaction, chat: str | None) -> Iterable[str]:
    return () if chat is None else (chat,)


@step(_of_one)
def request_extraction(transaction: Transaction, chat: str | None, retry: bool = False) -> None:
    """Request fact extraction now from the session of one `chat`, or the sessions of all chats (None).

    The sessions do not end, and the request survives a restart. With `retry`, this includes sessions whose
    extraction failed earlier and was postponed or abandoned.
    """
    also = ", learn_after = 0, tries = 0" if retry else ""
    transaction.db.execute(
        f"UPDATE sessions SET asked = TRUE{also} WHERE fresh AND chat = coalesce(?, chat)", (chat,)
    )


@step()
def skip_extraction(transaction: Transaction, ever: bool = False) -> None:
    """Allow forgotten sessions to be deleted without extracting facts from them.

    With `ever`, facts are never extracted from any message stored so far.
    """
    if ever:
        transaction.db.execute(
            "UPDATE sessions SET fresh = FALSE, asked = FALSE, learned ="
            " (SELECT coalesce(max(id), 0) FROM history WHERE chat = sessions.chat AND session = number)"
            " WHERE fresh"
        )
    transaction.db.execute("UPDATE sessions SET fresh = FALSE WHERE forget")
