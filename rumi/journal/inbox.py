"""Steps that store messages, and find those that nobody has replied to."""

import json
from dataclasses import asdict

from rumi.journal.desk import Desk, clean, do
from rumi.journal.history import history_of, insert_history, session_of, taint_of
from rumi.journal.messages import (
    SEEN_S,
    Accept,
    AcceptAll,
    Begin,
    Count,
    Incoming,
    Load,
    OpenChats,
    Previewed,
    Retriable,
)
from rumi.journal.outbox import insert_reply
from rumi.journal.records import ChatRecord, Enclosure, Figures, OpenMessage


@do.register
def accept(request: Accept, desk: Desk) -> None:
    """Store one message."""
    desk.db.execute(
        "INSERT INTO messages (id, chat, text, received) VALUES (?, ?, ?, ?)",
        (request.id, request.chat, clean(request.text), desk.now()),
    )


@do.register
def accept_all(request: AcceptAll, desk: Desk) -> tuple[int | None, ...]:
    """Store a batch without what was seen before."""
    desk.db.execute("DELETE FROM updates WHERE seen < ?", (desk.now() - SEEN_S,))
    return tuple(_accept_new(incoming, desk) for incoming in request.batch)


def _accept_new(incoming: Incoming, desk: Desk) -> int | None:
    now = desk.now()
    seen = desk.db.execute("INSERT OR IGNORE INTO updates (id, seen) VALUES (?, ?)", (incoming.update, now))
    if seen.rowcount == 0:
        return None
    if not incoming.id:
        return 0
    reply = None
    if incoming.answer is not None:
        reply = insert_reply(desk, incoming.chat, incoming.answer)
    desk.db.execute(
        "INSERT INTO messages (id, chat, text, received, language, origin, enclosures, reply)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            incoming.id,
            incoming.chat,
            clean(incoming.text),
            now,
            incoming.language,
            incoming.origin,
            clean(json.dumps([asdict(one) for one in incoming.enclosures])),
            reply,
        ),
    )
    return reply or 0


@do.register
def begin(request: Begin, desk: Desk) -> None:
    """A message becomes a turn."""
    desk.db.execute(
        "UPDATE messages SET turn = ?, session = ? WHERE id = ?",
        (request.turn, request.session, request.message),
    )
    insert_history(desk, request.chat, request.session, request.entries)
    if request.retries is not None:
        # The new attempt carries what the old one did, so that it can be run again in its turn.
        desk.db.execute(
            "UPDATE messages SET (text, enclosures) ="
            " (SELECT text, enclosures FROM messages WHERE id = ?) WHERE id = ?",
            (request.retries, request.message),
        )
        desk.db.execute("UPDATE messages SET retried = ? WHERE id = ?", (request.message, request.retries))


@do.register
def previewed(request: Previewed, desk: Desk) -> None:
    """Note where an answer grows."""
    desk.db.execute("UPDATE messages SET preview = ? WHERE id = ?", (request.preview, request.message))


@do.register
def load(request: Load, desk: Desk) -> ChatRecord:
    """All that is known of a chat."""
    session, due = session_of(desk, request.chat)
    summary, history = history_of(desk, request.chat, session, request.limit)
    waiting = desk.db.execute(
        "SELECT id, text, coalesce(turn, ''), language, enclosures FROM messages"
        " WHERE chat = ? AND reply IS NULL ORDER BY id",
        (request.chat,),
    )
    tainted_session, tainted_files = taint_of(desk, request.chat, session)
    return ChatRecord(
        session=session,
        due=due,
        history=history,
        open=tuple(_open_message(*row) for row in waiting),
        tainted=tainted_session,
        files_tainted=tainted_files,
        summary=summary,
    )


@do.register
def retriable(request: Retriable, desk: Desk) -> OpenMessage | None:
    """What a retry would run."""
    session, _ = session_of(desk, request.chat)
    row = desk.db.execute(
        "SELECT id, text, '', language, enclosures FROM messages"
        " WHERE chat = ? AND session = ? AND reply IS NOT NULL"
        " AND reason IS NOT NULL AND reason != 'complete' AND retried IS NULL ORDER BY id DESC LIMIT 1",
        (request.chat, session),
    ).fetchone()
    return _open_message(*row) if row else None


@do.register
def open_chats(request: OpenChats, desk: Desk) -> tuple[str, ...]:
    """Where somebody still waits for a reply."""
    rows = desk.db.execute("SELECT DISTINCT chat FROM messages WHERE reply IS NULL ORDER BY chat")
    return tuple(chat for (chat,) in rows)


@do.register
def count(request: Count, desk: Desk) -> Figures:
    """Sizes."""
    last, waiting, undelivered = desk.db.execute(
        "SELECT (SELECT coalesce(max(id), 0) FROM messages),"
        " (SELECT count(*) FROM messages WHERE reply IS NULL),"
        " (SELECT count(*) FROM outbox WHERE delivered IS NULL)"
    ).fetchone()
    return Figures(last, waiting, undelivered, desk.path.stat().st_size)


def _open_message(id: int, text: str, turn: str, language: str, enclosures: str) -> OpenMessage:
    return OpenMessage(id, text, turn, language, _enclosures(enclosures))


def _enclosures(text: str) -> tuple[Enclosure, ...]:
    """What came with a message; nothing where a disk has spoilt that: the message still gets its reply."""
    try:
        return tuple(Enclosure(**one) for one in json.loads(text))
    except (ValueError, TypeError):
        return ()
