"""Steps that keep sessions and what was said in them."""

import json
from dataclasses import asdict

from rumi.journal.desk import Desk, clean, do
from rumi.journal.messages import Append, Entry, NewSession
from rumi.models import Message, ToolCall


@do.register
def append(request: Append, desk: Desk) -> None:
    """More history."""
    insert_history(desk, request.chat, request.session, request.entries)


@do.register
def new_session(request: NewSession, desk: Desk) -> int:
    """End the session and begin another."""
    desk.db.execute(
        "UPDATE sessions SET ended = ? WHERE chat = ? AND ended IS NULL", (desk.now(), request.chat)
    )
    if request.forget:
        desk.db.execute("DELETE FROM history WHERE chat = ?", (request.chat,))
    return _open_session(desk, request.chat)


def insert_history(desk: Desk, chat: str, session: int, entries: tuple[Entry, ...]) -> None:
    """Append entries to a session."""
    now = desk.now()
    desk.db.executemany(
        "INSERT INTO history (chat, session, turn, message, tainted, created) VALUES (?, ?, ?, ?, ?, ?)",
        [(chat, session, e.turn, dump_message(e.message), e.tainted, now) for e in entries],
    )


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
    """The opposite of `dump_message`."""
    fields = json.loads(text)
    calls = tuple(ToolCall(**call) for call in fields["tool_calls"])
    return Message(fields["role"], fields["content"], calls, fields["tool_call_id"])
