"""Steps for reading chats: lists of chats, earlier history, and searches."""

from rumi.platform.chat_ids import TASK
from rumi.platform.unaccented import unaccented
from rumi.store.journal.history import MOST_ENTRY, load_links, load_message
from rumi.store.journal.records import FoundEntries, HistoryEntry, StoredChat, StoredEntry
from rumi.store.journal.scopes import of_chat
from rumi.store.journal.transaction import clean
from rumi.store.steps import Transaction, step

SEARCHED = 1_000
"""Maximum number of history rows that one search request reads. Other requests wait during that time."""


SHOWN_CHARS = 200
"""Maximum number of characters of a chat's last message in a list of chats."""

MOST_FOUND = 50
"""Maximum number of entries that one search request returns."""

_ENTRY = "history.id, history.chat, session, created, turn, message, tainted, links, undone"
_NOT_FORGOTTEN = (
    " AND NOT EXISTS (SELECT 1 FROM sessions AS s"
    " WHERE s.chat = history.chat AND s.number = session AND s.forget)"
)
"""SQL condition that excludes entries of forgotten sessions, which a sweep will delete."""
_GOING_ON = (
    " AND session = (SELECT max(number) FROM sessions AS s WHERE s.chat = history.chat AND s.ended IS NULL)"
    " AND NOT undone"
)


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
        " SELECT known.chat, coalesce(title, ''), text, received FROM known"
        " JOIN messages ON messages.id = (SELECT max(id) FROM messages WHERE messages.chat = known.chat)"
        f" LEFT JOIN titles ON titles.chat = known.chat WHERE {_without('known.chat', without)}"
        " ORDER BY messages.id DESC LIMIT ?",
        (*without, limit),
    )
    return tuple(StoredChat(chat, title, text[:SHOWN_CHARS], at) for chat, title, text, at in rows)


@step(of_chat)
def name_chat(transaction: Transaction, chat: str, title: str) -> None:
    """Set the title of a chat; an empty title removes it."""
    if title:
        transaction.db.execute(
            "INSERT INTO titles (chat, title) VALUES (?, ?)"
            " ON CONFLICT (chat) DO UPDATE SET title = excluded.title",
            (chat, clean(title)),
        )
    else:
        transaction.db.execute("DELETE FROM titles WHERE chat = ?", (chat,))


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
    which = (_GOING_ON if going_on else _NOT_FORGOTTEN) + (" AND silent = 0" if told else "")
    rows = transaction.db.execute(
        f"SELECT {_ENTRY} FROM history WHERE chat = ? AND id < ?{which} ORDER BY id DESC LIMIT ?",
        (chat, before, limit),
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


def excerpt(text: str, words: str, chars: int = 160) -> str:
    """Return the part of a text around the first occurrence of a search word, on one line."""
    line = " ".join(text.split())
    first = next(iter(unaccented(words).split()), "")
    # Folding may change lengths, so the position is approximate, which suffices here.
    start = max(0, unaccented(line).find(first) - chars // 4)
    return f"{'…' if start else ''}{line[start : start + chars]}{'…' if start + chars < len(line) else ''}"


def _has(text: str, words: list[str]) -> bool:
    return bool(words) and all(word in text for word in words)


def _without(column: str, prefixes: tuple[str, ...]) -> str:
    """Return an SQL condition: the column begins with none of the prefixes, which are its parameters."""
    return " AND ".join([f"instr({column}, ?) != 1"] * len(prefixes)) or "TRUE"


def _entry(row: tuple[int, str, int, float, str, str, int, str, int]) -> StoredEntry:
    id, chat, session, at, turn, message, tainted, links, undone = row
    entry = HistoryEntry(turn, load_message(message), bool(tainted), load_links(links))
    return StoredEntry(id, chat, session, at, entry, bool(undone))
