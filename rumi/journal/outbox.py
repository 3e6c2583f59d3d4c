"""Steps that store final replies, and follow them until a person has them."""

from dataclasses import replace

from rumi.journal.desk import Desk, clean, do
from rumi.journal.history import insert_history
from rumi.journal.messages import Delivered, PartSent, Settle, Undeliverable, Undelivered, Waiting
from rumi.journal.records import StoredReply


@do.register
def settle(request: Settle, desk: Desk) -> int:
    """The final reply to messages, with the state that goes with it."""
    replied = [_reply_of(desk, message) for message in request.messages]
    if all(replied):  # exactly one final reply: a second one is dropped
        return int(replied[0] or 0)
    insert_history(desk, request.chat, request.session, request.entries)
    if request.due is not None:
        desk.db.execute(
            "UPDATE sessions SET due = ? WHERE chat = ? AND number = ?",
            (request.due, request.chat, request.session),
        )
    delivery = insert_reply(desk, request.chat, request.text)
    desk.db.executemany(
        "UPDATE messages SET reply = ?, reason = ?, session = coalesce(session, nullif(?, 0))"
        " WHERE id = ? AND reply IS NULL",
        [
            (delivery, request.reason if place == 0 else None, request.session, message)
            for place, message in enumerate(request.messages)
        ],
    )
    desk.db.execute(
        "UPDATE outbox SET delivered = ?1 WHERE id = ?2"
        " AND EXISTS (SELECT 1 FROM messages WHERE reply = ?2)"
        " AND NOT EXISTS (SELECT 1 FROM messages WHERE reply = ?2 AND NOT unattended)",
        (desk.now(), delivery),
    )
    return delivery


def insert_reply(desk: Desk, chat: str, text: str) -> int:
    """Put a reply into the outbox; its delivery's number."""
    cursor = desk.db.execute(
        "INSERT INTO outbox (chat, text, created) VALUES (?, ?, ?)", (chat, clean(text), desk.now())
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _reply_of(desk: Desk, message: int) -> int | None:
    row = desk.db.execute("SELECT reply FROM messages WHERE id = ?", (message,)).fetchone()
    return row[0] if row else None


@do.register
def delivered(request: Delivered, desk: Desk) -> None:
    """A person has the reply."""
    desk.db.execute(
        "UPDATE outbox SET delivered = ? WHERE id = ? AND delivered IS NULL", (desk.now(), request.delivery)
    )


@do.register
def part_sent(request: PartSent, desk: Desk) -> None:
    """A person has a part of the reply."""
    desk.db.execute("UPDATE outbox SET parts = ? WHERE id = ?", (request.parts, request.delivery))


@do.register
def undeliverable(request: Undeliverable, desk: Desk) -> None:
    """Nobody will ever have these replies."""
    desk.db.execute(
        "UPDATE outbox SET delivered = ?, failure = ?"
        " WHERE chat = ? AND delivered IS NULL AND id = coalesce(?, id)",
        (desk.now(), clean(request.why), request.chat, request.delivery),
    )


@do.register
def waiting(request: Waiting, desk: Desk) -> tuple[str, ...]:
    """The chats with replies that no one has."""
    rows = desk.db.execute("SELECT DISTINCT chat FROM outbox WHERE delivered IS NULL ORDER BY chat")
    return tuple(chat for (chat,) in rows)


@do.register
def undelivered(request: Undelivered, desk: Desk) -> tuple[StoredReply, ...]:
    """The chat's replies that no one has."""
    rows = desk.db.execute(
        "SELECT outbox.id, outbox.text, parts, messages.id, turn, reason, origin, preview"
        " FROM outbox LEFT JOIN messages ON reply = outbox.id"
        " WHERE outbox.chat = ? AND delivered IS NULL ORDER BY outbox.id, messages.id",
        (request.chat,),
    )
    replies: dict[int, StoredReply] = {}
    for delivery, text, parts, message, turn, reason, origin, preview in rows:
        reply = replies.get(delivery, StoredReply(delivery, (), text, parts=parts))
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
