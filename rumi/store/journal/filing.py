"""Steps for the titles of chats, and for how their owner files them: pinned or archived."""

from typing import Final

from rumi.platform.unaccented import unaccented
from rumi.store.journal.records import ChatLine
from rumi.store.journal.scopes import of_chat
from rumi.store.journal.transaction import clean
from rumi.store.steps import Transaction, step

SHOWN_CHARS: Final = 200
"""Maximum number of characters of a chat's last message in a list of chats."""

LOOKED_AT: Final = 20
"""Number of a chat's latest messages in which its line in a list looks for something that was said."""

MOST_TITLES: Final = 50
"""Maximum number of titles that one search returns."""


@step(of_chat)
def name_chat(transaction: Transaction, chat: str, title: str) -> None:
    """Set a person's title of a chat; an empty title removes it. The program makes no title after that."""
    transaction.db.execute(
        "INSERT INTO titles (chat, title) VALUES (?, ?)"
        " ON CONFLICT (chat) DO UPDATE SET title = excluded.title, automatic = FALSE",
        (chat, clean(title)),
    )


@step(of_chat)
def title_chat(transaction: Transaction, chat: str, title: str) -> bool:
    """Set a title that the program has made, unless a person has named or filed the chat.

    Return True if it was set.
    """
    found = transaction.db.execute(
        "INSERT INTO titles (chat, title, automatic) VALUES (?, ?, TRUE)"
        " ON CONFLICT (chat) DO UPDATE SET title = excluded.title WHERE titles.automatic RETURNING chat",
        (chat, clean(title)),
    )
    return found.fetchone() is not None


@step(of_chat, reads=True)
def untitled(transaction: Transaction, chat: str, text: str) -> str | None:
    """Return the first text that a person wrote in a chat without a title; None if it needs no title.

    `text` is returned if none is stored yet.
    """
    if transaction.db.execute("SELECT 1 FROM titles WHERE chat = ?", (chat,)).fetchone():
        return None
    row = transaction.db.execute(
        "SELECT text FROM messages WHERE chat = ?1 AND turn IS NOT NULL AND schedule IS NULL AND task IS NULL"
        " AND event_of = '' AND NOT tainted AND text != '' ORDER BY id LIMIT 1",
        (chat,),
    ).fetchone()
    return text if row is None else str(row[0])


@step(of_chat)
def pin_chat(transaction: Transaction, chat: str, pinned: bool) -> None:
    """Pin a chat, or unpin it."""
    _file(transaction, chat, "pinned", pinned)


@step(of_chat)
def archive_chat(transaction: Transaction, chat: str, archived: bool) -> None:
    """Archive a chat, or take it out of the archive."""
    _file(transaction, chat, "archived", archived)


def _file(transaction: Transaction, chat: str, mark: str, value: bool) -> None:
    transaction.db.execute(
        f"INSERT INTO titles (chat, title, {mark}) VALUES (?, '', ?)"
        f" ON CONFLICT (chat) DO UPDATE SET {mark} = excluded.{mark}",
        (chat, value),
    )


@step(reads=True)
def find_titles(transaction: Transaction, words: str) -> tuple[tuple[str, str], ...]:
    """Return the chats whose titles contain all words, with their titles. Case and accents are ignored."""
    wanted = unaccented(words).split()
    rows = transaction.db.execute("SELECT chat, title FROM titles WHERE title != '' ORDER BY chat")
    found = [(chat, title) for chat, title in rows if all(word in unaccented(title) for word in wanted)]
    return tuple(found[:MOST_TITLES]) if wanted else ()


@step(reads=True)
def titles_of(transaction: Transaction, chats: tuple[str, ...]) -> dict[str, str]:
    """Return the titles of those of the chats that have one."""
    rows = transaction.db.execute(
        f"SELECT chat, title FROM titles WHERE chat IN ({', '.join('?' * len(chats)) or 'NULL'})", chats
    )
    return {chat: title for chat, title in rows if title}


@step(reads=True)
def chat_lines(transaction: Transaction, chats: tuple[str, ...]) -> dict[str, ChatLine]:
    """Return what a list shows of these chats. The caller asks for few chats at once: other requests wait."""
    return {chat: _line(transaction, chat) for chat in chats}


def _line(transaction: Transaction, chat: str) -> ChatLine:
    unread, session, waiting = transaction.db.execute(
        "SELECT (SELECT count(*) FROM outbox WHERE chat = ?1 AND delivered IS NULL),"
        " (SELECT coalesce(max(number), 0) FROM sessions WHERE chat = ?1 AND ended IS NULL),"
        " (SELECT count(*) FROM parked WHERE chat = ?1 AND state = 'waits')",
        (chat,),
    ).fetchone()
    rows = transaction.db.execute(
        "SELECT messages.text, outbox.text,"
        " schedule IS NULL AND task IS NULL AND event_of = '' AND NOT notice,"
        " EXISTS (SELECT 1 FROM history WHERE history.chat = messages.chat"
        "  AND history.session = messages.session AND history.turn = messages.turn AND silent != 0)"
        " FROM messages LEFT JOIN outbox ON outbox.id = reply WHERE messages.chat = ?"
        " ORDER BY messages.id DESC LIMIT ?",
        (chat, LOOKED_AT),
    ).fetchall()
    for text, reply, by_hand, silent in rows:
        if reply and not silent:
            return ChatLine(chat, reply[:SHOWN_CHARS], "assistant", unread, session, waiting)
        if by_hand and text and not silent:
            return ChatLine(chat, text[:SHOWN_CHARS], "you", unread, session, waiting)
    return ChatLine(chat, "", "", unread, session, waiting)
