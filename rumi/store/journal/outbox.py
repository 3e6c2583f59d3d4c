"""Steps that store final replies and track their delivery."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from rumi.store.journal.history import insert_history, mark_silent
from rumi.store.journal.parked import buttons_in, buttons_json, note_asked
from rumi.store.journal.records import FinalReply, FireOutcome, OutcomeHow, StoredReply
from rumi.store.journal.scopes import of_chat, of_reply
from rumi.store.journal.shown_json import dump_questions, load_questions
from rumi.store.journal.spending import record_notices
from rumi.store.journal.transaction import clean, mine
from rumi.store.steps import Transaction, step


@step(of_chat, owned=True)
def settle(transaction: Transaction, chat: str, reply: FinalReply) -> int:
    """Store the final reply to messages, and the state that depends on it; return its delivery number.

    Everything is stored in one transaction. A message that already has a reply keeps that reply.
    """
    replied = [_reply_of(transaction, message) for message in reply.messages]
    if all(replied):  # each message gets exactly one final reply: drop a second one
        return int(replied[0] or 0)
    session = reply.session or _session_of(transaction, reply.messages[0])
    insert_history(transaction, chat, session, reply.entries)
    if reply.silent and reply.entries:
        schedule, turn = _schedule_of(transaction, reply.messages[0]), reply.entries[-1].turn
        mark_silent(transaction, chat, session, turn, schedule, reply.hides)
    record_notices(transaction, reply.noticed)
    note_asked(transaction, chat, reply.asked)
    if reply.due is not None:
        transaction.db.execute(
            "UPDATE sessions SET due = ?1,"
            # The separate session of one turn has ended already: facts are extracted from it at `due`.
            " learn_after = CASE WHEN ended IS NULL THEN learn_after ELSE ?1 END"
            " WHERE chat = ?2 AND number = ?3",
            (reply.due, chat, session),
        )
    if reply.nano:
        transaction.db.execute(
            "UPDATE sessions SET nano = nano + ? WHERE chat = ? AND number = ?", (reply.nano, chat, session)
        )
    delivery = insert_reply(transaction, chat, reply.text, in_place=reply.in_place)
    if reply.note or reply.questions or reply.silent:
        transaction.db.execute(
            "UPDATE outbox SET note = ?, questions = ?, silent = ? WHERE id = ?",
            (clean(reply.note), dump_questions(reply.questions), int(reply.silent), delivery),
        )
    transaction.db.executemany(
        "UPDATE messages SET reply = ?, reason = ?, session = coalesce(session, nullif(?, 0)),"
        " turn = coalesce(turn, nullif(?, '')) WHERE id = ? AND reply IS NULL",
        [
            (
                *(delivery, None if index else reply.reason, reply.session),
                *("" if index else reply.turn, message),
            )
            for index, message in enumerate(reply.messages)
        ],
    )
    mark_parts(transaction, chat, reply.messages[0], reply.parts)
    if reply.buttons:
        message = (reply.messages[0],)
        found = transaction.db.execute("SELECT buttons FROM messages WHERE id = ?", message).fetchone()
        own = buttons_in(found[0]) if found else ()  # a task's result may bring buttons
        transaction.db.execute(
            "UPDATE messages SET buttons = ? WHERE id = ?", (buttons_json((*own, *reply.buttons)), *message)
        )
    if reply.reason is not None:
        outcome = reply.outcome or (FireOutcome("parked") if reply.asked else None)
        fire_ended(transaction, "messages", reply.messages[0], reply.reason, outcome)
    # No front end shows a silent reply, or one whose messages are all unattended: without this it would wait
    # for ever.
    transaction.db.execute(
        "UPDATE outbox SET delivered = ?1 WHERE id = ?2"
        " AND EXISTS (SELECT 1 FROM messages WHERE reply = ?2)"
        " AND (?3 OR NOT EXISTS (SELECT 1 FROM messages WHERE reply = ?2 AND NOT unattended))",
        (transaction.now(), delivery, reply.silent),
    )
    return delivery


def insert_reply(transaction: Transaction, chat: str, text: str, *, in_place: bool = False) -> int:
    """Insert a reply into the outbox; return its delivery number."""
    (id,) = transaction.db.execute(
        "INSERT INTO outbox (chat, text, created, in_place) VALUES (?, ?, ?, ?) RETURNING id",
        (chat, clean(text), transaction.now(), int(in_place)),
    ).fetchone()
    return int(id)


def mark_parts(transaction: Transaction, chat: str, message: int, parts: Sequence[int]) -> None:
    """Record that the messages `parts` belong to the turn of a message."""
    transaction.db.executemany(
        "UPDATE messages SET part_of = ? WHERE id = ? AND chat = ?",
        [(message, part, chat) for part in parts],
    )


def _reply_of(transaction: Transaction, message: int) -> int | None:
    row = transaction.db.execute("SELECT reply FROM messages WHERE id = ?", (message,)).fetchone()
    return row[0] if row else None


def _schedule_of(transaction: Transaction, message: int) -> int:
    row = transaction.db.execute("SELECT schedule FROM messages WHERE id = ?", (message,)).fetchone()
    return int(row[0] or 0) if row else 0


def _session_of(transaction: Transaction, message: int) -> int:
    row = transaction.db.execute("SELECT session FROM messages WHERE id = ?", (message,)).fetchone()
    return int(row[0] or 0) if row else 0


@step(of_reply)
def mark_acknowledged(transaction: Transaction, delivery: int) -> None:
    """Record that the reader of a reply acknowledged it. Any worker may receive the acknowledgement."""
    mark_delivered.do(transaction, delivery)


@step(of_reply, owned=True)
def mark_delivered(transaction: Transaction, delivery: int) -> None:
    """Record that a reply was delivered."""
    transaction.db.execute(
        "UPDATE outbox SET delivered = ? WHERE id = ? AND delivered IS NULL",
        (transaction.now(), delivery),
    )


@step(of_reply, owned=True)
def mark_part_sent(transaction: Transaction, delivery: int, parts: int) -> None:
    """Record that the first `parts` parts of a reply were sent."""
    transaction.db.execute("UPDATE outbox SET parts = ?1, begun = ?1 WHERE id = ?2", (parts, delivery))


@step(of_reply, owned=True)
def mark_part_begun(transaction: Transaction, delivery: int, begun: int) -> None:
    """Record that the first `begun` parts of a reply may have been sent."""
    transaction.db.execute("UPDATE outbox SET begun = ? WHERE id = ?", (begun, delivery))


@step(of_chat, owned=True)
def mark_undeliverable(transaction: Transaction, chat: str, why: str, delivery: int | None = None) -> None:
    """Record that a chat's undelivered replies cannot be delivered, and the reason `why`.

    If `delivery` is given, this applies only to the reply with that delivery number.
    """
    transaction.db.execute(
        "UPDATE outbox SET delivered = ?, failure = ?"
        " WHERE chat = ? AND delivered IS NULL AND id = coalesce(?, id)",
        (transaction.now(), clean(why), chat, delivery),
    )


@step(reads=True)
def undelivered_chats(transaction: Transaction, partitions: frozenset[int] | None = None) -> tuple[str, ...]:
    """Return the chats with undelivered replies, optionally only those in `partitions`."""
    rows = transaction.db.execute(
        f"SELECT DISTINCT chat FROM outbox WHERE delivered IS NULL"
        f"{mine(transaction, only=partitions)} ORDER BY chat"
    )
    return tuple(chat for (chat,) in rows)


@step(reads=True)
def undelivered_replies(
    transaction: Transaction, chat: str, to: tuple[int, ...] = ()
) -> tuple[StoredReply, ...]:
    """Return the chat's undelivered replies and all replies to the messages in `to`, oldest first."""
    found = (
        "SELECT outbox.id, outbox.text, parts, messages.id, turn, reason, origin, preview,"
        " coalesce(task, 0), coalesce(schedule, 0), coalesce(buttons, '[]'), begun, coalesce(language, ''),"
        " coalesce(part_of, 0), coalesce(messages.text, '') != '', coalesce(event_of, ''),"
        " in_place * coalesce(pressed, 0), outbox.created, delivered, note, questions"
        " FROM outbox LEFT JOIN messages ON reply = outbox.id WHERE outbox.chat = ?1"
    )
    rows = transaction.db.execute(
        f"{found} AND delivered IS NULL ORDER BY outbox.id, messages.id", (chat,)
    ).fetchall()
    if to:
        placeholders = ", ".join("?" * len(to))
        named = f"SELECT reply FROM messages WHERE chat = ?1 AND id IN ({placeholders})"
        more = transaction.db.execute(f"{found} AND outbox.id IN ({named})", (chat, *to))
        rows = sorted({*rows, *more}, key=lambda row: (row[0], row[3] or 0))
    replies: dict[int, StoredReply] = {}
    silent = set[int]()  # replies whose message so far has no text, so that a part with text is answered
    for delivery, text, parts, message, turn, reason, origin, preview, task, schedule, *more_columns in rows:
        buttons_text, begun, language, part_of, speaks, trigger, in_place, *told = more_columns
        created, delivered, note, questions = told
        first = StoredReply(
            *(delivery, (), text),
            parts=parts,
            task=task,
            schedule=schedule,
            trigger=trigger,
            buttons=buttons_in(buttons_text),
            begun=begun,
            language=language or "en",
            replaces=(origin or None) if in_place else None,
            created=created,
            delivered=delivered is not None,
            note=note,
            questions=load_questions(questions),
        )
        reply = replies.get(delivery, first)
        if message is not None:
            if not reply.messages and not speaks:
                silent.add(delivery)
            answers = delivery in silent and speaks and part_of == reply.messages[0]
            if answers:
                silent.discard(delivery)
            reply = replace(
                reply,
                messages=(*reply.messages, message),
                origin=origin if reply.origin is None or answers else reply.origin,
                preview=preview if reply.preview is None else reply.preview,
            )
        if reason is not None:
            reply = replace(reply, turn=turn or f"t{message}", reason=reason)
        replies[delivery] = reply
    return tuple(replies.values())


WELL: Final = frozenset({"complete", "succeeded"})


NEITHER: Final = frozenset({"stopped", "interrupted"})
"""Reasons that count as neither success nor failure: a person stopped the work, or the process ended."""


def fire_ended(
    transaction: Transaction,
    table: Literal["messages", "tasks"],
    id: int,
    how: str,
    outcome: FireOutcome | None = None,
) -> None:
    """Update a schedule's outcome and its count of consecutive failures, if it created the message or task.

    Without an `outcome`, the outcome follows from `how` the work ended.
    """
    if outcome is None:
        ended: OutcomeHow = "said" if how in WELL else "stopped" if how in NEITHER else "failed"
        outcome = FireOutcome(ended, "" if ended == "said" else how)
    well = how in WELL and outcome.how != "failed"
    transaction.db.execute(
        "UPDATE schedules SET outcome = ?3,"
        " failures = CASE WHEN ?4 THEN failures WHEN ?1 THEN 0 ELSE failures + 1 END"
        f" WHERE id = (SELECT schedule FROM {table} WHERE id = ?2)",
        (well, id, outcome_json(outcome, transaction.now()), how in NEITHER),
    )


def outcome_json(outcome: FireOutcome, at: float) -> str:
    """Return an outcome as the JSON that a schedule's row stores."""
    return clean(json.dumps({"at": at, "how": outcome.how, "why": outcome.why}, ensure_ascii=False))
