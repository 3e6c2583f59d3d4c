"""Requests for extracting facts from sessions: due sessions, their excerpts, and finished extractions."""

import math
from dataclasses import dataclass

from rumi.store.journal.history import load_message, role_of
from rumi.store.journal.records import DueSessions, SessionExcerpt
from rumi.store.journal.transaction import JournalRequest, OwnedWrite, Read, clean, mine, steps
from rumi.store.steps import Transaction

_DUE = """
SELECT chat, number, CASE WHEN learn_after > ends THEN learn_after ELSE ends END AS since FROM (
    SELECT chat, number, learn_after,
        CASE WHEN ended IS NOT NULL OR asked THEN 0 WHEN due = 0 THEN ?2 ELSE due END AS ends
    FROM sessions WHERE fresh AND chat = coalesce(?1, chat){mine}
) AS each ORDER BY since, chat, number
"""


@dataclass(frozen=True, slots=True)
class FindDueSessions(Read[DueSessions]):
    """Return the sessions that are due: facts should be extracted from their new messages now.

    A session is due if it has ended, if it was silent too long, or if a user requested the extraction. `chat`
    restricts the search to one chat. With `going_on`, sessions that are not due yet are included.
    """

    chat: str | None = None
    going_on: bool = False


@steps.of(FindDueSessions)
def find_due_sessions(request: FindDueSessions, transaction: Transaction) -> DueSessions:
    """Return the due sessions. A partial index lists the sessions with new messages."""
    now, due, then = transaction.now(), [], math.inf
    sessions = transaction.db.execute(_DUE.format(mine=mine(transaction)), (request.chat, math.inf))
    for chat, number, since in sessions:
        if since > now and not request.going_on:
            then = since
            break
        due.append((chat, number))
    return DueSessions(tuple(due), then)


@dataclass(frozen=True, slots=True)
class ReadUnextracted(Read[SessionExcerpt]):
    """Return the part of a session from which no facts were extracted yet."""

    chat: str
    session: int


@steps.of(ReadUnextracted)
def read_unextracted(request: ReadUnextracted, transaction: Transaction) -> SessionExcerpt:
    """Return the user's messages and the assistant's answers, without tool results and tainted entries."""
    row = transaction.db.execute(
        "SELECT learned, tries,"
        " (SELECT coalesce(max(id), 0) FROM history WHERE chat = sessions.chat AND session = number)"
        " FROM sessions WHERE chat = ? AND number = ?",
        (request.chat, request.session),
    ).fetchone()
    extracted_upto, tries, upto = row or (0, 0, 0)
    rows = transaction.db.execute(
        "SELECT message, created FROM history WHERE chat = ? AND session = ? AND id > ?"
        " AND NOT tainted AND NOT undone ORDER BY id",
        (request.chat, request.session, extracted_upto),
    )
    said = [
        (message, created)
        for text, created in rows
        if role_of(text) in ("user", "assistant") and (message := load_message(text))
    ]
    (language,) = transaction.db.execute(
        "SELECT language FROM messages WHERE chat = ? ORDER BY id DESC LIMIT 1", (request.chat,)
    ).fetchone() or ("",)
    messages = tuple(message for message, _ in said if message.content.strip())
    return SessionExcerpt(upto, messages, language, tries, said[0][1] if said else transaction.now())


@dataclass(frozen=True, slots=True)
class MarkExtracted(OwnedWrite[None]):
    """Record the last history entry from which facts were extracted; a forgotten session can then be deleted.

    `episode` is one line about the subject of the session, or empty. `began` is the start time of the
    session, in seconds since 1970.
    """

    chat: str
    session: int
    upto: int
    episode: str = ""
    began: float = 0.0


@steps.of(MarkExtracted)
def mark_extracted(request: MarkExtracted, transaction: Transaction) -> None:
    """Record the last history entry from which facts were extracted, and store the episode."""
    # The user may have written more during the extraction: then the session stays fresh.
    since = transaction.db.execute(
        "SELECT message FROM history WHERE chat = ? AND session = ? AND id > ?",
        (request.chat, request.session, request.upto),
    )
    fresh = any(role_of(text) == "user" for (text,) in since)
    transaction.db.execute(
        "UPDATE sessions SET learned = ?, tries = 0, learn_after = 0, asked = FALSE, fresh = ?"
        " WHERE chat = ? AND number = ?",
        (request.upto, fresh, request.chat, request.session),
    )
    if request.episode:
        transaction.db.execute(
            "INSERT INTO episodes (chat, session, text, began, created)"
            " SELECT chat, number, ?3, ?4, ?5 FROM sessions WHERE chat = ?1 AND number = ?2 AND NOT forget"
            " ON CONFLICT (chat, session) DO UPDATE SET text = excluded.text, began = excluded.began,"
            " created = excluded.created",
            (request.chat, request.session, clean(request.episode), request.began, transaction.now()),
        )


@dataclass(frozen=True, slots=True)
class PostponeExtraction(OwnedWrite[None]):
    """Record a failed extraction.

    `until` is the time of the next attempt, in seconds since 1970.
    """

    chat: str
    session: int
    until: float


@steps.of(PostponeExtraction)
def postpone_extraction(request: PostponeExtraction, transaction: Transaction) -> None:
    """Record a failed extraction, and the earliest time of the next attempt."""
    transaction.db.execute(
        "UPDATE sessions SET tries = tries + 1, learn_after = ? WHERE chat = ? AND number = ?",
        (request.until, request.chat, request.session),
    )


@dataclass(frozen=True, slots=True)
class RequestExtraction(JournalRequest[None]):
    """Request fact extraction now from the session of one chat, or the sessions of all chats.

    The sessions do not end.

    With `retry`, this includes sessions whose extraction failed earlier and was postponed or abandoned.
    """

    chat: str | None = None
    retry: bool = False


@steps.of(RequestExtraction)
def request_extraction(request: RequestExtraction, transaction: Transaction) -> None:
    """Make sessions with new messages due at once. The request survives a restart."""
    also = ", learn_after = 0, tries = 0" if request.retry else ""
    transaction.db.execute(
        f"UPDATE sessions SET asked = TRUE{also} WHERE fresh AND chat = coalesce(?, chat)", (request.chat,)
    )


@dataclass(frozen=True, slots=True)
class SkipExtraction(JournalRequest[None]):
    """Allow forgotten sessions to be deleted without extracting facts from them.

    With `ever`, facts are never extracted from any message stored so far.
    """

    ever: bool = False


@steps.of(SkipExtraction)
def skip_extraction(request: SkipExtraction, transaction: Transaction) -> None:
    """Let the next sweep delete forgotten sessions; with `ever`, mark all entries as extracted."""
    if request.ever:
        transaction.db.execute(
            "UPDATE sessions SET fresh = FALSE, asked = FALSE, learned ="
            " (SELECT coalesce(max(id), 0) FROM history WHERE chat = sessions.chat AND session = number)"
            " WHERE fresh"
        )
    transaction.db.execute("UPDATE sessions SET fresh = FALSE WHERE forget")
