"""`state.db`: the tables, and one function for each thing that the journal is asked.

Plain blocking SQLite, used by one thread at a time. WAL with `synchronous=FULL`: what was committed
survives a power cut, as far as the disk keeps its word.
"""

import json
import sqlite3
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import singledispatchmethod
from pathlib import Path

from rumi.errors import RumiError
from rumi.journal.messages import (
    Accept,
    Append,
    Begin,
    ChatRecord,
    Count,
    Delivered,
    Entry,
    Figures,
    JournalMessage,
    Load,
    NewSession,
    OpenChats,
    OpenMessage,
    Retriable,
    Settle,
    StoredReply,
    Undelivered,
)
from rumi.journal.schema import SCHEMA, SCHEMA_VERSION
from rumi.models import Message, ToolCall


class JournalError(RumiError):
    """`state.db` cannot be read or written: nothing is accepted that could not be accounted for."""


class Store:
    """An open `state.db`.

    Raises:
        JournalError: it cannot be opened, is damaged, or was made by a newer program.
    """

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self.path = path
        self._now = now
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._prepare()
        except sqlite3.Error as error:
            raise JournalError(
                f"{path} cannot be used: {error}.",
                "Check the disk's free space and the file's permissions, or ask: rumi doctor",
            ) from error

    def _prepare(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise JournalError(
                f"{self.path} was made by a newer Rumi (schema {version}, this one knows {SCHEMA_VERSION}).",
                "Use the newer program, or another RUMI_HOME.",
            )
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self.path.chmod(0o600)
        if version == 0:
            self._db.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def run(self, requests: list[JournalMessage]) -> list[object]:
        """Do all of them in one transaction and return their replies, or do none and raise.

        Raises:
            JournalError: the disk is full, or the file cannot be written.
        """
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                replies = [self._do(request) for request in requests]
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise JournalError(
                f"{self.path} cannot be written: {error}.", "Check the disk's free space, then start again."
            ) from error
        return replies

    @singledispatchmethod
    def _do(self, request: object) -> object:
        raise TypeError(f"the journal does not know {type(request).__name__}")

    @_do.register
    def _accept(self, request: Accept) -> None:
        self._db.execute(
            "INSERT INTO messages (id, chat, text, received) VALUES (?, ?, ?, ?)",
            (request.id, request.chat, clean(request.text), self._now()),
        )

    @_do.register
    def _begin(self, request: Begin) -> None:
        self._db.execute(
            "UPDATE messages SET turn = ?, session = ? WHERE id = ?",
            (request.turn, request.session, request.message),
        )
        self._insert_history(request.chat, request.session, request.entries)
        if request.retries is not None:
            # The new attempt carries the old one's text, so that it can be run again in its turn.
            self._db.execute(
                "UPDATE messages SET text = (SELECT text FROM messages WHERE id = ?) WHERE id = ?",
                (request.retries, request.message),
            )
            self._db.execute(
                "UPDATE messages SET retried = ? WHERE id = ?", (request.message, request.retries)
            )

    @_do.register
    def _append(self, request: Append) -> None:
        self._insert_history(request.chat, request.session, request.entries)

    def _insert_history(self, chat: str, session: int, entries: tuple[Entry, ...]) -> None:
        now = self._now()
        self._db.executemany(
            "INSERT INTO history (chat, session, turn, message, tainted, created) VALUES (?, ?, ?, ?, ?, ?)",
            [(chat, session, e.turn, dump_message(e.message), e.tainted, now) for e in entries],
        )

    @_do.register
    def _settle(self, request: Settle) -> int:
        now = self._now()
        replied = [self._reply_of(message) for message in request.messages]
        if all(replied):  # exactly one final reply: a second one is dropped
            return int(replied[0] or 0)
        self._insert_history(request.chat, request.session, request.entries)
        if request.due is not None:
            self._db.execute(
                "UPDATE sessions SET due = ? WHERE chat = ? AND number = ?",
                (request.due, request.chat, request.session),
            )
        cursor = self._db.execute(
            "INSERT INTO outbox (chat, text, created) VALUES (?, ?, ?)",
            (request.chat, clean(request.text), now),
        )
        delivery = cursor.lastrowid
        assert delivery is not None
        self._db.executemany(
            "UPDATE messages SET reply = ?, reason = ?, session = coalesce(session, nullif(?, 0))"
            " WHERE id = ? AND reply IS NULL",
            [
                (delivery, request.reason if place == 0 else None, request.session, message)
                for place, message in enumerate(request.messages)
            ],
        )
        return delivery

    def _reply_of(self, message: int) -> int | None:
        row = self._db.execute("SELECT reply FROM messages WHERE id = ?", (message,)).fetchone()
        return row[0] if row else None

    @_do.register
    def _delivered(self, request: Delivered) -> None:
        self._db.execute(
            "UPDATE outbox SET delivered = ? WHERE id = ? AND delivered IS NULL",
            (self._now(), request.delivery),
        )

    @_do.register
    def _undelivered(self, request: Undelivered) -> tuple[StoredReply, ...]:
        rows = self._db.execute(
            "SELECT outbox.id, outbox.text, messages.id, turn, reason"
            " FROM outbox LEFT JOIN messages ON reply = outbox.id"
            " WHERE outbox.chat = ? AND delivered IS NULL ORDER BY outbox.id, messages.id",
            (request.chat,),
        )
        replies: dict[int, StoredReply] = {}
        for delivery, text, message, turn, reason in rows:
            reply = replies.get(delivery, StoredReply(delivery, (), text))
            if message is not None:
                reply = replace(reply, messages=(*reply.messages, message))
            if reason is not None:
                reply = replace(reply, turn=turn or f"t{message}", reason=reason)
            replies[delivery] = reply
        return tuple(replies.values())

    @_do.register
    def _load(self, request: Load) -> ChatRecord:
        session, due = self._session(request.chat)
        rows = self._db.execute(
            "SELECT turn, message, tainted FROM history WHERE chat = ? AND session = ?"
            " ORDER BY id DESC LIMIT ?",
            (request.chat, session, request.limit),
        ).fetchall()
        waiting = self._db.execute(
            "SELECT id, text, coalesce(turn, '') FROM messages WHERE chat = ? AND reply IS NULL ORDER BY id",
            (request.chat,),
        )
        return ChatRecord(
            session=session,
            due=due,
            history=tuple(
                Entry(turn, load_message(text), bool(tainted)) for turn, text, tainted in reversed(rows)
            ),
            open=tuple(OpenMessage(*row) for row in waiting),
        )

    def _session(self, chat: str) -> tuple[int, float]:
        row = self._db.execute(
            "SELECT number, due FROM sessions WHERE chat = ? AND ended IS NULL ORDER BY number DESC LIMIT 1",
            (chat,),
        ).fetchone()
        return (int(row[0]), float(row[1])) if row else (self._open_session(chat), 0.0)

    def _open_session(self, chat: str) -> int:
        now = self._now()
        (number,) = self._db.execute(
            "SELECT coalesce(max(number), 0) + 1 FROM sessions WHERE chat = ?", (chat,)
        ).fetchone()
        self._db.execute(
            "INSERT INTO sessions (chat, number, started, due) VALUES (?, ?, ?, 0)", (chat, number, now)
        )
        return int(number)

    @_do.register
    def _new_session(self, request: NewSession) -> int:
        self._db.execute(
            "UPDATE sessions SET ended = ? WHERE chat = ? AND ended IS NULL", (self._now(), request.chat)
        )
        if request.forget:
            self._db.execute("DELETE FROM history WHERE chat = ?", (request.chat,))
        return self._open_session(request.chat)

    @_do.register
    def _retriable(self, request: Retriable) -> OpenMessage | None:
        session, _ = self._session(request.chat)
        row = self._db.execute(
            "SELECT id, text FROM messages WHERE chat = ? AND session = ? AND reply IS NOT NULL"
            " AND reason IS NOT NULL AND reason != 'complete' AND retried IS NULL ORDER BY id DESC LIMIT 1",
            (request.chat, session),
        ).fetchone()
        return OpenMessage(*row) if row else None

    @_do.register
    def _open_chats(self, request: OpenChats) -> tuple[str, ...]:
        rows = self._db.execute("SELECT DISTINCT chat FROM messages WHERE reply IS NULL ORDER BY chat")
        return tuple(chat for (chat,) in rows)

    @_do.register
    def _count(self, request: Count) -> Figures:
        last, waiting, undelivered = self._db.execute(
            "SELECT (SELECT coalesce(max(id), 0) FROM messages),"
            " (SELECT count(*) FROM messages WHERE reply IS NULL),"
            " (SELECT count(*) FROM outbox WHERE delivered IS NULL)"
        ).fetchone()
        return Figures(last, waiting, undelivered, self.path.stat().st_size)


def dump_message(message: Message) -> str:
    """A history message as JSON text."""
    return clean(json.dumps(asdict(message), ensure_ascii=False, separators=(",", ":")))


def clean(text: str) -> str:
    """The text without lone halves of surrogate pairs, which models write and no file takes.

    One such character must not be a write error: that would restart the journal, and with it every chat.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def load_message(text: str) -> Message:
    """The opposite of `dump_message`."""
    fields = json.loads(text)
    calls = tuple(ToolCall(**call) for call in fields["tool_calls"])
    return Message(fields["role"], fields["content"], calls, fields["tool_call_id"])
