"""Steps that store messages, and find messages without a reply."""

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Final, get_args

from rumi.store.journal.albums import insert_part, part_of
from rumi.store.journal.history import (
    entries_of_turn,
    history_of,
    insert_history,
    nano_of,
    session_of,
    taint_of,
)
from rumi.store.journal.members import note_member
from rumi.store.journal.outbox import insert_reply, mark_parts
from rumi.store.journal.parked import buttons_json, in_words, load_parked
from rumi.store.journal.records import (
    Attachment,
    BrokenTurn,
    ChatRecord,
    CutOff,
    Figures,
    HistoryEntry,
    Incoming,
    NotStored,
    joined,
)
from rumi.store.journal.scopes import of_chat, of_message
from rumi.store.journal.transaction import clean, mine
from rumi.store.journal.undo import find_undo
from rumi.store.journal.unreachable import note_return
from rumi.store.steps import Transaction, step

SEEN_S = 48 * 3600.0
"""Retention of update numbers, in seconds. A source may repeat an update for half that time, and may restart
its numbering after a week without updates. So comparing with the last number would be wrong, and so would
storing the numbers for ever."""

SEEN_LEAST = 1000
"""Number of the newest updates that are remembered regardless of their age: a clock may jump ahead by
days."""

CORRECTED_OVER = 200
"""Number of a chat's latest messages in which a correction looks for the message that it corrects."""

MOST_MOVED = 100_000
"""Maximum number of moved groups that are remembered: more than a bot ever sees, but few enough that
strangers cannot fill the disk."""


_OPEN: Final = "messages INDEXED BY messages_open"
"""The table `messages` with its partial index of open messages. Few of a chat's messages are open."""


def of_batch(transaction: Transaction, batch: tuple[Incoming, ...]) -> Iterable[str]:
    """Return the chats of the messages."""
    return [message.chat for message in batch]


@step(of_batch)
def accept_messages(
    transaction: Transaction, batch: tuple[Incoming, ...]
) -> tuple[Incoming | None, ...] | NotStored:
    """Store messages before they are processed: the whole batch or nothing.

    The reply has one item for each message, in order: the stored message, or None. It is None if the message
    is not stored again, because its update was seen in the last `SEEN_S` seconds or is one of the last
    `SEEN_LEAST` updates of its source. For a part of an album, which is not a message yet, the item has only
    the update. The journal replies `NotStored` instead while it cannot write.
    """
    for source in {message.update.source for message in batch if message.update is not None}:
        transaction.db.execute(
            "DELETE FROM updates WHERE source = ?1 AND seen < ?2 AND seen <="
            " (SELECT seen FROM updates WHERE source = ?1 ORDER BY seen DESC LIMIT 1 OFFSET ?3)",
            (source, transaction.now() - SEEN_S, SEEN_LEAST),
        )
    return tuple(accept_new(message, transaction) for message in batch)


def accept_new(message: Incoming, transaction: Transaction) -> Incoming | None:
    """Store a message, unless its update is known, and return it as `accept_messages` does."""
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
    if message.author and message.user is not None:
        note_member(transaction, message.chat, message.user, message.author)
    if message.corrects:
        return _correct(message, transaction) or Incoming(message.update)
    if message.album:
        insert_part(message, transaction)
        return Incoming(message.update)
    if not message.chat:
        return message
    stored = insert_message(in_words(message, transaction), transaction)
    if update is not None:
        transaction.db.execute(
            "UPDATE updates SET message = ? WHERE source = ? AND number = ?",
            (stored.id, update.source, update.number),
        )
    return stored


@step(reads=True)
def message_of_update(transaction: Transaction, source: str, number: int) -> int:
    """Return the number of the message that an update became; 0 if it became none."""
    found = transaction.db.execute(
        "SELECT message FROM updates WHERE source = ? AND number = ?", (source, number)
    ).fetchone()
    return (found[0] or 0) if found else 0


def _correct(message: Incoming, transaction: Transaction) -> Incoming | None:
    """Store the new text of a message, and the correction as a message, which shares the reply.

    Return None, and store nothing, if the text is the same, or if the message is unknown, or is answered and
    neither the chat's last message nor a part of its last turn. A correction to a command replaces nothing.
    """
    found = transaction.db.execute(
        "SELECT id, text, reply, coalesce(part_of, id) FROM"
        " (SELECT * FROM messages WHERE chat = ?1 ORDER BY id DESC LIMIT ?2) AS latest"
        " WHERE origin = ?3 AND (user = ?4 OR user IS NULL AND ?4 IS NULL) AND corrects = 0"
        " AND task IS NULL AND schedule IS NULL ORDER BY id DESC LIMIT 1",
        (message.chat, CORRECTED_OVER, message.origin, message.user),
    ).fetchone()
    text = clean(message.text)
    if found is None or found[1] == text:
        return None
    corrected, _, reply, first = found
    if reply is None:
        if not text.lstrip().startswith("/"):
            transaction.db.execute("UPDATE messages SET text = ? WHERE id = ?", (text, corrected))
    else:
        last = transaction.db.execute(
            # A command that asked a question has a turn, but no session.
            "SELECT max(id), max(CASE WHEN turn IS NOT NULL AND session IS NOT NULL THEN id END)"
            " FROM messages WHERE chat = ?",
            (message.chat,),
        ).fetchone()
        if corrected != last[0] and first != last[1]:
            return None
    return insert_message(replace(message, attachments=(), corrected=corrected), transaction)


def insert_message(message: Incoming, transaction: Transaction) -> Incoming:
    """Store a message of a chat; return it as stored."""
    reply = 0 if message.answer is None else insert_reply(transaction, message.chat, message.answer)
    (before,) = transaction.db.execute(
        f"SELECT coalesce(max(id), 0) FROM {_OPEN} WHERE chat = ? AND reply IS NULL", (message.chat,)
    ).fetchone()
    received = transaction.now()
    if not (message.away or message.task or message.notice or message.unattended):
        note_return(transaction, message.chat)
    (id,) = transaction.db.execute(
        "INSERT INTO messages"
        " (chat, text, received, language, admin, origin, enclosures, user, unattended, apart, channel,"
        " model, project, task, schedule, notice, tainted, buttons, sent, corrects, event_of, pressed,"
        " branches, reply)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (
            message.chat,
            clean(message.text),
            received,
            message.language or "",
            message.admin,
            message.origin,
            _enclosures(message.attachments),
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
            message.sent,
            message.corrected,
            clean(message.trigger),
            int(bool(message.button)),
            message.branches,
            reply or None,
        ),
    ).fetchone()
    transaction.touched.add(message.chat)
    return replace(message, id=id, before=before, reply=reply, received=received)


def _of_albums(transaction: Transaction, quiet_s: float) -> Iterable[str]:
    rows = transaction.db.execute(f"SELECT DISTINCT chat FROM album_parts WHERE TRUE{mine(transaction)}")
    return [str(chat) for (chat,) in rows]


@step(_of_albums, owned=True)
def join_albums(transaction: Transaction, quiet_s: float) -> tuple[tuple[Incoming, ...], float | None]:
    """Join each album that has received no part for `quiet_s` seconds into one message.

    An album is deleted if none of its parts is addressed to the assistant. Return the stored messages, and
    the seconds until the next album is complete. The seconds are None if no parts are left.
    """
    now, stored, next_s = transaction.now(), list[Incoming](), None
    albums = transaction.db.execute(
        f"SELECT chat, album, max(came) FROM album_parts WHERE TRUE{mine(transaction)}"
        " GROUP BY chat, album ORDER BY max(id)"
    ).fetchall()
    for chat, album, came in albums:
        left_s = came + quiet_s - now
        if 0 < left_s <= quiet_s:  # a larger value means that the clock was set back: do not wait
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


@step(shared=True)
def record_move(transaction: Transaction, old: str, new: str) -> bool:
    """Map the `new` chat id of a moved group to its `old` one; return True if they are mapped.

    Return False, and change nothing, if `new` or one of its topics already has messages.
    """
    # Topics of a group are its id, `_` and a number. "`" is the character after "_": the range has only them.
    known = transaction.db.execute(
        "SELECT (SELECT old FROM moved WHERE new = ?1), EXISTS (SELECT 1 FROM messages WHERE chat = ?1"
        " OR (chat > ?1 || '_' AND chat < ?1 || '`'))",
        (new,),
    ).fetchone()
    if known[0] is None and not known[1]:
        _note_move(transaction, old, new)
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


@step(reads=True)
def moved_groups(transaction: Transaction) -> tuple[tuple[str, str], ...]:
    """Return the moved groups, oldest first: the old chat id and the new chat id of each group."""
    return tuple(transaction.db.execute("SELECT old, new FROM moved ORDER BY rowid").fetchall())


@step(of_chat, owned=True)
def begin_turn(
    transaction: Transaction,
    chat: str,
    message: int,
    turn: str,
    session: int,
    entries: tuple[HistoryEntry, ...] = (),
    retries: int | None = None,
    parts: tuple[int, ...] = (),
) -> None:
    """Record that a message started a turn, and store the first entries of the turn.

    `parts` are the numbers of the messages that are parts of this one. If the turn is a retry, `retries` is
    the number of the message that it retries.
    """
    transaction.db.execute(
        "UPDATE messages SET turn = ?, session = ? WHERE id = ?",
        (turn, session, message),
    )
    mark_parts(transaction, chat, message, parts)
    insert_history(transaction, chat, session, entries)
    if retries is not None:
        # The retry gets the content of the retried message, so that the retry itself can be retried.
        for retried in _messages(transaction, "messages WHERE chat = ? AND id = ?", chat, retries):
            whole = _whole(transaction, retried)
            transaction.db.execute(
                "UPDATE messages SET text = ?, enclosures = ? WHERE id = ?",
                (clean(whole.text), _enclosures(whole.attachments), message),
            )
        transaction.db.execute("UPDATE messages SET retried = ? WHERE id = ?", (message, retries))


@step(of_chat, owned=True)
def extend_turn(
    transaction: Transaction,
    chat: str,
    message: int,
    turn: str,
    session: int,
    entries: tuple[HistoryEntry, ...],
    parts: tuple[int, ...],
    afresh: bool = False,
) -> None:
    """Record that more messages are parts of a running turn, and store the history entries about them.

    With `afresh`, the turn has done nothing yet, and the entries replace the turn's history.
    """
    if afresh:
        transaction.db.execute(
            "DELETE FROM history WHERE chat = ? AND session = ? AND turn = ?", (chat, session, turn)
        )
    mark_parts(transaction, chat, message, parts)
    insert_history(transaction, chat, session, entries)


@step(of_chat, owned=True)
def resume_turn(transaction: Transaction, chat: str, message: int) -> BrokenTurn:
    """Count that a message's turn is resumed; return what is stored of the turn.

    The count is stored before the turn runs, so that a turn that kills the process is not resumed for ever.
    """
    session, turn, resumed, asking, preview = transaction.db.execute(
        "UPDATE messages SET resumed = resumed + 1 WHERE id = ?"
        " RETURNING coalesce(session, 0), coalesce(turn, ''), resumed, asking, preview",
        (message,),
    ).fetchone()
    entries = entries_of_turn(transaction, chat, session, turn)
    ((at,),) = transaction.db.execute(
        "SELECT coalesce(max(created), 0) FROM history WHERE chat = ? AND session = ? AND turn = ?",
        (chat, session, turn),
    )
    return BrokenTurn(session, entries, resumed, asking, preview, at)


@step(of_chat, owned=True)
def note_asking(transaction: Transaction, chat: str, message: int, call: str) -> None:
    """Record which call of a message's turn waits for a person's yes; `call` is empty after a yes.

    A call that still waits when the process ends has had no effect.
    """
    transaction.db.execute("UPDATE messages SET asking = ? WHERE id = ?", (clean(call), message))


@step(of_message, owned=True)
def record_preview(transaction: Transaction, message: int, preview: int | None) -> None:
    """Record a preview: the message at the source that shows an answer while it is being written.

    The preview is recorded by its number at the source; None means that it was deleted.

    Only the sender that recorded a preview knows which edits of the preview are in progress. After a restart,
    a new sender deletes the preview.
    """
    transaction.db.execute("UPDATE messages SET preview = ? WHERE id = ?", (preview, message))


@step(of_chat, reads=True)
def load_chat(transaction: Transaction, chat: str, limit: int, max_tokens: int | None = None) -> ChatRecord:
    """Return the stored state of a chat, with at most the latest `limit` history entries.

    With `max_tokens`, only entries with about that many tokens are returned, but always the latest entry.
    """
    session, due = session_of(transaction, chat)
    summary, history = history_of(transaction, chat, session, limit, max_tokens)
    tainted_session, tainted_files = taint_of(transaction, chat, session)
    return ChatRecord(
        session=session,
        due=due,
        history=history,
        open=open_messages.do(transaction, chat, 0),
        tainted=tainted_session,
        files_tainted=tainted_files,
        summary=summary,
        parked=load_parked.do(transaction, chat),
        undo=find_undo.do(transaction, chat),
        nano=nano_of(transaction, chat, session),
    )


@step(of_chat, reads=True)
def find_waiting(transaction: Transaction, chat: str, message: int) -> Incoming | None:
    """Return a message, with its parts, that has neither a turn nor a reply; None if there is none."""
    found = transaction.db.execute(
        "SELECT 1 FROM messages WHERE chat = ? AND id = ? AND turn IS NULL AND reply IS NULL", (chat, message)
    ).fetchone()
    return None if found is None else whole_message(transaction, chat, message)


@step(reads=True)
def open_messages(transaction: Transaction, chat: str, after: int) -> tuple[Incoming, ...]:
    """Return the chat's messages that have no final reply and a number higher than `after`, in order."""
    found = f"{_OPEN} WHERE chat = ? AND reply IS NULL AND id > ? ORDER BY id"
    return _messages(transaction, found, chat, after)


CUT_OFF: Final = get_args(CutOff)

RETRIED_OVER = 3
"""Maximum number of turns that may have completed since the turn that `/retry` runs again. Running an older
turn would surprise the user. Turns of schedules, triggers and retries are not counted."""


@step(of_chat, reads=True)
def find_retriable(transaction: Transaction, chat: str) -> Incoming | None:
    """Return the session's last message whose turn did not complete and was not retried, with its parts.

    Return None if more than `RETRIED_OVER` later turns have completed.
    """
    session, _ = session_of(transaction, chat)
    (latest,) = transaction.db.execute("SELECT max(number) FROM sessions WHERE chat = ?", (chat,)).fetchone()
    # The latest session may be that of a turn with a separate session, or one that was left for another.
    found = (
        "messages WHERE chat = ? AND session = ? AND (apart OR session = ?) AND reply IS NOT NULL"
        " AND reason IS NOT NULL AND reason != 'complete' AND retried IS NULL ORDER BY id DESC LIMIT 1"
    )
    either = [
        turn_message
        for number in {session, latest}
        for turn_message in _messages(transaction, found, chat, number, session)
    ]
    last = max(either, key=lambda message: message.id, default=None)
    if last is None:
        return None
    completed = transaction.db.execute(
        "SELECT id FROM messages WHERE chat = ? AND id > ? AND reason = 'complete' AND schedule IS NULL"
        " AND event_of = ''"
        " AND id NOT IN (SELECT retried FROM messages WHERE chat = ? AND retried IS NOT NULL) LIMIT ?",
        (chat, last.id, chat, RETRIED_OVER + 1),
    ).fetchall()
    return None if len(completed) > RETRIED_OVER else _whole(transaction, last)


@step(of_chat, reads=True)
def find_cut_off(transaction: Transaction, chat: str) -> Incoming | None:
    """Return the message, with its parts, of the session's last turn, if a limit ended it; otherwise None."""
    session, _ = session_of(transaction, chat)
    found = (
        "messages WHERE chat = ? AND id = (SELECT max(id) FROM messages WHERE chat = ? AND session = ?"
        " AND turn IS NOT NULL AND reason IS NOT NULL)"
        f" AND reason IN ({', '.join('?' * len(CUT_OFF))})"
    )
    last = next(iter(_messages(transaction, found, chat, chat, session, *CUT_OFF)), None)
    return None if last is None else _whole(transaction, last)


def whole_message(transaction: Transaction, chat: str, message: int) -> Incoming | None:
    """Return a message of a chat joined with the messages that are parts of it; None if it does not exist."""
    first = next(iter(_messages(transaction, "messages WHERE chat = ? AND id = ?", chat, message)), None)
    return None if first is None else _whole(transaction, first)


def _whole(transaction: Transaction, first: Incoming) -> Incoming:
    """Return a message joined with the messages that are parts of it."""
    found = "messages WHERE chat = ? AND id > ? AND part_of = ? ORDER BY id"
    return joined((first, *_messages(transaction, found, first.chat, first.id, first.id)))


@step(of_chat, reads=True)
def last_origin(transaction: Transaction, chat: str, before: int) -> int:
    """Return the source's number of the chat's last message before the message `before`; 0 if unknown."""
    found = transaction.db.execute(
        "SELECT origin FROM messages WHERE chat = ? AND id < ? AND origin IS NOT NULL AND corrects = 0"
        " ORDER BY id DESC LIMIT 1",
        (chat, before),
    ).fetchone()
    return 0 if found is None else int(found[0])


@step(reads=True)
def open_chats(transaction: Transaction, partitions: frozenset[int] | None = None) -> tuple[str, ...]:
    """Return the chats that have messages without a final reply, optionally only those in `partitions`."""
    rows = transaction.db.execute(
        "SELECT DISTINCT chat FROM messages WHERE reply IS NULL"
        f"{mine(transaction, only=partitions)} ORDER BY chat"
    )
    return tuple(chat for (chat,) in rows)


@step(reads=True)
def newest_open(transaction: Transaction, chats: tuple[str, ...] | None = None) -> dict[str, int]:
    """Return the number of the newest open message of each chat; `chats` restricts the search."""
    if chats == ():
        return {}
    only = "" if chats is None else f" AND chat IN ({', '.join('?' * len(chats))})"
    return dict(
        transaction.db.execute(
            f"SELECT chat, max(id) FROM messages WHERE reply IS NULL{mine(transaction)}{only} GROUP BY chat",
            chats or (),
        ).fetchall()
    )


@step(of_chat)
def knows_chat(transaction: Transaction, chat: str) -> bool:
    """Return True if the chat exists: it has a message or a session."""
    found = transaction.db.execute(
        "SELECT EXISTS (SELECT 1 FROM messages WHERE chat = ?)"
        " OR EXISTS (SELECT 1 FROM sessions WHERE chat = ?)",
        (chat, chat),
    )
    return bool(found.fetchone()[0])


@step(reads=True)
def count_messages(transaction: Transaction) -> Figures:
    """Return figures for the status, such as the number of open messages and the database's size."""
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
        " model, project, coalesce(task, 0), coalesce(schedule, 0), notice, tainted, coalesce(turn, ''),"
        " sent, received, coalesce(part_of, 0), resumed, corrects, event_of, branches"
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
            attachments=load_attachments(attachments),
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
            sent=sent,
            received=received,
            part_of=part_of,
            resumed=resumed,
            corrected=corrected,
            trigger=trigger,
            branches=branches,
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
            sent,
            received,
            part_of,
            resumed,
            corrected,
            trigger,
            branches,
        ) in rows
    )


def _enclosures(attachments: tuple[Attachment, ...]) -> str:
    """Return attachments as the text that `load_attachments` loads."""
    return clean(json.dumps([asdict(one) for one in attachments]))


def load_attachments(text: str) -> tuple[Attachment, ...]:
    """Load the attachments of a message. Return none if the stored text is damaged.

    The message still gets a reply then.
    """
    try:
        return tuple(Attachment(**one) for one in json.loads(text))
    except (ValueError, TypeError):
        return ()
