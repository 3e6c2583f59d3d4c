"""Steps for reading chats: lists of chats, earlier history, and searches."""

from rumi.platform.chat_ids import TASK
from rumi.platform.unaccented import unaccented
from rumi.store.journal.filing import SHOWN_CHARS
from rumi.store.journal.history import MOST_ENTRY, load_links, load_message
from rumi.store.journal.lineage import rows_of
from rumi.store.journal.records import FoundEntries, HistoryEntry, StoredChat, StoredEntry
from rumi.store.steps import Transaction, step

SEARCHED = 1_000
"""Maximum number of history rows that one search request reads. Other requests wait during that time."""


MOST_FOUND = 50
"""Maximum number of entries that one search request returns."""

_ENTRY = "history.id, history.chat, session, created, turn, message, tainted, links, undone"
_NOT_FORGOTTEN = (
    " AND NOT EXISTS (SELECT 1 FROM sessions AS s"
    " WHERE s.chat = history.chat AND s.number = session AND s.forget)"
)
"""SQL condition that excludes entries of forgotten sessions, which a sweep will delete."""


@step(reads=True)
def list_chats(
    transaction: Transaction, without: tuple[str, ...] = (), limit: int = 200
) -> tuple[StoredChat, ...]:
    """Return chats with messages, latest first, except those whose id begins with a prefix in `without`."""
    # The recursive query jumps in the index from each chat to the next one. DISTINCT would read all messages.
    rows = transaction.db.execute(
        "WITH RECURSIVE known (chat) AS (SELECT min(chat) FROM messages WHERE chat > '' UNION ALL"
        " SELECT (SELECT min(messages.chat) FROM messages WHERE messages.chat > known.chat) FROM known"
        " WHERE known.chat IS NOT NULL)"
        " SELECT known.chat, coalesce(title, ''), text, received, messages.id, coalesce(automatic, FALSE),"
        " coalesce(pinned, FALSE), coalesce(archived, FALSE) FROM known"
        " JOIN messages ON messages.id = (SELECT max(id) FROM messages WHERE messages.chat = known.chat)"
        f" LEFT JOIN titles ON titles.chat = known.chat WHERE {_without('known.chat', without)}"
        " ORDER BY messages.id DESC LIMIT ?",
        (*without, limit),
    )
    return tuple(
        StoredChat(chat, title, text[:SHOWN_CHARS], at, last, *map(bool, marks))
        for chat, title, text, at, last, *marks in rows
    )


@step(reads=True)
def read_history(
    transaction: Transaction,
    chat: str,
    before: int = MOST_ENTRY,
    limit: int = 200,
    going_on: bool = False,
    told: bool = False,
) -> tuple[StoredEntry, ...]:
    """Return the chat's latest history entries before the entry number `before`, oldest first.

    The entries are from all sessions of the chat; with `going_on`, only from the current session. With
    `told`, turns that have ended silently are left out.
    """
    which, numbers = _NOT_FORGOTTEN, tuple[int, ...]()
    if going_on:
        (current,) = transaction.db.execute(
            "SELECT coalesce(max(number), 0) FROM sessions WHERE chat = ? AND ended IS NULL", (chat,)
        ).fetchone()
        of_session, numbers = rows_of(transaction, chat, current)
        which = f" AND {of_session} AND NOT undone"
    which += " AND silent = 0" if told else ""
    rows = transaction.db.execute(
        f"SELECT {_ENTRY} FROM history WHERE chat = ? AND id < ?{which} ORDER BY id DESC LIMIT ?",
        (chat, before, *numbers, limit),
    )
    return tuple(reversed([_entry(row) for row in rows]))


@step(reads=True)
def search_history(
    transaction: Transaction,
    words: str,
    chat: str = "",
    without: tuple[str, ...] = (),
    before: int = MOST_ENTRY,
) -> FoundEntries:
    """Search a slice of the history before the entry number `before` for entries that contain all words.

    The search covers messages from users and the assistant. It covers one `chat`, or all chats except those
    whose id begins with a prefix in `without`. Case and accents are ignored. To search the next slice, the
    caller passes `FoundEntries.next`. A slice is short, because other requests wait for it.
    """
    wanted = unaccented(words).split()
    narrowed, parameters = ("chat = ?", (chat,)) if chat else (f"instr(chat, '{TASK}') != 1", ())
    rows = transaction.db.execute(
        f"SELECT {_ENTRY} FROM history WHERE {narrowed} AND id < ?"
        f" AND {_without('history.chat', without)}{_NOT_FORGOTTEN} ORDER BY id DESC LIMIT ?",
        (*parameters, before, *without, SEARCHED),
    )
    found, examined, last = [], 0, 0
    for row in rows:
        examined, last = examined + 1, row[0]
        stored = _entry(row)
        message = stored.entry.message
        if message.role in ("user", "assistant") and _has(unaccented(message.content), wanted):
            found.append(stored)
            if len(found) == MOST_FOUND:
                return FoundEntries(tuple(found), last)
    return FoundEntries(tuple(found), last if examined == SEARCHED else 0)


@step(reads=True)
def used_commands(transaction: Transaction, chat: str, owner: str) -> frozenset[str]:
    """Return the chat commands that have something to show to this chat or its owner.

    They are `tasks`, `bots`, `schedules`, `list` and, if calls wait for a yes, `yes` and `no`.
    """
    found = transaction.db.execute(
        "SELECT EXISTS (SELECT 1 FROM tasks WHERE owner = ? AND kind != 'bot'),"
        " EXISTS (SELECT 1 FROM tasks WHERE owner = ? AND kind = 'bot'),"
        " EXISTS (SELECT 1 FROM schedules WHERE owner = ? AND state != 'done'),"
        " EXISTS (SELECT 1 FROM list_items WHERE chat = ?),"
        " EXISTS (SELECT 1 FROM parked WHERE chat = ? AND state = 'waits')",
        (owner, owner, owner, chat, chat),
    ).fetchone()
    commands = (("tasks",), ("bots", "bot", "wake"), ("schedules", "snooze"), ("list",), ("yes", "no"))
    return frozenset(name for names, used in zip(commands, found, strict=True) if used for name in names)


def _has(text: str, words: list[str]) -> bool:
    return bool(words) and all(word in text for word in words)


def _without(column: str, prefixes: tuple[str, ...]) -> str:
    """Return an SQL condition: the column begins with none of the prefixes, which are its parameters."""
    return " AND ".join([f"instr({column}, ?) != 1"] * len(prefixes)) or "TRUE"


def _entry(row: tuple[int, str, int, float, str, str, int, str, int]) -> StoredEntry:
    id, chat, session, at, turn, message, tainted, links, undone = row
    entry = HistoryEntry(turn, load_message(message), bool(tainted), load_links(links))
    return StoredEntry(id, chat, session, at, entry, bool(undone))


@step(reads=True)
def read_onward(transaction: Transaction, chat: str, after: int, limit: int) -> tuple[StoredEntry, ...]:
    """Return the chat's first history entries after the entry number `after`, oldest first."""
    rows = transaction.db.execute(
        f"SELECT {_ENTRY} FROM history WHERE chat = ? AND id > ?{_NOT_FORGOTTEN} ORDER BY id LIMIT ?",
        (chat, after, limit),
    )
    return tuple(_entry(row) for row in rows)


@step(reads=True)
def last_model(transaction: Transaction, chat: str, channel: str) -> str:
    """Return the model of the last message that came through a channel into a chat; empty for the default."""
    row = transaction.db.execute(
        "SELECT model FROM messages WHERE chat = ? AND channel = ? ORDER BY id DESC LIMIT 1", (chat, channel)
    ).fetchone()
    return "" if row is None else str(row[0])
