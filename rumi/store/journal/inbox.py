"""Requests that store messages, and find messages without a reply."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Final

from rumi.store.journal.albums import insert_part, part_of
from rumi.store.journal.history import history_of, insert_history, session_of, taint_of
from rumi.store.journal.outbox import insert_reply
from rumi.store.journal.parked import LoadParked, buttons_json, in_words, load_parked
from rumi.store.journal.records import (
    Attachment,
    ChatRecord,
    Figures,
    HistoryEntry,
    Incoming,
    NotStored,
    joined,
)
from rumi.store.journal.transaction import JournalRequest, OwnedWrite, Read, clean, mine, steps
from rumi.store.journal.undo import FindUndo, find_undo
from rumi.store.steps import Transaction

SEEN_S = 48 * 3600.0
"""Retention of update numbers, in seconds. A source may repeat an update for half that time, and may restart
its numbering after a week without updates. So comparing with the last number would be wrong, and so would
storing the numbers for ever."""

SEEN_LEAST = 1000
"""Number of the newest updates that are remembered regardless of their age: a clock may jump ahead by
days."""

MOST_MOVED = 100_000
"""Maximum number of moved groups that are remembered: more than a bot ever sees, but few enough that
strangers cannot fill the disk."""


_OPEN: Final = "messages INDEXED BY messages_open"
"""The table `messages` with its partial index of open messages. Few of a chat's messages are open."""


@dataclass(frozen=True, slots=True)
class Accept(JournalRequest[tuple[Incoming | None, ...] | NotStored]):
    """Store messages before they are processed: the whole batch or nothing.

    The reply has one item for each message, in order: the stored message, or None. It is None if the message
    is not stored again, because its update was seen in the last `SEEN_S` seconds or is one of the last
    `SEEN_LEAST` updates of its source. For a part of an album, which is not a message yet, the item has only
    the update.
    """

    batch: tuple[Incoming, ...]


@steps.of(Accept)
def accept(request: Accept, transaction: Transaction) -> tuple[Incoming | None, ...]:
    """Store a batch of messages; skip those whose update was seen before."""
    for source in {message.update.source for message in request.batch if message.update is not None}:
        transaction.db.execute(
            "DELETE FROM updates WHERE source = ?1 AND seen < ?2 AND seen <="
            " (SELECT seen FROM updates WHERE source = ?1 ORDER BY seen DESC LIMIT 1 OFFSET ?3)",
            (source, transaction.now() - SEEN_S, SEEN_LEAST),
        )
    return tuple(_accept_new(message, transaction) for message in request.batch)


def _accept_new(message: Incoming, transaction: Transaction) -> Incoming | None:
    if (update := message.update) is not None:
        # In the transaction of its message: after a kill, a repeated update finds both or none.
        seen = transaction.db.execute(
            "INSERT INTO updates (source, number, seen) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (update.source, update.number, transaction.now()),
        )
        if seen.rowcount == 0:
            return None
    if message.moved is not None:
        _note_move(transaction, *message.moved)
    if message.album:
        insert_part(message, transaction)
        return Incoming(message.update)
    return insert_message(in_words(message, transaction), transaction) if message.chat else message


def insert_message(message: Incoming, transaction: Transaction) -> Incoming:
    """Store a message of a chat; return it as stored."""
    reply = 0 if message.answer is None else insert_reply(transaction, message.chat, message.answer)
    (before,) = transaction.db.execute(
        f"SELECT coalesce(max(id), 0) FROM {_OPEN} WHERE chat = ? AND reply IS NULL", (message.chat,)
    ).fetchone()
    (id,) = transaction.db.execute(
        "INSERT INTO messages"
        " (chat, text, received, language, admin, origin, enclosures, user, unattended, apart, channel,"
        " model, project, task, schedule, notice, tainted, buttons, reply)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (
            message.chat,
            clean(message.text),
            transaction.now(),
            message.language or "",
            message.admin,
            message.origin,
            clean(json.dumps([asdict(one) for one in message.attachments])),
            message.user,
            message.unattended,
            message.apart,
            message.channel,
            clean(message.model),
            clean(message.project),
            message.task or None,
            message.schedule or None,
            message.notice,
            message.tainted,
            buttons_json(message.buttons),
            reply or None,
        ),
    ).fetchone()
    transaction.touched.add(message.chat)
    return replace(message, id=id, before=before, reply=reply)


@dataclass(frozen=True, slots=True)
class JoinAlbums(OwnedWrite[tuple[tuple[Incoming, ...], float | None]]):
    """Join each album that has received no part for `quiet_s` seconds into one message.

    An album is deleted if none of its parts is addressed to the assistant. Return the stored messages, and
    the seconds until the next album is complete. The seconds are None if no parts are left.
    """

    quiet_s: float


@steps.of(JoinAlbums)
def join_albums(request: JoinAlbums, transaction: Transaction) -> tuple[tuple[Incoming, ...], float | None]:
    """Join each complete album into one message."""
    now, stored, next_s = transaction.now(), list[Incoming](), None
    albums = transaction.db.execute(
        f"SELECT chat, album, max(came) FROM album_parts WHERE TRUE{mine(transaction)}"
        " GROUP BY chat, album ORDER BY max(id)"
    ).fetchall()
    for chat, album, came in albums:
        left_s = came + request.quiet_s - now
        if 0 < left_s <= request.quiet_s:  # a larger value means that the clock was set back: do not wait
            next_s = left_s if next_s is None else min(next_s, left_s)
            continue
        rows = transaction.db.execute(
            "SELECT part FROM album_parts WHERE chat = ? AND album = ? ORDER BY id", (chat, album)
        ).fetchall()
        transaction.db.execute("DELETE FROM album_parts WHERE chat = ? AND album = ?", (chat, album))
        parts = [part for (text,) in rows if (part := part_of(text)) is not None]
        if any(part.addressed for part in parts):
            stored.append(insert_message(joined(parts), transaction))
    return tuple(stored), next_s


@dataclass(frozen=True, slots=True)
class RecordMove(JournalRequest[bool]):
    """Map the `new` chat id of a moved group to its `old` one; return True if they are mapped.

    Return False, and change nothing, if `new` or one of its topics already has messages.
    """

    old: str
    new: str


@steps.of(RecordMove)
def moved(request: RecordMove, transaction: Transaction) -> bool:
    """Map a group's new chat id to its old one. Return False if the new id already has messages."""
    # Topics of a group are its id, `_` and a number. "`" is the character after "_": the range has only them.
    known = transaction.db.execute(
        "SELECT (SELECT old FROM moved WHERE new = ?1), EXISTS (SELECT 1 FROM messages WHERE chat = ?1"
        " OR (chat > ?1 || '_' AND chat < ?1 || '`'))",
        (request.new,),
    ).fetchone()
    if known[0] is None and not known[1]:
        _note_move(transaction, request.old, request.new)
    return known[0] is not None or not known[1]


def _note_move(transaction: Transaction, old: str, new: str) -> None:
    """Map a group's new chat id to its old one, and clear message numbers that are no longer valid.

    These are the source's numbers of messages that have no delivered reply.
    """
    # A group may move more than once: each later id leads to the first one, which names the chat for ever.
    earlier = transaction.db.execute("SELECT old FROM moved WHERE new = ?", (old,)).fetchone()
    old = earlier[0] if earlier else old
    if old == new:
        return
    inserted = transaction.db.execute(
        "INSERT INTO moved (old, new) VALUES (?, ?) ON CONFLICT DO NOTHING", (old, new)
    )
    if inserted.rowcount == 0:
        return
    transaction.db.execute(
        "DELETE FROM moved WHERE rowid <= (SELECT max(rowid) FROM moved) - ?", (MOST_MOVED,)
    )
    # In the new group the same numbers are other messages: nothing may answer or edit those.
    transaction.db.execute(
        "UPDATE messages SET preview = NULL, origin = 0 WHERE origin IS NOT NULL"
        " AND (chat = ?1 OR (chat > ?1 || '_' AND chat < ?1 || '`'))"
        " AND (reply IS NULL OR reply IN (SELECT id FROM outbox WHERE delivered IS NULL))",
        (old,),
    )


@dataclass(frozen=True, slots=True)
class MovedGroups(Read[tuple[tuple[str, str], ...]]):
    """Return the moved groups, oldest first: the old chat id and the new chat id of each group."""


@steps.of(MovedGroups)
def moves(request: MovedGroups, transaction: Transaction) -> tuple[tuple[str, str], ...]:
    """Return all moved groups, oldest first."""
    return tuple(transaction.db.execute("SELECT old, new FROM moved ORDER BY rowid").fetchall())


@dataclass(frozen=True, slots=True)
class Begin(OwnedWrite[None]):
    """Record that a message started a turn, and store the first entries of the turn.

    If the turn is a retry, `retries` is the number of the message that it retries.
    """

    chat: str
    message: int
    turn: str
    session: int
    entries: tuple[HistoryEntry, ...] = ()
    retries: int | None = None


@steps.of(Begin)
def begin(request: Begin, transaction: Transaction) -> None:
    """Record that a message started a turn, and store the first entries of the turn."""
    transaction.db.execute(
        "UPDATE messages SET turn = ?, session = ? WHERE id = ?",
        (request.turn, request.session, request.message),
    )
    insert_history(transaction, request.chat, request.session, request.entries)
    if request.retries is not None:
        # The retry gets the content of the retried message, so that the retry itself can be retried.
        transaction.db.execute(
            "UPDATE messages SET (text, enclosures) ="
            " (SELECT text, enclosures FROM messages WHERE id = ?) WHERE id = ?",
            (request.retries, request.message),
        )
        transaction.db.execute(
            "UPDATE messages SET retried = ? WHERE id = ?", (request.message, request.retries)
        )


@dataclass(frozen=True, slots=True)
class Previewed(OwnedWrite[None]):
    """Record a preview: the message at the source that shows an answer while it is being written.

    The preview is recorded by its number at the source; None means that it was deleted.

    Only the sender that recorded a preview knows which edits of the preview are in progress. After a restart,
    a new sender deletes the preview.
    """

    message: int
    preview: int | None


@steps.of(Previewed)
def previewed(request: Previewed, transaction: Transaction) -> None:
    """Record the preview message of an answer."""
    transaction.db.execute("UPDATE messages SET preview = ? WHERE id = ?", (request.preview, request.message))


@dataclass(frozen=True, slots=True)
class Load(Read[ChatRecord]):
    """Return the stored state of a chat, with at most the latest `limit` history entries.

    With `max_tokens`, only entries with about that many tokens are returned, but always the latest entry.
    """

    chat: str
    limit: int
    max_tokens: int | None = None


@steps.of(Load)
def load(request: Load, transaction: Transaction) -> ChatRecord:
    """Return the stored state of a chat."""
    session, due = session_of(transaction, request.chat)
    summary, history = history_of(transaction, request.chat, session, request.limit, request.max_tokens)
    tainted_session, tainted_files = taint_of(transaction, request.chat, session)
    return ChatRecord(
        session=session,
        due=due,
        history=history,
        open=open_messages(OpenMessages(request.chat, 0), transaction),
        tainted=tainted_session,
        files_tainted=tainted_files,
        summary=summary,
        parked=load_parked(LoadParked(request.chat), transaction),
        undo=find_undo(FindUndo(request.chat), transaction),
    )


@dataclass(frozen=True, slots=True)
class OpenMessages(Read[tuple[Incoming, ...]]):
    """Return the chat's messages that have no final reply and a number higher than `after`, in order."""

    chat: str
    after: int


@steps.of(OpenMessages)
def open_messages(request: OpenMessages, transaction: Transaction) -> tuple[Incoming, ...]:
    """Return the chat's messages without a final reply."""
    found = f"{_OPEN} WHERE chat = ? AND reply IS NULL AND id > ? ORDER BY id"
    return _messages(transaction, found, request.chat, request.after)


RETRIED_OVER = 3
"""Maximum number of turns that may have completed since the turn that `/retry` runs again. Running an older
turn would surprise the user. Turns of schedules and retries are not counted."""


@dataclass(frozen=True, slots=True)
class Retriable(Read[Incoming | None]):
    """Return the session's last message whose turn did not complete and was not retried.

    Return None if more than `RETRIED_OVER` later turns have completed.
    """

    chat: str


@steps.of(Retriable)
def retriable(request: Retriable, transaction: Transaction) -> Incoming | None:
    """Return the message that a retry would run, from the current session or the latest separate session."""
    session, _ = session_of(transaction, request.chat)
    (latest,) = transaction.db.execute(
        "SELECT max(number) FROM sessions WHERE chat = ?", (request.chat,)
    ).fetchone()
    found = (
        "messages WHERE chat = ? AND session = ? AND reply IS NOT NULL"
        " AND reason IS NOT NULL AND reason != 'complete' AND retried IS NULL ORDER BY id DESC LIMIT 1"
    )
    either = [
        turn_message
        for number in {session, latest}
        for turn_message in _messages(transaction, found, request.chat, number)
    ]
    last = max(either, key=lambda message: message.id, default=None)
    if last is None:
        return None
    completed = transaction.db.execute(
        "SELECT id FROM messages WHERE chat = ? AND id > ? AND reason = 'complete' AND schedule IS NULL"
        " AND id NOT IN (SELECT retried FROM messages WHERE chat = ? AND retried IS NOT NULL) LIMIT ?",
        (request.chat, last.id, request.chat, RETRIED_OVER + 1),
    ).fetchall()
    return None if len(completed) > RETRIED_OVER else last


@dataclass(frozen=True, slots=True)
class OpenChats(Read[tuple[str, ...]]):
    """Return the chats that have messages without a final reply, optionally only those in `partitions`."""

    partitions: frozenset[int] | None = None


@steps.of(OpenChats)
def open_chats(request: OpenChats, transaction: Transaction) -> tuple[str, ...]:
    """Return the chats that have messages without a final reply."""
    rows = transaction.db.execute(
        "SELECT DISTINCT chat FROM messages WHERE reply IS NULL"
        f"{mine(transaction, only=request.partitions)} ORDER BY chat"
    )
    return tuple(chat for (chat,) in rows)


@dataclass(frozen=True, slots=True)
class NewestOpen(Read[dict[str, int]]):
    """Return the number of the newest open message of each chat; `chats` restricts the search."""

    chats: tuple[str, ...] | None = None


@steps.of(NewestOpen)
def newest_open(request: NewestOpen, transaction: Transaction) -> dict[str, int]:
    """Return the number of the newest open message of each chat."""
    if request.chats == ():
        return {}
    only = "" if request.chats is None else f" AND chat IN ({', '.join('?' * len(request.chats))})"
    return dict(
        transaction.db.execute(
            f"SELECT chat, max(id) FROM messages WHERE reply IS NULL{mine(transaction)}{only} GROUP BY chat",
            request.chats or (),
        ).fetchall()
    )


@dataclass(frozen=True, slots=True)
class Knows(JournalRequest[bool]):
    """Return True if the chat exists: it has a message or a session."""

    chat: str


@steps.of(Knows)
def knows(request: Knows, transaction: Transaction) -> bool:
    """Return True if the chat has a message or a session."""
    found = transaction.db.execute(
        "SELECT EXISTS (SELECT 1 FROM messages WHERE chat = ?)"
        " OR EXISTS (SELECT 1 FROM sessions WHERE chat = ?)",
        (request.chat, request.chat),
    )
    return bool(found.fetchone()[0])


@dataclass(frozen=True, slots=True)
class Count(Read[Figures]):
    """Return figures for the status, such as the number of open messages and the database's size."""


@steps.of(Count)
def count(request: Count, transaction: Transaction) -> Figures:
    """Collect the figures for the status."""
    last, waiting, undelivered = transaction.db.execute(
        "SELECT (SELECT coalesce(max(id), 0) FROM messages),"
        " (SELECT count(*) FROM messages WHERE reply IS NULL),"
        " (SELECT count(*) FROM outbox WHERE delivered IS NULL)"
    ).fetchone()
    return Figures(last, waiting, undelivered, transaction.size())


def _messages(transaction: Transaction, found: str, *values: object) -> tuple[Incoming, ...]:
    """Return the messages selected by a query; `found` is the SQL after FROM."""
    rows = transaction.db.execute(
        "SELECT id, chat, text, language, admin, origin, enclosures, user, unattended, apart, channel,"
        " model, project, coalesce(task, 0), coalesce(schedule, 0), notice, tainted, coalesce(turn, '')"
        f" FROM {found}",
        values,
    )
    return tuple(
        Incoming(
            id=id,
            chat=chat,
            text=text,
            language=language or None,
            admin=bool(admin),
            origin=origin,
            attachments=_attachments(attachments),
            user=user,
            unattended=bool(unattended),
            apart=bool(apart),
            channel=channel,
            model=model,
            project=project,
            task=task,
            schedule=schedule,
            notice=bool(notice),
            tainted=bool(tainted),
            turn=turn,
        )
        for (
            id,
            chat,
            text,
            language,
            admin,
            origin,
            attachments,
            user,
            unattended,
            apart,
            channel,
            model,
            project,
            task,
            schedule,
            notice,
            tainted,
            turn,
        ) in rows
    )


def _attachments(text: str) -> tuple[Attachment, ...]:
    """Load the attachments of a message. Return none if the stored text is damaged.

    The message still gets a reply then.
    """
    try:
        return tuple(Attachment(**one) for one in json.loads(text))
    except (ValueError, TypeError):
        return ()
