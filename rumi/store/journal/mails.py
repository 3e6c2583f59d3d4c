"""Steps about mails as a channel: each accepted mail is one message, and each reply is one mail.

The envelope of a received mail, which its answer needs, is a row of `effects` that is done from the start. So
it is deleted with its chat, and after the retention of messages.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

from rumi.store.journal.deliveries import HOUR_S, Taken
from rumi.store.journal.effects import Effect
from rumi.store.journal.inbox import insert_message
from rumi.store.journal.outbox import mark_delivered, mark_undeliverable
from rumi.store.journal.parked import buttons_in
from rumi.store.journal.records import Incoming, NotStored
from rumi.store.journal.scopes import of_chat
from rumi.store.journal.transaction import clean
from rumi.store.steps import Transaction, step

RECEIVED: Final = "mail_received"
REPLY: Final = "mail_reply"
"""The kinds of effects: the envelope of a received mail, and a reply or a file that is sent as a mail."""

TOLD: Final = "told"
"""The note of an effect with an unknown outcome that the chat's person was told about."""

MOST_REFERENCES: Final = 50


@dataclass(frozen=True, slots=True)
class Envelope:
    """What an answer to a mail needs: the mail's sender, subject and Message-ID, and the ids before it."""

    to: str
    subject: str
    message_id: str
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReceivedMail:
    """A mail of a person, ready to be stored.

    `owner` is the owner of the message's chat. `marks` identify the mail: its Message-ID, and the digests of
    its signatures. A mail is known if one of them is known.
    """

    message: Incoming
    owner: str
    marks: tuple[str, ...]
    envelope: Envelope


@step(reads=True)
def chat_of_mails(transaction: Transaction, owner: str, message_ids: tuple[str, ...]) -> str:
    """Return the chat of the last of these mails that its `owner` wrote; empty if none is known."""
    for id in reversed(message_ids[-MOST_REFERENCES:]):
        found = transaction.db.execute(
            "SELECT chat FROM deliveries JOIN messages ON messages.id = deliveries.message"
            " WHERE source = ? AND delivery = ?",
            (clean(owner), clean(id)),
        ).fetchone()
        if found is not None:
            return str(found[0])
    return ""


def _of_mail(transaction: Transaction, mail: ReceivedMail) -> Iterable[str]:
    return (mail.message.chat,)


@step(_of_mail)
def accept_mail(transaction: Transaction, mail: ReceivedMail, most_per_hour: int) -> Taken | NotStored:
    """Store a mail as a message, with its marks and its envelope: all or nothing.

    A mail with a known mark is not stored again. If the owner sent `most_per_hour` mails in the last hour,
    nothing is stored. The journal replies `NotStored` instead while it cannot write.
    """
    source, now, db = clean(mail.owner), transaction.now(), transaction.db
    marks = [clean(mark) for mark in mail.marks]
    for mark in marks:
        known = db.execute(
            "SELECT coalesce(message, 0) FROM deliveries WHERE source = ? AND delivery = ?", (source, mark)
        ).fetchone()
        if known is not None:
            return Taken(number=known[0], repeated=True)
    taken, oldest = db.execute(
        "SELECT count(DISTINCT message), coalesce(min(received), 0) FROM deliveries"
        " WHERE received > ? AND received <= ? AND source = ?",
        (now - HOUR_S, now, source),
    ).fetchone()
    if taken >= most_per_hour:
        return Taken(again_s=max(1.0, oldest + HOUR_S - now))
    stored = insert_message(mail.message, transaction)
    db.executemany(
        "INSERT INTO deliveries (source, delivery, received, message) VALUES (?, ?, ?, ?)",
        [(source, mark, now, stored.id) for mark in dict.fromkeys(marks)],
    )
    db.execute(
        "INSERT INTO effects (chat, turn, key, kind, what, state, created, changed)"
        " VALUES (?, ?, ?, ?, ?, 'done', ?, ?)",
        (
            *(stored.chat, f"mail:{stored.id}", RECEIVED, RECEIVED),
            *(clean(json.dumps(asdict(mail.envelope), ensure_ascii=False)), now, now),
        ),
    )
    return Taken(stored, stored.id)


@step(reads=True)
def envelope_of(transaction: Transaction, chat: str, messages: tuple[int, ...] = ()) -> Envelope | None:
    """Return the envelope of the first of these messages that is a mail, or else of the chat's last one."""
    rows = transaction.db.execute(
        "SELECT turn, what FROM effects WHERE chat = ? AND kind = ? ORDER BY id DESC", (chat, RECEIVED)
    ).fetchall()
    asked = {f"mail:{message}" for message in messages}
    found = next((what for turn, what in reversed(rows) if turn in asked), rows[0][1] if rows else None)
    if found is None:
        return None
    fields = json.loads(found)
    return Envelope(fields["to"], fields["subject"], fields["message_id"], tuple(fields["references"]))


@step(of_chat, owned=True)
def reserve_mail(transaction: Transaction, chat: str, turn: str, message_id: str, what: str) -> Effect | None:
    """Store a mail before it is sent; `turn` is the reply or the file that it brings.

    Return None if it may be sent. Otherwise it was sent, or nobody knows, and the earlier effect is returned,
    whose key is the Message-ID that was used then. Ids are not predictable, so that nobody can invent reports
    about mails, and each attempt has one of its own.
    """
    now = transaction.now()
    row = transaction.db.execute(
        "SELECT turn, key, kind, what, state, note, created FROM effects WHERE turn = ? AND chat = ?",
        (turn, chat),
    ).fetchone()
    if row is not None and row[4] in ("handed_over", "done"):
        return Effect(*row)
    transaction.db.execute("DELETE FROM effects WHERE turn = ? AND chat = ?", (turn, chat))
    transaction.db.execute(
        "INSERT INTO effects (chat, turn, key, kind, what, state, created, changed)"
        " VALUES (?, ?, ?, ?, ?, 'reserved', ?, ?)",
        (chat, turn, message_id, REPLY, clean(what), now, now),
    )
    return None


@step(reads=True)
def mails_named(transaction: Transaction, message_ids: tuple[str, ...]) -> tuple[Effect, ...]:
    """Return the sent mails that have these Message-IDs, each with its chat in `note`."""
    if not (asked := tuple(clean(id) for id in message_ids[-MOST_REFERENCES:])):
        return ()
    places = ", ".join("?" * len(asked))
    rows = transaction.db.execute(
        "SELECT turn, key, kind, what, state, chat, created FROM effects"
        f" WHERE kind = ? AND key IN ({places})",
        (REPLY, *asked),
    )
    return tuple(Effect(*row) for row in rows)


@step(of_chat, owned=True)
def settle_mail(transaction: Transaction, chat: str, turn: str, delivery: int, why: str = "") -> None:
    """Record that the mail of `turn` was sent; with `why`, that nobody can know whether it was.

    `delivery` is the number of the reply that the mail brings, 0 for a mail with a file.
    """
    if not why:
        transaction.db.execute(
            "UPDATE effects SET state = 'done', changed = ? WHERE chat = ? AND turn = ?",
            (transaction.now(), chat, turn),
        )
    if delivery and why:
        mark_undeliverable.do(transaction, chat, why, delivery)
    elif delivery:
        mark_delivered.do(transaction, delivery)


@step(reads=True)
def unknown_mails(transaction: Transaction, chat: str = "", told: bool = True) -> tuple[str, ...]:
    """Return the turns of mails whose outcome is unknown, of one chat or of all.

    Unless `told`, only those that the chat's person was not told about yet.
    """
    rows = transaction.db.execute(
        "SELECT turn, note FROM effects WHERE kind = ? AND state = 'handed_over' AND (chat = ? OR ? = '')"
        " ORDER BY id",
        (REPLY, chat, chat),
    ).fetchall()
    return tuple(str(turn) for turn, note in rows if told or note != TOLD)


@step(of_chat, owned=True)
def note_told(transaction: Transaction, chat: str, turns: tuple[str, ...]) -> None:
    """Record that the chat's person was told about these mails."""
    transaction.db.executemany(
        "UPDATE effects SET note = ? WHERE chat = ? AND turn = ? AND state = 'handed_over'",
        [(TOLD, chat, turn) for turn in turns],
    )


@dataclass(frozen=True, slots=True)
class AskedByMail:
    """What a reply asks: the numbers of the calls that a yes or a no answers, and when it was stored."""

    numbers: tuple[int, ...] = ()
    at: float = 0.0


@step(reads=True)
def asked_in(transaction: Transaction, chat: str, delivery: int) -> AskedByMail:
    """Return what the reply with a delivery number asks; nothing if the chat has no such reply."""
    rows = transaction.db.execute(
        "SELECT buttons, outbox.created FROM outbox JOIN messages ON reply = outbox.id"
        " WHERE outbox.id = ? AND outbox.chat = ? ORDER BY messages.id",
        (delivery, chat),
    ).fetchall()
    words = [button.words.split() for buttons, _ in rows for button in buttons_in(buttons)]
    numbers = [int(word[1]) for word in words if len(word) == 2 and word[0] == "/yes" and word[1].isdecimal()]
    return AskedByMail(tuple(dict.fromkeys(numbers)), rows[0][1] if rows else 0.0)
