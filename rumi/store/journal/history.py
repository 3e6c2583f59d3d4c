"""Steps that store sessions and their history."""

import json
from math import inf

from rumi.models.fitting import in_short
from rumi.models.model import Message, Picture, ToolCall
from rumi.store.journal.lineage import rows_of
from rumi.store.journal.parked import forget_parked
from rumi.store.journal.records import HistoryEntry, Summary
from rumi.store.journal.scopes import of_chat
from rumi.store.journal.shown_json import dump_shown
from rumi.store.journal.transaction import clean
from rumi.store.steps import Transaction, step

MOST_ENTRY = 2**63 - 1
"""The highest possible number of a history entry."""


MOST_ENTRIES = 50_000
APART_S = 86_400.0
UNREADABLE = "(This entry of the history cannot be read any more.)"


@step(of_chat, owned=True)
def append_history(
    transaction: Transaction, chat: str, session: int, entries: tuple[HistoryEntry, ...]
) -> None:
    """Append entries to the history of a session while a turn runs."""
    insert_history(transaction, chat, session, entries)


@step(of_chat, reads=True)
def load_session(
    transaction: Transaction, chat: str, session: int, limit: int, max_tokens: int
) -> tuple[Summary | None, tuple[HistoryEntry, ...], bool]:
    """Return the summary and the latest entries of any session, and whether it has untrusted content."""
    summary, entries = history_of(transaction, chat, session, limit, max_tokens)
    return summary, entries, taint_of(transaction, chat, session)[0]


def entries_of_turn(transaction: Transaction, chat: str, session: int, turn: str) -> tuple[HistoryEntry, ...]:
    """Return everything that a turn has stored, in order."""
    rows = transaction.db.execute(
        "SELECT message, tainted, links FROM history WHERE chat = ? AND session = ? AND turn = ?"
        " AND NOT undone ORDER BY id",
        (chat, session, turn),
    ).fetchall()
    return tuple(
        HistoryEntry(turn, load_message(text), bool(tainted), load_links(links))
        for text, tainted, links in rows
    )


@step(of_chat, owned=True)
def new_session(
    transaction: Transaction, chat: str, forget: bool = False, extract_first: bool = False
) -> int:
    """End the chat's session and begin another one; return the number of the new session.

    `forget` also deletes the whole history of the chat, in slices (`sweep_forgotten`). With `extract_first`,
    a session with new messages is deleted only after facts were extracted from it. Parked calls are deleted
    at once.
    """
    transaction.db.execute(
        "UPDATE sessions SET ended = ? WHERE chat = ? AND ended IS NULL", (transaction.now(), chat)
    )
    if forget:
        # `sweep_forgotten` deletes only sessions that are not fresh, so a fresh one waits for its extraction.
        if not extract_first:
            transaction.db.execute("UPDATE sessions SET fresh = FALSE WHERE chat = ?", (chat,))
        transaction.db.execute(
            "UPDATE sessions SET forget = TRUE WHERE chat = ? AND EXISTS"
            " (SELECT 1 FROM history WHERE history.chat = sessions.chat AND session = number)",
            (chat,),
        )
        for table in ("summaries", "episodes", "lineage"):
            transaction.db.execute(f"DELETE FROM {table} WHERE chat = ?", (chat,))
        forget_parked(transaction, chat)
        # Separate sessions are due at once as well; only the pause after a failed attempt stays.
        transaction.db.execute("UPDATE sessions SET learn_after = 0 WHERE chat = ? AND tries = 0", (chat,))
    number = open_session(transaction, chat)
    if forget:
        transaction.db.execute(
            "UPDATE sessions SET forgotten = (SELECT coalesce(max(id), 0) FROM messages WHERE chat = ?1"
            " AND (reply IS NOT NULL OR turn IS NOT NULL)) WHERE chat = ?1 AND number = ?2",
            (chat, number),
        )
    return number


@step(of_chat, owned=True)
def session_apart(transaction: Transaction, chat: str) -> int:
    """Begin a separate session for one turn, and return its number. The chat's session continues.

    Facts are extracted from the separate session at the time set by the turn's final reply, or after a day
    if there is none.
    """
    # The chat's session must exist first: numbers are given in order, and the latest open one is current.
    session_of(transaction, chat)
    number = open_session(transaction, chat)
    now = transaction.now()
    transaction.db.execute(
        "UPDATE sessions SET ended = ?, learn_after = ? WHERE chat = ? AND number = ?",
        (now, now + APART_S, chat, number),
    )
    return number


@step(of_chat, owned=True)
def summarize(
    transaction: Transaction, chat: str, session: int, summary: Summary, leave_out: bool = False
) -> Summary | None:
    """Replace the beginning of a session in prompts with a summary; return the summary now in use.

    With `leave_out`, only the summary's `turn` is used: prompts leave out all messages up to the end of that
    turn, although no text replaces them yet. The last `kept` messages of the turn stay. Return None, and
    change nothing, if the session has ended or the stored summary covers more messages.
    """
    # A summary is made in the background: another one, or the session's end, may have come first.
    of_session, numbers = rows_of(transaction, chat, session)
    (end,) = transaction.db.execute(
        f"SELECT history.id FROM history WHERE chat = ? AND {of_session} AND turn = ?"
        " AND EXISTS (SELECT 1 FROM sessions WHERE sessions.chat = ? AND number = ? AND ended IS NULL)"
        " ORDER BY history.id DESC LIMIT 1 OFFSET ?",
        (chat, *numbers, summary.turn, chat, session, max(0, summary.kept)),
    ).fetchone() or (None,)
    upto, turn, text, covered = transaction.db.execute(
        "SELECT upto, turn, text, told FROM summaries WHERE chat = ? AND session = ?", (chat, session)
    ).fetchone() or (0, "", "", 0)
    if end is None or end < (upto if leave_out else covered):
        return None
    if not leave_out:
        text, covered = clean(summary.text), end
    if end > upto:
        upto, turn = end, summary.turn
    transaction.db.execute(
        "INSERT INTO summaries (chat, session, turn, upto, text, told, tainted, links, created)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (chat, session) DO UPDATE SET turn = excluded.turn,"
        " upto = excluded.upto, text = excluded.text, told = excluded.told, tainted = excluded.tainted,"
        " links = excluded.links, created = excluded.created",
        (
            *(chat, session, turn, upto, text, covered),
            *(summary.tainted, json.dumps(summary.links), transaction.now()),
        ),
    )
    (kept,) = transaction.db.execute(
        f"SELECT count(*) FROM history WHERE chat = ? AND {of_session} AND turn = ? AND id > ?",
        (chat, *numbers, turn, upto),
    ).fetchone()
    return Summary(turn, text, summary.tainted, summary.links, gap=covered < upto, kept=int(kept))


@step(of_chat)
def left_out(transaction: Transaction, chat: str, session: int, max_tokens: int) -> tuple[HistoryEntry, ...]:
    """Return the latest entries, about `max_tokens` tokens, that neither prompts nor a summary contain."""
    covered, upto = transaction.db.execute(
        "SELECT told, upto FROM summaries WHERE chat = ? AND session = ?", (chat, session)
    ).fetchone() or (0, 0)
    return _entries(transaction, (chat, session), covered, upto, MOST_ENTRIES, max_tokens)[0]


@step(of_chat, owned=True)
def shorten_history(transaction: Transaction, chat: str, session: int, latest: int) -> None:
    """Shorten the session's tool results in prompts, except in the last `latest` entries.

    The stored history does not change.
    """
    # The position is stored and only grows: prompts must keep their beginning, which servers cache.
    of_session, numbers = rows_of(transaction, chat, session)
    row = transaction.db.execute(
        f"SELECT id FROM history WHERE chat = ? AND {of_session} AND NOT undone AND silent >= 0"
        " ORDER BY id DESC LIMIT 1 OFFSET ?",
        (chat, *numbers, latest),
    ).fetchone()
    if row is not None:
        transaction.db.execute(
            "UPDATE sessions SET short = ?1 WHERE chat = ?2 AND number = ?3 AND short < ?1",
            (row[0], chat, session),
        )


@step(of_chat, owned=True)
def mark_files(transaction: Transaction, chat: str, tainted: bool) -> None:
    """Record whether the chat's files contain untrusted content."""
    if tainted:
        transaction.db.execute(
            "INSERT INTO tainted_files (chat, since) VALUES (?, ?) ON CONFLICT DO NOTHING",
            (chat, transaction.now()),
        )
    else:
        transaction.db.execute("DELETE FROM tainted_files WHERE chat = ?", (chat,))


def taint_of(transaction: Transaction, chat: str, session: int) -> tuple[bool, bool]:
    """Return two flags: whether the session contains untrusted content, and whether the chat's files do.

    A session whose tainted entries have expired stays tainted, because later entries may repeat them.
    """
    row = transaction.db.execute(
        "SELECT EXISTS (SELECT 1 FROM history WHERE chat = ?1 AND session = ?2 AND tainted AND NOT undone)"
        " OR EXISTS (SELECT 1 FROM sessions WHERE chat = ?1 AND number = ?2 AND tainted),"
        " EXISTS (SELECT 1 FROM tainted_files WHERE chat = ?1)",
        (chat, session),
    ).fetchone()
    return bool(row[0]), bool(row[1])


def nano_of(transaction: Transaction, chat: str, session: int) -> int:
    """Return the price of the turns of a session, in billionths of a USD."""
    row = transaction.db.execute(
        "SELECT nano FROM sessions WHERE chat = ? AND number = ?", (chat, session)
    ).fetchone()
    return int(row[0]) if row else 0


def history_of(
    transaction: Transaction, chat: str, session: int, limit: int, max_tokens: int | None
) -> tuple[Summary | None, tuple[HistoryEntry, ...]]:
    """Return the summary of the beginning of a session, or None, and the latest entries after it.

    Tool results that are shortened in prompts are shortened here too. Because a long history may not fit in
    memory, at most `limit` entries with about `max_tokens` tokens are read. If earlier entries do not fit,
    prompts leave them out from now on, until a summary covers them.
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
        summary = summarize.do(transaction, chat, session, cut, leave_out=True) or summary
    return summary, entries


def _entries(
    transaction: Transaction,
    session: tuple[str, int],
    behind: int,
    upto: int,
    limit: int,
    max_tokens: int | None,
) -> tuple[tuple[HistoryEntry, ...], str]:
    """Return the latest entries of a range that fit the limits, and the newest turn that did not fit.

    The range begins after the entry `behind` and ends with the entry `upto`. A turn that does not fit in
    `max_tokens` is left out completely, except the latest turn, of which only the end is returned. The turn
    that did not fit is "" if all turns fit.
    """
    of_session, numbers = rows_of(transaction, *session)
    (shortened,) = transaction.db.execute(
        "SELECT short FROM sessions WHERE chat = ? AND number = ?", session
    ).fetchone() or (0,)
    rows = transaction.db.execute(
        "SELECT turn, message, tainted, links, silent, id FROM history"
        f" WHERE chat = ? AND {of_session} AND id > ? AND id <= ? AND NOT undone"
        " AND silent >= 0 ORDER BY id DESC LIMIT ?",
        (session[0], *numbers, behind, upto, limit),
    )
    entries: list[HistoryEntry] = []
    cut_turn = ""
    left = inf if max_tokens is None else max_tokens
    for turn, text, tainted, links, silent, id in rows:
        message = load_message(text)
        message = in_short(message) if id <= shortened else message
        left -= message.tokens
        if left < 0 and entries:
            if entries[0].turn != turn:
                entries, cut_turn = [entry for entry in entries if entry.turn != turn], turn
            break
        entries.append(HistoryEntry(turn, message, bool(tainted), load_links(links), silent))
    rows.close()
    return tuple(reversed(entries)), cut_turn


def insert_history(
    transaction: Transaction, chat: str, session: int, entries: tuple[HistoryEntry, ...]
) -> None:
    """Append entries to a session."""
    now = transaction.now()
    transaction.db.executemany(
        "INSERT INTO history (chat, session, turn, message, tainted, links, created, shown)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(chat, session, e.turn, dump_message(e.message), e.tainted, json.dumps(e.links), now),
                dump_shown(e.shown, e.message.content),
            )
            for e in entries
        ],
    )
    if any(entry.message.role == "user" for entry in entries):
        transaction.db.execute(
            "UPDATE sessions SET fresh = TRUE WHERE chat = ? AND number = ?", (chat, session)
        )


def mark_silent(
    transaction: Transaction, chat: str, session: int, turn: str, schedule: int, hides: tuple[str, ...]
) -> None:
    """Record that a turn of a schedule has ended silently, and that prompts leave out the turns `hides`."""
    of_session, numbers = rows_of(transaction, chat, session)
    mark = f"UPDATE history SET silent = ? WHERE chat = ? AND {of_session} AND turn = ?"
    marks = [(-schedule, chat, *numbers, hidden) for hidden in hides]
    transaction.db.executemany(mark, [*marks, (schedule, chat, *numbers, turn)])


def session_of(transaction: Transaction, chat: str) -> tuple[int, float]:
    """Return the chat's current session and the time at which it ends; open a session if the chat has none.

    The time is in seconds since 1970; 0 for a new session.
    """
    row = transaction.db.execute(
        "SELECT number, due FROM sessions WHERE chat = ? AND ended IS NULL ORDER BY number DESC LIMIT 1",
        (chat,),
    ).fetchone()
    return (int(row[0]), float(row[1])) if row else (open_session(transaction, chat), 0.0)


def open_session(transaction: Transaction, chat: str) -> int:
    """Begin a session with the next number, and return the number."""
    (number,) = transaction.db.execute(
        "SELECT coalesce(max(number), 0) + 1 FROM sessions WHERE chat = ?", (chat,)
    ).fetchone()
    transaction.db.execute(
        "INSERT INTO sessions (chat, number, started, due) VALUES (?, ?, ?, 0)",
        (chat, number, transaction.now()),
    )
    return int(number)


def dump_message(message: Message) -> str:
    """Return a history message as JSON text, without the model's reasoning."""
    calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls]
    fields: dict[str, object] = {
        "role": message.role,
        "content": message.content,
        "tool_calls": calls,
        "tool_call_id": message.tool_call_id,
    }
    if message.pictures:  # only references: the workspace has the bytes
        fields["pictures"] = [
            {"path": picture.path, "media_type": picture.media_type} for picture in message.pictures
        ]
    return clean(json.dumps(fields, ensure_ascii=False, separators=(",", ":")))


def load_message(text: str) -> Message:
    """Load a message written by `dump_message`; if the text is damaged, return a message that says so."""
    try:
        fields = json.loads(text)
        calls = tuple(ToolCall(**call) for call in fields["tool_calls"])
        pictures = tuple(Picture(**picture) for picture in fields.get("pictures", ()))
        return Message(fields["role"], fields["content"], calls, fields["tool_call_id"], pictures=pictures)
    except (ValueError, KeyError, TypeError):
        return Message("assistant", UNREADABLE)


def role_of(text: str) -> str:
    """Return the role of a message written by `dump_message`; empty if the text is damaged."""
    try:
        return str(json.loads(text)["role"])
    except (ValueError, KeyError, TypeError):
        return ""


def load_links(text: str) -> tuple[str, ...]:
    """Load known URLs; none if the text is damaged, so that the user is asked about the URLs again."""
    try:
        return tuple(map(str, json.loads(text)))
    except (ValueError, TypeError):
        return ()
