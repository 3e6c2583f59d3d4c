"""Requests that store sessions and their history."""

import json
from dataclasses import dataclass
from math import inf

from rumi.models.fitting import in_short
from rumi.models.model import Message, Picture, ToolCall
from rumi.store.journal.parked import forget_parked
from rumi.store.journal.records import HistoryEntry, Summary
from rumi.store.journal.transaction import JournalRequest, OwnedWrite, clean, steps
from rumi.store.steps import Transaction

MOST_ENTRY = 2**63 - 1
"""No entry of the history has a higher number."""


MOST_ENTRIES = 50_000
APART_S = 86_400.0
UNREADABLE = "(This entry of the history cannot be read any more.)"


@dataclass(frozen=True, slots=True)
class Append(OwnedWrite[None]):
    """Append to a session's history, as it happens."""

    chat: str
    session: int
    entries: tuple[HistoryEntry, ...]


@steps.of(Append)
def append(request: Append, transaction: Transaction) -> None:
    """Append entries to the history."""
    insert_history(transaction, request.chat, request.session, request.entries)


@dataclass(frozen=True, slots=True)
class NewSession(OwnedWrite[int]):
    """End the chat's session and begin another. The reply is its number.

    `forget` deletes all history as well, in slices (`Sweep`): from now on, or, with `learn`, where there is
    something to learn from, as soon as that is done. The parked calls are forgotten at once.
    """

    chat: str
    forget: bool = False
    extract_first: bool = False


@steps.of(NewSession)
def new_session(request: NewSession, transaction: Transaction) -> int:
    """End the session and begin another; return its number."""
    chat = (request.chat,)
    transaction.db.execute(
        "UPDATE sessions SET ended = ? WHERE chat = ? AND ended IS NULL", (transaction.now(), *chat)
    )
    if request.forget:
        if not request.extract_first:
            transaction.db.execute("UPDATE sessions SET fresh = FALSE WHERE chat = ?", chat)
        transaction.db.execute(
            "UPDATE sessions SET forget = TRUE WHERE chat = ? AND EXISTS"
            " (SELECT 1 FROM history WHERE history.chat = sessions.chat AND session = number)",
            chat,
        )
        for table in ("summaries", "episodes"):
            transaction.db.execute(f"DELETE FROM {table} WHERE chat = ?", chat)
        forget_parked(transaction, request.chat)
        transaction.db.execute("UPDATE sessions SET learn_after = 0 WHERE chat = ? AND tries = 0", chat)
    return _open_session(transaction, request.chat)


@dataclass(frozen=True, slots=True)
class SessionApart(OwnedWrite[int]):
    """Begin a session for one turn, beside the one that goes on. The reply is its number.

    It is learned from when the turn's `Settle` says, or a day later where that never comes.
    """

    chat: str


@steps.of(SessionApart)
def session_apart(request: SessionApart, transaction: Transaction) -> int:
    """Open a session that counts as ended: the one that goes on stays the chat's session."""
    session_of(transaction, request.chat)  # which is there before it
    number = _open_session(transaction, request.chat)
    now = transaction.now()
    transaction.db.execute(
        "UPDATE sessions SET ended = ?, learn_after = ? WHERE chat = ? AND number = ?",
        (now, now + APART_S, request.chat, number),
    )
    return number


@dataclass(frozen=True, slots=True)
class Summarize(OwnedWrite[Summary | None]):
    """Let a summary stand for what a session began with; returns what stands in its prompts now.

    With `leave_out` only its turn counts: prompts leave out what was said up to its end, and no text stands
    for that yet. None if the session has ended, or if the text before stands for more: nothing is changed.
    """

    chat: str
    session: int
    summary: Summary
    leave_out: bool = False


@steps.of(Summarize)
def summarize(request: Summarize, transaction: Transaction) -> Summary | None:
    """Store a summary, or a cut, while the session lasts; never one that covers less than the one before."""
    summary, session = request.summary, (request.chat, request.session)
    (end,) = transaction.db.execute(
        "SELECT max(history.id) FROM history JOIN sessions USING (chat)"
        " WHERE chat = ? AND session = ? AND turn = ? AND number = session AND ended IS NULL",
        (*session, summary.turn),
    ).fetchone()
    upto, turn, text, covered = transaction.db.execute(
        "SELECT upto, turn, text, told FROM summaries WHERE chat = ? AND session = ?", session
    ).fetchone() or (0, "", "", 0)
    if end is None or end < (upto if request.leave_out else covered):
        return None
    if not request.leave_out:
        text, covered = clean(summary.text), end
    if end > upto:
        upto, turn = end, summary.turn
    transaction.db.execute(
        "INSERT INTO summaries (chat, session, turn, upto, text, told, tainted, links, created)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (chat, session) DO UPDATE SET turn = excluded.turn,"
        " upto = excluded.upto, text = excluded.text, told = excluded.told, tainted = excluded.tainted,"
        " links = excluded.links, created = excluded.created",
        (*session, turn, upto, text, covered, summary.tainted, json.dumps(summary.links), transaction.now()),
    )
    return Summary(turn, text, summary.tainted, summary.links, gap=covered < upto)


@dataclass(frozen=True, slots=True)
class LeftOut(JournalRequest[tuple[HistoryEntry, ...]]):
    """Return what prompts leave out of a session and no summary covers: the latest, in about `max_tokens`."""

    chat: str
    session: int
    max_tokens: int


@steps.of(LeftOut)
def left_out(request: LeftOut, transaction: Transaction) -> tuple[HistoryEntry, ...]:
    """Return the entries that prompts leave out and no summary covers."""
    session = (request.chat, request.session)
    covered, upto = transaction.db.execute(
        "SELECT told, upto FROM summaries WHERE chat = ? AND session = ?", session
    ).fetchone() or (0, 0)
    return _entries(transaction, session, covered, upto, MOST_ENTRIES, request.max_tokens)[0]


@dataclass(frozen=True, slots=True)
class Shorten(OwnedWrite[None]):
    """From now on prompts show the session's tool results shortened, but those of its latest entries.

    `latest` is how many entries those are. The history itself stays as it is.
    """

    chat: str
    session: int
    latest: int


@steps.of(Shorten)
def shorten(request: Shorten, transaction: Transaction) -> None:
    """Note up to which entry prompts show tool results shortened."""
    session = (request.chat, request.session)
    row = transaction.db.execute(
        "SELECT id FROM history WHERE chat = ? AND session = ? AND NOT undone"
        " ORDER BY id DESC LIMIT 1 OFFSET ?",
        (*session, request.latest),
    ).fetchone()
    if row is not None:
        transaction.db.execute(
            "UPDATE sessions SET short = ?1 WHERE chat = ?2 AND number = ?3 AND short < ?1",
            (row[0], *session),
        )


@dataclass(frozen=True, slots=True)
class MarkFiles(OwnedWrite[None]):
    """Note that something in the chat's files came from outside, or nothing any more."""

    chat: str
    tainted: bool


@steps.of(MarkFiles)
def mark_files(request: MarkFiles, transaction: Transaction) -> None:
    """Note that something in the chat's files came from outside, or nothing any more."""
    if request.tainted:
        transaction.db.execute(
            "INSERT INTO tainted_files (chat, since) VALUES (?, ?) ON CONFLICT DO NOTHING",
            (request.chat, transaction.now()),
        )
    else:
        transaction.db.execute("DELETE FROM tainted_files WHERE chat = ?", (request.chat,))


def taint_of(transaction: Transaction, chat: str, session: int) -> tuple[bool, bool]:
    """Return if something in the session came from outside, and if something in the chat's files did."""
    row = transaction.db.execute(
        "SELECT EXISTS (SELECT 1 FROM history WHERE chat = ? AND session = ? AND tainted AND NOT undone),"
        " EXISTS (SELECT 1 FROM tainted_files WHERE chat = ?)",
        (chat, session, chat),
    ).fetchone()
    return bool(row[0]), bool(row[1])


def history_of(
    transaction: Transaction, chat: str, session: int, limit: int, max_tokens: int | None
) -> tuple[Summary | None, tuple[HistoryEntry, ...]]:
    """Return the summary of a session's beginning, if there is one, and the latest entries of what follows.

    Results are as prompts show them. No more than `limit` entries are read, and no more than take about
    `max_tokens`: a history may be longer than anything that memory should hold. What is before those is left
    out of prompts from now on, until a summary stands for it.
    """
    row = transaction.db.execute(
        "SELECT upto, turn, text, tainted, links, told FROM summaries WHERE chat = ? AND session = ?",
        (chat, session),
    ).fetchone()
    upto, summary = 0, None
    if row is not None:
        upto, turn, text, tainted, links, covered = row
        summary = Summary(turn, text, bool(tainted), load_links(links), gap=covered < upto)
    entries, behind = _entries(transaction, (chat, session), upto, MOST_ENTRY, limit, max_tokens)
    if behind:
        links = summary.links if summary is not None else ()
        cut = Summary(behind, "", taint_of(transaction, chat, session)[0], links)
        summary = summarize(Summarize(chat, session, cut, leave_out=True), transaction) or summary
    return summary, entries


def _entries(
    transaction: Transaction,
    session: tuple[str, int],
    behind: int,
    upto: int,
    limit: int,
    max_tokens: int | None,
) -> tuple[tuple[HistoryEntry, ...], str]:
    """Return the latest entries between two, within the limits, and the turn before them that had no room.

    With `max_tokens` no exchange is read in part, unless it is the last one.
    """
    rows = transaction.db.execute(
        "SELECT turn, message, tainted, links, id <= sessions.short FROM history"
        " JOIN sessions ON sessions.chat = history.chat AND sessions.number = history.session"
        " WHERE history.chat = ? AND history.session = ? AND id > ? AND id <= ? AND NOT undone"
        " ORDER BY id DESC LIMIT ?",
        (*session, behind, upto, limit),
    )
    entries: list[HistoryEntry] = []
    cut_turn = ""
    left = inf if max_tokens is None else max_tokens
    for turn, text, tainted, links, short in rows:
        message = load_message(text)
        message = in_short(message) if short else message
        left -= message.tokens
        if left < 0 and entries:
            if entries[0].turn != turn:
                entries, cut_turn = [entry for entry in entries if entry.turn != turn], turn
            break
        entries.append(HistoryEntry(turn, message, bool(tainted), load_links(links)))
    rows.close()
    return tuple(reversed(entries)), cut_turn


def insert_history(
    transaction: Transaction, chat: str, session: int, entries: tuple[HistoryEntry, ...]
) -> None:
    """Append entries to a session."""
    now = transaction.now()
    transaction.db.executemany(
        "INSERT INTO history (chat, session, turn, message, tainted, links, created)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (chat, session, e.turn, dump_message(e.message), e.tainted, json.dumps(e.links), now)
            for e in entries
        ],
    )
    if any(entry.message.role == "user" for entry in entries):
        transaction.db.execute(
            "UPDATE sessions SET fresh = TRUE WHERE chat = ? AND number = ?", (chat, session)
        )


def session_of(transaction: Transaction, chat: str) -> tuple[int, float]:
    """Return the chat's session, opened if there is none, and when it is due to end."""
    row = transaction.db.execute(
        "SELECT number, due FROM sessions WHERE chat = ? AND ended IS NULL ORDER BY number DESC LIMIT 1",
        (chat,),
    ).fetchone()
    return (int(row[0]), float(row[1])) if row else (_open_session(transaction, chat), 0.0)


def _open_session(transaction: Transaction, chat: str) -> int:
    (number,) = transaction.db.execute(
        "SELECT coalesce(max(number), 0) + 1 FROM sessions WHERE chat = ?", (chat,)
    ).fetchone()
    transaction.db.execute(
        "INSERT INTO sessions (chat, number, started, due) VALUES (?, ?, ?, 0)",
        (chat, number, transaction.now()),
    )
    return int(number)


def dump_message(message: Message) -> str:
    """Return a history message as JSON text, without what a model thought on the way."""
    calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls]
    fields: dict[str, object] = {
        "role": message.role,
        "content": message.content,
        "tool_calls": calls,
        "tool_call_id": message.tool_call_id,
    }
    if message.pictures:  # not their bytes, which are in the workspace
        fields["pictures"] = [
            {"path": picture.path, "media_type": picture.media_type} for picture in message.pictures
        ]
    return clean(json.dumps(fields, ensure_ascii=False, separators=(",", ":")))


def load_message(text: str) -> Message:
    """Return the message that `dump_message` wrote; for a damaged text, a message that says so."""
    try:
        fields = json.loads(text)
        calls = tuple(ToolCall(**call) for call in fields["tool_calls"])
        pictures = tuple(Picture(**picture) for picture in fields.get("pictures", ()))
        return Message(fields["role"], fields["content"], calls, fields["tool_call_id"], pictures=pictures)
    except (ValueError, KeyError, TypeError):
        return Message("assistant", UNREADABLE)


def role_of(text: str) -> str:
    """Return the role of a message that `dump_message` wrote, empty for a damaged text."""
    try:
        return str(json.loads(text)["role"])
    except (ValueError, KeyError, TypeError):
        return ""


def load_links(text: str) -> tuple[str, ...]:
    """Return addresses that were given; none from a damaged text: then users are asked about them again."""
    try:
        return tuple(map(str, json.loads(text)))
    except (ValueError, TypeError):
        return ()
