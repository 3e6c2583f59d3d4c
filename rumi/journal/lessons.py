"""Steps for learning from sessions: which are due, what was said in them, and what was learned from."""

import math

from rumi.journal.history import load_message
from rumi.journal.messages import AskToLearn, LearnedFrom, LearnNothing, PutOff, Study, ToLearn
from rumi.journal.records import DueSessions, Lesson
from rumi.journal.transaction import clean, steps
from rumi.steps import Transaction

_ROLE = "CASE WHEN json_valid(message) THEN json_extract(message, '$.role') END"
_DUE = """
SELECT chat, number, max(learn_after, CASE
    WHEN ended IS NOT NULL OR asked THEN 0 WHEN due = 0 THEN 9e999 ELSE due END) AS since
FROM sessions WHERE fresh AND chat = coalesce(?, chat) ORDER BY since, chat, number
"""


@steps.of(ToLearn)
def to_learn(request: ToLearn, transaction: Transaction) -> DueSessions:
    """Return the sessions that are due. Only sessions with something new are looked at."""
    now, due, then = transaction.now(), [], math.inf
    for chat, number, since in transaction.db.execute(_DUE, (request.chat,)):
        if since > now and not request.going_on:
            then = since
            break
        due.append((chat, number))
    return DueSessions(tuple(due), then)


@steps.of(Study)
def study(request: Study, transaction: Transaction) -> Lesson:
    """Return what the user said and was told, without results and tainted answers."""
    row = transaction.db.execute(
        "SELECT learned, tries,"
        " (SELECT coalesce(max(id), 0) FROM history WHERE chat = sessions.chat AND session = number)"
        " FROM sessions WHERE chat = ? AND number = ?",
        (request.chat, request.session),
    ).fetchone()
    learned, tries, upto = row or (0, 0, 0)
    rows = transaction.db.execute(
        "SELECT message, created FROM history WHERE chat = ? AND session = ? AND id > ?"
        " AND NOT tainted AND NOT undone"
        f" AND {_ROLE} IN ('user', 'assistant') ORDER BY id",
        (request.chat, request.session, learned),
    )
    said = [(load_message(text), created) for text, created in rows]
    (language,) = transaction.db.execute(
        "SELECT language FROM messages WHERE chat = ? ORDER BY id DESC LIMIT 1", (request.chat,)
    ).fetchone() or ("",)
    messages = tuple(message for message, _ in said if message.content.strip())
    return Lesson(upto, messages, language, tries, said[0][1] if said else transaction.now())


@steps.of(LearnedFrom)
def learned_from(request: LearnedFrom, transaction: Transaction) -> None:
    """Note up to which entry a session was learned from. The next sweep deletes what is to be forgotten."""
    transaction.db.execute(
        "UPDATE sessions SET learned = ?1, tries = 0, learn_after = 0, asked = 0,"
        " fresh = EXISTS (SELECT 1 FROM history WHERE chat = ?2 AND session = ?3 AND id > ?1"
        f" AND {_ROLE} = 'user')"
        " WHERE chat = ?2 AND number = ?3",
        (request.upto, request.chat, request.session),
    )
    if request.episode:
        transaction.db.execute(
            "INSERT OR REPLACE INTO episodes (chat, session, text, began, created)"
            " SELECT ?1, ?2, ?3, ?4, ?5 FROM sessions WHERE chat = ?1 AND number = ?2 AND NOT forget",
            (request.chat, request.session, clean(request.episode), request.began, transaction.now()),
        )


@steps.of(PutOff)
def put_off(request: PutOff, transaction: Transaction) -> None:
    """Note a failed attempt, and when the next one may be."""
    transaction.db.execute(
        "UPDATE sessions SET tries = tries + 1, learn_after = ? WHERE chat = ? AND number = ?",
        (request.until, request.chat, request.session),
    )


@steps.of(AskToLearn)
def ask_to_learn(request: AskToLearn, transaction: Transaction) -> None:
    """Make sessions due at once, although they go on; this also holds after a restart."""
    also = ", learn_after = 0, tries = 0" if request.retry else ""
    transaction.db.execute(
        f"UPDATE sessions SET asked = 1{also} WHERE fresh AND chat = coalesce(?, chat)", (request.chat,)
    )


@steps.of(LearnNothing)
def learn_nothing(request: LearnNothing, transaction: Transaction) -> None:
    """Let the next sweep delete what is to be forgotten; with `ever`, mark everything as learned from."""
    if request.ever:
        transaction.db.execute(
            "UPDATE sessions SET fresh = 0, asked = 0, learned ="
            " (SELECT coalesce(max(id), 0) FROM history WHERE chat = sessions.chat AND session = number)"
            " WHERE fresh"
        )
    transaction.db.execute("UPDATE sessions SET fresh = 0 WHERE forget")
