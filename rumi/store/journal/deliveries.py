"""Steps about the events that other programs send to triggers: each delivery is taken once."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from rumi.store.journal.inbox import insert_message
from rumi.store.journal.records import Incoming, NotStored
from rumi.store.journal.transaction import clean
from rumi.store.journal.unreachable import refusal_of
from rumi.store.steps import Transaction, step

HOUR_S: Final = 3600.0

KEPT_S: Final = 30 * 24 * HOUR_S
"""Retention of delivery ids, in seconds. Senders repeat a delivery for hours or days, never for weeks."""

SLICE: Final = 1000
"""Maximum number of rows that one transaction deletes."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The outcome of a delivery.

    `message` is the message that was stored; None if the delivery was taken earlier, if it begins no turn, or
    if too many events came. `number` is the number of the message of this delivery, also if it was taken
    earlier; 0 if it has none. `again_s` is the time until the trigger takes the next event, in seconds; 0 if
    this delivery is stored. `unreachable` is not empty if nothing is stored because nothing can be delivered
    to the chat; it is the refusal in the words of the chat's source.
    """

    message: Incoming | None = None
    number: int = 0
    repeated: bool = False
    again_s: float = 0.0
    unreachable: str = ""


def _of_event(transaction: Transaction, message: Incoming) -> Iterable[str]:
    return (message.chat,)


@step(_of_event)
def accept_event(
    transaction: Transaction, message: Incoming, delivery: str, most_per_hour: int, window_s: float = 0.0
) -> Taken | NotStored:
    """Store an event of a trigger with its delivery id: both or nothing.

    A delivery whose id is known is not stored again; with `window_s`, only if it came in the last `window_s`
    seconds. If the trigger took `most_per_hour` events in the last hour, or nothing can be delivered to the
    chat, nothing is stored. A message without text only records its delivery. The journal replies `NotStored`
    instead while it cannot write.
    """
    source, delivery, now = clean(message.trigger), clean(delivery), transaction.now()
    known = transaction.db.execute(
        "SELECT received, coalesce(message, 0) FROM deliveries WHERE source = ? AND delivery = ?",
        (source, delivery),
    ).fetchone()
    # A clock that was set back makes an id look newer than now: it counts as known.
    if known is not None and not (window_s and now - known[0] > window_s):
        return Taken(number=known[1], repeated=True)
    if message.text and (why := refusal_of(transaction, message.chat)):
        return Taken(unreachable=why)
    taken, oldest = transaction.db.execute(
        "SELECT count(*), coalesce(min(received), 0) FROM deliveries"
        " WHERE received > ? AND received <= ? AND source = ? AND message IS NOT NULL",
        (now - HOUR_S, now, source),
    ).fetchone()
    if message.text and taken >= most_per_hour:
        return Taken(again_s=max(1.0, oldest + HOUR_S - now))
    stored = insert_message(message, transaction) if message.text else None
    # In the transaction of its message: after a kill, a repeated delivery finds both or none.
    transaction.db.execute(
        "INSERT INTO deliveries (source, delivery, received, message) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (source, delivery) DO UPDATE SET received = excluded.received,"
        " message = excluded.message",
        (source, delivery, now, None if stored is None else stored.id),
    )
    return Taken(stored, 0 if stored is None else stored.id)


@dataclass(frozen=True, slots=True)
class Received:
    """What a trigger received: the last delivery's id and time (0 if none), and the events of a day."""

    trigger: str
    last: str = ""
    at: float = 0.0
    today: int = 0


@step(reads=True)
def received_events(transaction: Transaction, trigger: str) -> Received:
    """Return the last delivery to a trigger, and the number of its events in the last 24 hours."""
    now = transaction.now()
    last = transaction.db.execute(
        "SELECT delivery, received FROM deliveries WHERE source = ? ORDER BY received DESC LIMIT 1",
        (clean(trigger),),
    ).fetchone()
    (today,) = transaction.db.execute(
        "SELECT count(*) FROM deliveries WHERE received > ? AND source = ? AND message IS NOT NULL",
        (now - 24 * HOUR_S, clean(trigger)),
    ).fetchone()
    delivery, at = last or ("", 0.0)
    return Received(trigger, delivery, at, today)


@step()
def forget_deliveries(transaction: Transaction) -> bool:
    """Delete a slice of the delivery ids that are older than `KEPT_S`; return True if more may be left."""
    old = transaction.db.execute(
        "SELECT source, delivery FROM deliveries WHERE received < ? ORDER BY received LIMIT ?",
        (transaction.now() - KEPT_S, SLICE),
    ).fetchall()
    for source, delivery in old:
        transaction.db.execute("DELETE FROM deliveries WHERE source = ? AND delivery = ?", (source, delivery))
    return len(old) == SLICE


def without_turn(message: Incoming) -> Incoming:
    """Return a message that only records its delivery."""
    return replace(message, text="", attachments=())
