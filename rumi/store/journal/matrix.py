"""Steps about Matrix as a channel: positions of accounts, rooms of chats, and numbers of events.

Events have names at their server. Records have numbers of messages, whose order is that of the room, so each
event that counts gets a number here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from rumi.store.journal.inbox import accept_new
from rumi.store.journal.records import Incoming, NotStored
from rumi.store.journal.scopes import of_chat, of_message
from rumi.store.journal.transaction import clean
from rumi.store.steps import Transaction, step

KEPT_S: Final = 90 * 86_400.0
"""Retention of events, in seconds. An answer to an older message does not refer to it."""

MOST_OLD: Final = 200
"""Maximum number of old events that are deleted with one batch."""


@dataclass(frozen=True, slots=True)
class AccountPosition:
    """Up to where an account's events have been stored; an empty token if none were.

    `salt` is random, and part of the ids under which this database sends messages.
    """

    token: str
    salt: str


@dataclass(frozen=True, slots=True)
class RoomPlace:
    """Where a chat is: a room, and the event that its thread begins with, empty outside of threads."""

    room: str
    thread: str = ""


@dataclass(frozen=True, slots=True)
class MatrixEvent:
    """An event to store: a person's `message`, or a message of Rumi itself in a chat.

    `corrects` is the event whose text the message replaces. `what` is the question that Rumi's message asks.
    """

    id: str
    chat: str
    place: RoomPlace
    message: Incoming | None = None
    corrects: str = ""
    what: str = ""


@dataclass(frozen=True, slots=True)
class SyncBatch:
    """The events of one account between two positions, in their order."""

    account: str
    since: str
    token: str
    events: tuple[MatrixEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """What became of an event: its number, 0 if it was known already, and the message as it was stored."""

    number: int = 0
    message: Incoming | None = None


@step()
def matrix_position(transaction: Transaction, account: str, salt: str) -> AccountPosition:
    """Return up to where an account's events have been stored.

    The first call makes the account known, with this random `salt`; later ones keep the first one's.
    """
    transaction.db.execute(
        "INSERT INTO matrix_accounts (account, token, salt, changed) VALUES (?, '', ?, ?)"
        " ON CONFLICT DO NOTHING",
        (clean(account), salt, transaction.now()),
    )
    row = transaction.db.execute(
        "SELECT token, salt FROM matrix_accounts WHERE account = ?", (clean(account),)
    ).fetchone()
    return AccountPosition(*row)


def _of_batch(transaction: Transaction, batch: SyncBatch) -> Iterable[str]:
    return [event.chat for event in batch.events]


@step(_of_batch)
def accept_sync(transaction: Transaction, batch: SyncBatch) -> tuple[StoredEvent, ...] | NotStored | None:
    """Store the events of a batch and the position after them: all or nothing.

    Return None, and store nothing, if the stored position is not the one before the batch: another process
    was faster. The journal replies `NotStored` instead while it cannot write.
    """
    db, now = transaction.db, transaction.now()
    moved = db.execute(
        "UPDATE matrix_accounts SET token = ?, changed = ? WHERE account = ? AND token = ?",
        (clean(batch.token), now, clean(batch.account), clean(batch.since)),
    )
    if moved.rowcount == 0:
        return None
    db.execute(
        "DELETE FROM matrix_events WHERE number IN"
        " (SELECT number FROM matrix_events WHERE seen < ? ORDER BY seen LIMIT ?)",
        (now - KEPT_S, MOST_OLD),
    )
    return tuple(_accept_event(transaction, batch.account, event) for event in batch.events)


def _accept_event(transaction: Transaction, account: str, event: MatrixEvent) -> StoredEvent:
    db = transaction.db
    row = db.execute(
        "INSERT INTO matrix_events (account, event, chat, what, seen) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING RETURNING number",
        (clean(account), clean(event.id), event.chat, clean(event.what), transaction.now()),
    ).fetchone()
    if row is None:
        return StoredEvent()
    number = int(row[0])
    if event.message is None:
        return StoredEvent(number)
    note_place(transaction, event.chat, event.place)
    message, origin = event.message, number
    if event.corrects:
        found = db.execute(
            "SELECT number FROM matrix_events WHERE account = ? AND event = ? AND chat = ?",
            (clean(account), clean(event.corrects), event.chat),
        ).fetchone()
        if found is None:
            return StoredEvent(number)
        origin = int(found[0])
    stored = accept_new(replace(message, origin=origin), transaction)
    if stored is not None and stored.id:
        db.execute("UPDATE matrix_events SET message = ? WHERE number = ?", (stored.id, number))
    return StoredEvent(number, stored)


def note_place(transaction: Transaction, chat: str, place: RoomPlace) -> None:
    """Record where a chat is."""
    transaction.db.execute(
        "INSERT INTO matrix_rooms (chat, room, thread) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        (chat, clean(place.room), clean(place.thread)),
    )


@step(reads=True)
def place_of(transaction: Transaction, chat: str) -> RoomPlace | None:
    """Return where a chat is; None if no event of it was stored."""
    row = transaction.db.execute("SELECT room, thread FROM matrix_rooms WHERE chat = ?", (chat,)).fetchone()
    return None if row is None else RoomPlace(*row)


@step(reads=True)
def chats_in_room(transaction: Transaction, prefix: str, room: str) -> tuple[str, ...]:
    """Return the chats of a room whose ids begin with `prefix`."""
    rows = transaction.db.execute("SELECT chat FROM matrix_rooms WHERE room = ?", (clean(room),))
    return tuple(sorted(str(chat) for (chat,) in rows if str(chat).startswith(prefix)))


@step(reads=True)
def event_numbered(transaction: Transaction, number: int) -> str:
    """Return the event with a number; empty if it is not known."""
    row = transaction.db.execute("SELECT event FROM matrix_events WHERE number = ?", (number,)).fetchone()
    return str(row[0] or "") if row else ""


@dataclass(frozen=True, slots=True)
class KnownEvent:
    """A stored event: its chat, the message that it became (0 for Rumi's own), and the question it asks.

    `room` is the chat's room; empty if nothing that a person wrote there is stored.
    """

    number: int
    chat: str
    message: int
    what: str
    room: str = ""


@step(reads=True)
def known_event(transaction: Transaction, account: str, event: str) -> KnownEvent | None:
    """Return what is stored of an event; None if nothing is."""
    row = transaction.db.execute(
        "SELECT number, matrix_events.chat, coalesce(message, 0), what, coalesce(room, '') FROM matrix_events"
        " LEFT JOIN matrix_rooms ON matrix_rooms.chat = matrix_events.chat WHERE account = ? AND event = ?",
        (clean(account), clean(event)),
    ).fetchone()
    return None if row is None else KnownEvent(*row)


@step(reads=True)
def has_event(transaction: Transaction, chat: str, what: str) -> bool:
    """Return True if a chat has an event that says `what`."""
    row = transaction.db.execute(
        "SELECT 1 FROM matrix_events WHERE chat = ? AND what = ? LIMIT 1", (chat, clean(what))
    ).fetchone()
    return row is not None


@step(of_message, owned=True)
def begin_preview(transaction: Transaction, message: int, account: str, chat: str) -> int:
    """Record that a message with the growing answer to `message` may be sent; return its number.

    It is sent under an id that follows from this number, so a later process can find out which event it is.
    """
    (number,) = transaction.db.execute(
        "INSERT INTO matrix_events (account, chat, seen) VALUES (?, ?, ?) RETURNING number",
        (clean(account), chat, transaction.now()),
    ).fetchone()
    transaction.db.execute("UPDATE messages SET preview = ? WHERE id = ?", (number, message))
    return int(number)


@step(of_chat)
def note_sent(transaction: Transaction, chat: str, account: str, event: str, what: str = "") -> int:
    """Record a message that Rumi has sent in a chat; return its number.

    Its own event may have come back earlier. Then it has a number already.
    """
    db = transaction.db
    db.execute(
        "INSERT INTO matrix_events (account, event, chat, what, seen) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (account, event) DO UPDATE SET chat = excluded.chat,"
        " what = CASE WHEN matrix_events.what = '' THEN excluded.what ELSE matrix_events.what END",
        (clean(account), clean(event), chat, clean(what), transaction.now()),
    )
    (number,) = db.execute(
        "SELECT number FROM matrix_events WHERE account = ? AND event = ?", (clean(account), clean(event))
    ).fetchone()
    return int(number)


@step(of_chat)
def note_preview(transaction: Transaction, chat: str, number: int, account: str, event: str) -> None:
    """Record which event the message with a growing answer is. Its own event may have come back earlier."""
    transaction.db.execute(
        "DELETE FROM matrix_events WHERE account = ? AND event = ? AND number != ?",
        (clean(account), clean(event), number),
    )
    transaction.db.execute("UPDATE matrix_events SET event = ? WHERE number = ?", (clean(event), number))
