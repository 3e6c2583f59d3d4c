"""Requests that store messages, and find those without a reply."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Final, get_args

from rumi.platform.texts.language import Language
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
"""How long an update's number is remembered: its source keeps updates for half that time, and may begin to
number afresh after a quiet week, so neither "greater than the last" nor "ever seen" would do."""

SEEN_LEAST = 1000
"""So many of the newest are remembered however old they seem: a clock may jump ahead by days."""

MOST_MOVED = 100_000
"""How many moved groups are remembered: more than one bot meets, and few enough that strangers cannot fill
the disk."""

LANGUAGES: Final = get_args(Language)

_OPEN: Final = "messages INDEXED BY messages_open"
"""Where open messages are looked up: few, among a chat's many."""


@dataclass(frozen=True, slots=True)
class Accept(JournalRequest[tuple[Incoming | None, ...] | NotStored]):
    """Store messages before anything is done about them: the whole batch, or nothing of it.

    For each, in order: the message as it is stored, or None if its update was seen within `SEEN_S` or is one
    of the last `SEEN_LEAST` of its source, and then it is not stored again. Of a part of an album, which is
    no message yet, only its update.
    """

    batch: tuple[Incoming, ...]


@steps.of(Accept)
def accept(request: Accept, transaction: Transaction) -> tuple[Incoming | None, ...]:
    """Store a batch, without messages that were seen before."""
    for source in {message.update.source for message in request.batch if message.update is not None}:
        transaction.db.execute(
            "DELETE FROM updates WHERE source = ?1 AND seen < ?2 AND seen <="
            " (SELECT seen FROM updates WHERE source = ?1 ORDER BY seen DESC LIMIT 1 OFFSET ?3)",
            (source, transaction.now() - SEEN_S, SEEN_LEAST),
        )
    return tuple(_accept_new(message, transaction) for message in request.batch)


def _accept_new(message: Incoming, transaction: Transaction) -> Incoming | None:
    if (update := message.update) is not None:
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
    """Store a message of a chat; return it as it is stored."""
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
    """Make one message of each album of which no part has come for `quiet_s`.

    An album without a part that is meant for the assistant is deleted. Return the messages as they are
    stored, and in how many seconds the next album will be quiet; None if no parts are left.
    """

    quiet_s: float


@steps.of(JoinAlbums)
def join_albums(request: JoinAlbums, transaction: Transaction) -> tuple[tuple[Incoming, ...], float | None]:
    """Make messages of the albums that are complete."""
    now, stored, next_s = transaction.now(), list[Incoming](), None
    albums = transaction.db.execute(
        f"SELECT chat, album, max(came) FROM album_parts WHERE TRUE{mine(transaction)}"
        " GROUP BY chat, album ORDER BY max(id)"
    ).fetchall()
    for chat, album, came in albums:
        left_s = came + request.quiet_s - now
        if 0 < left_s <= request.quiet_s:  # more than that: the clock was set back
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
    """Messages from the chat id `new` belong to the chat `old` from now on; the reply is whether they do.

    They do not if `new`, or a topic below it, has messages of its own.
    """

    old: str
    new: str


@steps.of(RecordMove)
def moved(request: RecordMove, transaction: Transaction) -> bool:
    """Note a group's new chat id. Return False if a chat of that id has messages of its own."""
    known = transaction.db.execute(
        "SELECT (SELECT old FROM moved WHERE new = ?1), EXISTS (SELECT 1 FROM messages WHERE chat = ?1"
        " OR (chat > ?1 || '_' AND chat < ?1 || '`'))",
        (request.new,),
    ).fetchone()
    if known[0] is None and not known[1]:
        _note_move(transaction, request.old, request.new)
    return known[0] is not None or not known[1]


def _note_move(transaction: Transaction, old: str, new: str) -> None:
    """Store that the new chat id leads to the old one. Forget the source's numbers of the chat's messages."""
    earlier = transaction.db.execute("SELECT old FROM moved WHERE new = ?", (old,)).fetchone()
    old = earlier[0] if earlier else old
    if old == new:
        return
    noted = transaction.db.execute(
        "INSERT INTO moved (old, new) VALUES (?, ?) ON CONFLICT DO NOTHING", (old, new)
    )
    if noted.rowcount == 0:
        return
    transaction.db.execute(
        "DELETE FROM moved WHERE rowid <= (SELECT max(rowid) FROM moved) - ?", (MOST_MOVED,)
    )
    transaction.db.execute(
        "UPDATE messages SET preview = NULL, origin = 0 WHERE origin IS NOT NULL"
        " AND (chat = ?1 OR (chat > ?1 || '_' AND chat < ?1 || '`'))"
        " AND (reply IS NULL OR reply IN (SELECT id FROM outbox WHERE delivered IS NULL))",
        (old,),
    )


@dataclass(frozen=True, slots=True)
class MovedGroups(Read[tuple[tuple[str, str], ...]]):
    """Return the groups that moved: the id of the chat, and the one that leads to it. Oldest first."""


@steps.of(MovedGroups)
def moves(request: MovedGroups, transaction: Transaction) -> tuple[tuple[str, str], ...]:
    """Return all moves, oldest first."""
    return tuple(transaction.db.execute("SELECT old, new FROM moved ORDER BY rowid").fetchall())


@dataclass(frozen=True, slots=True)
class Begin(OwnedWrite[None]):
    """A message became a turn of a session, which begins with `entries`. `retries` is run again by it."""

    chat: str
    message: int
    turn: str
    session: int
    entries: tuple[HistoryEntry, ...] = ()
    retries: int | None = None


@steps.of(Begin)
def begin(request: Begin, transaction: Transaction) -> None:
    """Note that a message became a turn, and store the turn's first entries."""
    transaction.db.execute(
        "UPDATE messages SET turn = ?, session = ? WHERE id = ?",
        (request.turn, request.session, request.message),
    )
    insert_history(transaction, request.chat, request.session, request.entries)
    if request.retries is not None:
        # The new attempt carries what the old one did, so that it can be run again in its turn.
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
    """The answer to a message grows in what its source calls `preview`; None: it is not there any more.

    Only the sender that noted it knows which of its edits are still under way; another sender deletes it.
    """

    message: int
    preview: int | None


@steps.of(Previewed)
def previewed(request: Previewed, transaction: Transaction) -> None:
    """Note the message in which an answer grows."""
    transaction.db.execute("UPDATE messages SET preview = ? WHERE id = ?", (request.preview, request.message))


@dataclass(frozen=True, slots=True)
class Load(Read[ChatRecord]):
    """Return all that is known of a chat. `limit` is how many of the latest history entries are wanted.

    With `max_tokens` no more of them than take about so many in a prompt, but the latest in any case.
    """

    chat: str
    limit: int
    max_tokens: int | None = None


@steps.of(Load)
def load(request: Load, transaction: Transaction) -> ChatRecord:
    """Return all that is known of a chat."""
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
    """Return the chat's messages that lack a final reply, of those numbered above `after`, in their order."""

    chat: str
    after: int


@steps.of(OpenMessages)
def open_messages(request: OpenMessages, transaction: Transaction) -> tuple[Incoming, ...]:
    """Return the chat's messages that lack a final reply."""
    found = f"{_OPEN} WHERE chat = ? AND reply IS NULL AND id > ? ORDER BY id"
    return _messages(transaction, found, request.chat, request.after)


RETRIED_OVER = 3
"""How many turns may have completed since the one that `/retry` runs again. To run an older one would
surprise its user. Turns of schedules and retries do not count.
"""


@dataclass(frozen=True, slots=True)
class Retriable(Read[Incoming | None]):
    """Return the last message of this session that became a turn, did not complete, and was not run again.

    None if more than `RETRIED_OVER` turns have completed since.
    """

    chat: str


@steps.of(Retriable)
def retriable(request: Retriable, transaction: Transaction) -> Incoming | None:
    """Return the message that a retry would run: of this session, or of the latest turn apart from it."""
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
    """Return the chats with messages that lack a final reply; only those of some `partitions`, if named."""

    partitions: frozenset[int] | None = None


@steps.of(OpenChats)
def open_chats(request: OpenChats, transaction: Transaction) -> tuple[str, ...]:
    """Return the chats with messages that lack a final reply."""
    rows = transaction.db.execute(
        "SELECT DISTINCT chat FROM messages WHERE reply IS NULL"
        f"{mine(transaction, only=request.partitions)} ORDER BY chat"
    )
    return tuple(chat for (chat,) in rows)


@dataclass(frozen=True, slots=True)
class NewestOpen(Read[dict[str, int]]):
    """Return the same chats, each with the number of its newest such message. Only of `chats`, if named."""

    chats: tuple[str, ...] | None = None


@steps.of(NewestOpen)
def newest_open(request: NewestOpen, transaction: Transaction) -> dict[str, int]:
    """Return the newest open message of each chat."""
    if request.chats == ():
        return {}
    marks = "" if request.chats is None else f" AND chat IN ({', '.join('?' * len(request.chats))})"
    return dict(
        transaction.db.execute(
            f"SELECT chat, max(id) FROM messages WHERE reply IS NULL{mine(transaction)}{marks} GROUP BY chat",
            request.chats or (),
        ).fetchall()
    )


@dataclass(frozen=True, slots=True)
class Knows(JournalRequest[bool]):
    """Ask if anything was ever said in the chat."""

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
    """Return sizes for the status."""


@steps.of(Count)
def count(request: Count, transaction: Transaction) -> Figures:
    """Return sizes for the status."""
    last, waiting, undelivered = transaction.db.execute(
        "SELECT (SELECT coalesce(max(id), 0) FROM messages),"
        " (SELECT count(*) FROM messages WHERE reply IS NULL),"
        " (SELECT count(*) FROM outbox WHERE delivered IS NULL)"
    ).fetchone()
    return Figures(last, waiting, undelivered, transaction.size())


def _messages(transaction: Transaction, found: str, *values: object) -> tuple[Incoming, ...]:
    """Return the messages that a query finds; `found` is its text after FROM."""
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
            language=language if language in LANGUAGES else None,
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
    """Return what came with a message; nothing if a disk has spoilt it: the message still gets a reply."""
    try:
        return tuple(Attachment(**one) for one in json.loads(text))
    except (ValueError, TypeError):
        return ()
