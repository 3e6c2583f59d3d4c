"""Steps that keep sessions and what was said in them."""

import json
from dataclasses import asdict

from rumi.journal.desk import Desk, clean, do
from rumi.journal.messages import Append, MarkFiles, NewSession, Summarize
from rumi.journal.records import Entry, Summary
from rumi.models import Message, ToolCall

UNREADABLE = "(This entry of the history cannot be read any more.)"


@do.register
def append(request: Append, desk: Desk) -> None:
    """More history."""
    insert_history(desk, request.chat, request.session, request.entries)


@do.register
def new_session(request: NewSession, desk: Desk) -> int:
    """End the session and begin another."""
    chat = (request.chat,)
    desk.db.execute("UPDATE sessions SET ended = ? WHERE chat = ? AND ended IS NULL", (desk.now(), *chat))
    if request.forget:
        if not request.learn:
            desk.db.execute("UPDATE sessions SET fresh = 0 WHERE chat = ?", chat)
        desk.db.execute("UPDATE sessions SET forget = 1 WHERE chat = ? AND fresh", chat)
        desk.db.execute("DELETE FROM summaries WHERE chat = ?", chat)
        desk.db.execute(
            "DELETE FROM history WHERE chat = ?"
            " AND session NOT IN (SELECT number FROM sessions WHERE chat = ? AND fresh)",
            chat * 2,
        )
    return _open_session(desk, request.chat)


@do.register
def summarize(request: Summarize, desk: Desk) -> bool:
    """A summary, as long as the session lasts."""
    summary = request.summary
    cursor = desk.db.execute(
        "INSERT OR REPLACE INTO summaries (chat, session, turn, upto, text, tainted, links, created)"
        " SELECT chat, session, turn, max(id), ?, ?, ?, ? FROM history"
        " WHERE chat = ? AND session = ? AND turn = ?"
        " AND EXISTS (SELECT 1 FROM sessions WHERE chat = ? AND number = ? AND ended IS NULL)"
        " GROUP BY chat",
        (
            clean(summary.text),
            summary.tainted,
            json.dumps(summary.links),
            desk.now(),
            *(request.chat, request.session, summary.turn),
            *(request.chat, request.session),
        ),
    )
    return cursor.rowcount > 0


@do.register
def mark_files(request: MarkFiles, desk: Desk) -> None:
    """Set or remove the mark."""
    if request.tainted:
        desk.db.execute(
            "INSERT OR IGNORE INTO tainted_files (chat, since) VALUES (?, ?)", (request.chat, desk.now())
        )
    else:
        desk.db.execute("DELETE FROM tainted_files WHERE chat = ?", (request.chat,))


def taint_of(desk: Desk, chat: str, session: int) -> tuple[bool, bool]:
    """Whether something in the session came from outside, and something in the chat's files."""
    row = desk.db.execute(
        "SELECT EXISTS (SELECT 1 FROM history WHERE chat = ? AND session = ? AND tainted),"
        " EXISTS (SELECT 1 FROM tainted_files WHERE chat = ?)",
        (chat, session, chat),
    ).fetchone()
    return bool(row[0]), bool(row[1])


def history_of(desk: Desk, chat: str, session: int, limit: int) -> tuple[Summary | None, tuple[Entry, ...]]:
    """The summary of a session's beginning, if there is one, and the latest entries of what follows."""
    row = desk.db.execute(
        "SELECT upto, turn, text, tainted, links FROM summaries WHERE chat = ? AND session = ?",
        (chat, session),
    ).fetchone()
    upto, summary = 0, None
    if row is not None:
        upto, turn, text, tainted, links = row
        summary = Summary(turn, text, bool(tainted), load_links(links))
    rows = desk.db.execute(
        "SELECT turn, message, tainted, links FROM history"
        " WHERE chat = ? AND session = ? AND id > ? ORDER BY id DESC LIMIT ?",
        (chat, session, upto, limit),
    ).fetchall()
    return summary, tuple(
        Entry(turn, load_message(text), bool(tainted), load_links(links))
        for turn, text, tainted, links in reversed(rows)
    )


def insert_history(desk: Desk, chat: str, session: int, entries: tuple[Entry, ...]) -> None:
    """Append entries to a session."""
    now = desk.now()
    desk.db.executemany(
        "INSERT INTO history (chat, session, turn, message, tainted, links, created)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (chat, session, e.turn, dump_message(e.message), e.tainted, json.dumps(e.links), now)
            for e in entries
        ],
    )
    if any(entry.message.role == "user" for entry in entries):
        desk.db.execute("UPDATE sessions SET fresh = 1 WHERE chat = ? AND number = ?", (chat, session))


def session_of(desk: Desk, chat: str) -> tuple[int, float]:
    """The chat's session, opened if there is none, and when it is due to end."""
    row = desk.db.execute(
        "SELECT number, due FROM sessions WHERE chat = ? AND ended IS NULL ORDER BY number DESC LIMIT 1",
        (chat,),
    ).fetchone()
    return (int(row[0]), float(row[1])) if row else (_open_session(desk, chat), 0.0)


def _open_session(desk: Desk, chat: str) -> int:
    (number,) = desk.db.execute(
        "SELECT coalesce(max(number), 0) + 1 FROM sessions WHERE chat = ?", (chat,)
    ).fetchone()
    desk.db.execute(
        "INSERT INTO sessions (chat, number, started, due) VALUES (?, ?, ?, 0)", (chat, number, desk.now())
    )
    return int(number)


def dump_message(message: Message) -> str:
    """A history message as JSON text."""
    return clean(json.dumps(asdict(message), ensure_ascii=False, separators=(",", ":")))


def load_message(text: str) -> Message:
    """The opposite of `dump_message`. What a disk has spoilt is one entry, and no reason to end anything."""
    try:
        fields = json.loads(text)
        calls = tuple(ToolCall(**call) for call in fields["tool_calls"])
        return Message(fields["role"], fields["content"], calls, fields["tool_call_id"])
    except (ValueError, KeyError, TypeError):
        return Message("assistant", UNREADABLE)


def load_links(text: str) -> tuple[str, ...]:
    """Addresses that were given; none where that cannot be read: then they are asked about once more."""
    try:
        return tuple(map(str, json.loads(text)))
    except (ValueError, TypeError):
        return ()
