"""Requests that store final replies, and follow them until a person has them."""

from dataclasses import dataclass, replace

from rumi.store.journal.ended_fires import fire_ended
from rumi.store.journal.history import insert_history
from rumi.store.journal.parked import buttons_in, buttons_json, note_asked
from rumi.store.journal.records import Buttons, HistoryEntry, Reason, StoredReply
from rumi.store.journal.spending import record_notices
from rumi.store.journal.transaction import OwnedWrite, Read, clean, mine, steps
from rumi.store.steps import Transaction


@dataclass(frozen=True, slots=True)
class Settle(OwnedWrite[int]):
    """Store the final reply to messages, and the state that goes with it, in one transaction.

    The first of them is the one that was worked on, and `reason` how that ended. Replies with the
    delivery's number. A message that has its reply already keeps it. `due` moves the session's end; it is
    None where the session has not changed. Without a `session` it is that in which the turn began. `noticed`
    are budgets of which the reply says that they are nearly used up. The reply asks for the parked calls
    `asked`, and has `buttons` besides those that its message came with.
    """

    chat: str
    messages: tuple[int, ...]
    text: str
    reason: Reason | None = None
    session: int = 0
    entries: tuple[HistoryEntry, ...] = ()
    due: float | None = None
    noticed: tuple[str, ...] = ()
    asked: tuple[int, ...] = ()
    buttons: Buttons = ()


@steps.of(Settle)
def settle(request: Settle, transaction: Transaction) -> int:
    """Store the final reply to messages, with the state that goes with it. Return its delivery's number."""
    replied = [_reply_of(transaction, message) for message in request.messages]
    if all(replied):  # exactly one final reply: a second one is dropped
        return int(replied[0] or 0)
    session = request.session or _session_of(transaction, request.messages[0])
    insert_history(transaction, request.chat, session, request.entries)
    record_notices(transaction, request.noticed)
    note_asked(transaction, request.chat, request.asked)
    if request.due is not None:
        transaction.db.execute(
            "UPDATE sessions SET due = ?1,"
            " learn_after = CASE WHEN ended IS NULL THEN learn_after ELSE ?1 END"  # of a turn apart
            " WHERE chat = ?2 AND number = ?3",
            (request.due, request.chat, session),
        )
    delivery = insert_reply(transaction, request.chat, request.text)
    transaction.db.executemany(
        "UPDATE messages SET reply = ?, reason = ?, session = coalesce(session, nullif(?, 0))"
        " WHERE id = ? AND reply IS NULL",
        [
            (delivery, request.reason if index == 0 else None, request.session, message)
            for index, message in enumerate(request.messages)
        ],
    )
    if request.buttons:
        message = (request.messages[0],)
        found = transaction.db.execute("SELECT buttons FROM messages WHERE id = ?", message).fetchone()
        own = buttons_in(found[0]) if found else ()  # a task's result may have come with some
        transaction.db.execute(
            "UPDATE messages SET buttons = ? WHERE id = ?", (buttons_json((*own, *request.buttons)), *message)
        )
    if request.reason is not None:
        fire_ended(transaction, "messages", request.messages[0], request.reason)
    transaction.db.execute(
        "UPDATE outbox SET delivered = ?1 WHERE id = ?2"
        " AND EXISTS (SELECT 1 FROM messages WHERE reply = ?2)"
        " AND NOT EXISTS (SELECT 1 FROM messages WHERE reply = ?2 AND NOT unattended)",
        (transaction.now(), delivery),
    )
    return delivery


def insert_reply(transaction: Transaction, chat: str, text: str) -> int:
    """Put a reply into the outbox; return its delivery's number."""
    (id,) = transaction.db.execute(
        "INSERT INTO outbox (chat, text, created) VALUES (?, ?, ?) RETURNING id",
        (chat, clean(text), transaction.now()),
    ).fetchone()
    return int(id)


def _reply_of(transaction: Transaction, message: int) -> int | None:
    row = transaction.db.execute("SELECT reply FROM messages WHERE id = ?", (message,)).fetchone()
    return row[0] if row else None


def _session_of(transaction: Transaction, message: int) -> int:
    row = transaction.db.execute("SELECT session FROM messages WHERE id = ?", (message,)).fetchone()
    return int(row[0] or 0) if row else 0


@dataclass(frozen=True, slots=True)
class Delivered(OwnedWrite[None]):
    """Note that a person has the reply. `by_reader`: they say so themselves, at any worker."""

    delivery: int
    by_reader: bool = False


@steps.of(Delivered)
def delivered(request: Delivered, transaction: Transaction) -> None:
    """Note that a person has the reply."""
    transaction.db.execute(
        "UPDATE outbox SET delivered = ? WHERE id = ? AND delivered IS NULL",
        (transaction.now(), request.delivery),
    )


@dataclass(frozen=True, slots=True)
class PartSent(OwnedWrite[None]):
    """Note that a person has the first `parts` parts of the reply."""

    delivery: int
    parts: int


@steps.of(PartSent)
def part_sent(request: PartSent, transaction: Transaction) -> None:
    """Note how many parts of the reply a person has."""
    transaction.db.execute("UPDATE outbox SET parts = ? WHERE id = ?", (request.parts, request.delivery))


@dataclass(frozen=True, slots=True)
class Undeliverable(OwnedWrite[None]):
    """Note that the chat's waiting replies, or only the one `delivery`, can reach nobody, and `why`."""

    chat: str
    why: str
    delivery: int | None = None


@steps.of(Undeliverable)
def undeliverable(request: Undeliverable, transaction: Transaction) -> None:
    """Note that nobody will ever have these replies, and why."""
    transaction.db.execute(
        "UPDATE outbox SET delivered = ?, failure = ?"
        " WHERE chat = ? AND delivered IS NULL AND id = coalesce(?, id)",
        (transaction.now(), clean(request.why), request.chat, request.delivery),
    )


@dataclass(frozen=True, slots=True)
class UndeliveredChats(Read[tuple[str, ...]]):
    """Return the chats with replies that no one has yet; only those of some `partitions`, if named."""

    partitions: frozenset[int] | None = None


@steps.of(UndeliveredChats)
def waiting(request: UndeliveredChats, transaction: Transaction) -> tuple[str, ...]:
    """Return the chats with replies that no one has."""
    rows = transaction.db.execute(
        f"SELECT DISTINCT chat FROM outbox WHERE delivered IS NULL"
        f"{mine(transaction, only=request.partitions)} ORDER BY chat"
    )
    return tuple(chat for (chat,) in rows)


@dataclass(frozen=True, slots=True)
class Undelivered(Read[tuple[StoredReply, ...]]):
    """Return the chat's replies that no one has yet, oldest first, and all `to` these messages."""

    chat: str
    to: tuple[int, ...] = ()


@steps.of(Undelivered)
def undelivered(request: Undelivered, transaction: Transaction) -> tuple[StoredReply, ...]:
    """Return the chat's replies that no one has, oldest first, and those to the messages that are named."""
    found = (
        "SELECT outbox.id, outbox.text, parts, messages.id, turn, reason, origin, preview,"
        " coalesce(task, 0), coalesce(schedule, 0), coalesce(buttons, '[]')"
        " FROM outbox LEFT JOIN messages ON reply = outbox.id WHERE outbox.chat = ?1"
    )
    rows = transaction.db.execute(
        f"{found} AND delivered IS NULL ORDER BY outbox.id, messages.id", (request.chat,)
    ).fetchall()
    if request.to:
        marks = ", ".join("?" * len(request.to))
        named = f"SELECT reply FROM messages WHERE chat = ?1 AND id IN ({marks})"
        more = transaction.db.execute(f"{found} AND outbox.id IN ({named})", (request.chat, *request.to))
        rows = sorted({*rows, *more}, key=lambda row: (row[0], row[3] or 0))
    replies: dict[int, StoredReply] = {}
    for delivery, text, parts, message, turn, reason, origin, preview, task, schedule, said in rows:
        buttons = buttons_in(said)
        first = StoredReply(delivery, (), text, parts=parts, task=task, schedule=schedule, buttons=buttons)
        reply = replies.get(delivery, first)
        if message is not None:
            reply = replace(
                reply,
                messages=(*reply.messages, message),
                origin=origin if reply.origin is None else reply.origin,
                preview=preview if reply.preview is None else reply.preview,
            )
        if reason is not None:
            reply = replace(reply, turn=turn or f"t{message}", reason=reason)
        replies[delivery] = reply
    return tuple(replies.values())
