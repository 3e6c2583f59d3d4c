"""Steps that store and fire schedules. One transaction fires a schedule and sets its next fire time."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeAlias, get_args

from rumi.store.journal.history import MOST_ENTRY
from rumi.store.journal.inbox import insert_message, of_batch
from rumi.store.journal.records import (
    Fired,
    Firing,
    Incoming,
    ScheduleFigures,
    ScheduleKind,
    ScheduleRecord,
    ScheduleState,
)
from rumi.store.journal.reminders import number_buttons
from rumi.store.journal.scopes import keys_in, of_chat, of_schedule
from rumi.store.journal.tasks import insert_task
from rumi.store.journal.transaction import SLICE, clean, mine
from rumi.store.journal.undo import note_schedule, schedule_row
from rumi.store.journal.unreachable import note_return, pause_if_unreachable
from rumi.store.steps import Transaction, step

FAILURES: Final = 3
"""Number of consecutive firings with failed work after which a schedule is paused."""


MAX_FIRES: Final = 20
"""Number of each schedule's latest firings that are recorded, so that they do not repeat if the clock is set
back."""

AHEAD_S: Final = 60.0
"""If a row was last changed more than this many seconds in the future, the clock has been set back since
then."""

DONE_S: Final = 30 * 86_400.0
"""Retention of completed schedules, in seconds."""

_KINDS: Final = get_args(ScheduleKind)
_STATES: Final = get_args(ScheduleState)
_FIELDS: Final = (
    "id, owner, chat, kind, text, options, cron, zone, instant, next_at, state, failures, missed, missed_at,"
    " language, model, tainted, message, created, user, reason, checked, outcome, approval"
)


def _of_new(transaction: Transaction, schedule: ScheduleRecord) -> Iterable[str]:
    return (schedule.chat,)


@step(_of_new, shared=True)
def add_schedule(
    transaction: Transaction,
    new: ScheduleRecord,
    most: int,
    most_of_users: int | None = None,
    users: tuple[int, ...] = (),
) -> ScheduleRecord | None:
    """Store a schedule; return it with its number, or the existing schedule of the same `message`.

    Return None if the owner already has `most` schedules that are not done. Also return None if the person
    with the user numbers `users` already has `most_of_users` such schedules.
    """
    if new.message:
        found = _schedules(transaction, "message = ?", new.message)
        if found:
            return found[0]
    # The limits are checked in the transaction: simultaneous requests cannot exceed them together.
    (open_,) = transaction.db.execute(
        "SELECT count(*) FROM schedules WHERE owner = ? AND state != 'done'", (new.owner,)
    ).fetchone()
    if open_ >= most:
        return None
    if most_of_users is not None:
        (theirs,) = transaction.db.execute(
            "SELECT count(*) FROM schedules WHERE state != 'done' AND user IN"
            f" ({', '.join('?' * len(users))})",
            users,
        ).fetchone()
        if theirs >= most_of_users:
            return None
    now = transaction.now()
    (id,) = transaction.db.execute(
        "INSERT INTO schedules (owner, chat, kind, text, options, cron, zone, instant, next_at, state,"
        " language, model, tainted, message, created, touched, user, checked)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), ?, ?, ?, ?) RETURNING id",
        (
            *(new.owner, new.chat, new.kind, clean(new.text), clean(new.options), new.cron, new.zone),
            *(new.instant, new.next_at or new.instant, new.state),
            *(new.language, clean(new.model), new.tainted),
            *(new.message, now, now, new.user, clean(new.checked)),
        ),
    ).fetchone()
    note_schedule(transaction, new.turn, new.chat, id, None)
    transaction.touched.add(new.chat)
    return replace(new, id=id, next_at=new.next_at or new.instant, created=now)


@step(reads=True)
def load_schedule(transaction: Transaction, id: int) -> ScheduleRecord | None:
    """Return a schedule, or None if it does not exist."""
    found = _schedules(transaction, "id = ?", id) if 0 < id <= MOST_ENTRY else ()
    return found[0] if found else None


@step(reads=True)
def list_schedules(
    transaction: Transaction, owner: str | None, limit: int = 1000, chat: str = ""
) -> tuple[ScheduleRecord, ...]:
    """Return open schedules, then the latest completed ones, of one `owner` or, if None, of all owners.

    With a `chat`, only its schedules.
    """
    which = "(owner = ?1 OR ?1 IS NULL) AND (chat = ?3 OR ?3 = '')"
    order = "state = 'done', CASE state WHEN 'done' THEN -id ELSE id END"
    return _schedules(transaction, f"{which} ORDER BY {order} LIMIT ?2", owner, limit, chat)


@step(of_schedule)
def set_schedule(transaction: Transaction, id: int, state: ScheduleState, instant: float = 0.0) -> bool:
    """Pause a schedule, or resume it with the next fire time `instant`.

    If nothing could be delivered to the chat, a resumed schedule tries again. Return False if the schedule is
    done or does not exist.
    """
    changed = bool(
        transaction.db.execute(
            "UPDATE schedules SET state = ?1, instant = coalesce(nullif(?2, 0), instant),"
            " next_at = coalesce(nullif(?2, 0), next_at), failures = 0, touched = ?3, reason = ''"
            " WHERE id = ?4 AND state != 'done'",
            (state, instant, transaction.now(), id),
        ).rowcount
    )
    if changed and state == "active":
        for chat in of_schedule(transaction, id):
            note_return(transaction, chat)
    return changed


@step()
def pause_schedules(transaction: Transaction) -> int:
    """Pause all active schedules. Return the number of paused schedules."""
    paused = transaction.db.execute("UPDATE schedules SET state = 'paused' WHERE state = 'active'")
    return paused.rowcount


_Move: TypeAlias = tuple[int, float, float, float]
"""The number of a schedule, its former instant (the planned fire time), its new instant, and the time at
which it will actually fire."""


def _of_moves(transaction: Transaction, moves: tuple[_Move, ...]) -> Iterable[str]:
    return keys_in(transaction, "schedules", [move[0] for move in moves])


@step(_of_moves, owned=True)
def move_schedules(transaction: Transaction, moves: tuple[_Move, ...]) -> None:
    """Set the next fire times of those schedules whose instant is still the former one."""
    now = transaction.now()
    transaction.db.executemany(
        "UPDATE schedules SET instant = ?, next_at = ?, touched = ? WHERE id = ? AND instant = ?",
        [(instant, next_at, now, id, had) for id, had, instant, next_at in moves],
    )


@step(of_schedule)
def delete_schedule(transaction: Transaction, id: int, turn: str = "", chat: str = "") -> bool:
    """Delete a schedule. Return False if it does not exist.

    If a `turn` of a `chat` is given, undoing the turn restores the schedule.
    """
    before = schedule_row(transaction, id) if turn else None
    transaction.db.execute("DELETE FROM fires WHERE schedule = ?", (id,))
    deleted = transaction.db.execute("DELETE FROM schedules WHERE id = ?", (id,)).rowcount
    if before is not None:
        note_schedule(transaction, turn, chat, id, before)
    return bool(deleted)


@step(reads=True)
def due_schedules(transaction: Transaction, upto: float) -> tuple[ScheduleRecord, ...]:
    """Return a slice of the active schedules that fire at or before `upto`, earliest first.

    Those that quiet hours held back are in the order of the times for which they were meant.
    """
    which = f"state = 'active' AND next_at <= ?{mine(transaction)} ORDER BY next_at, instant, id LIMIT ?"
    return _schedules(transaction, which, upto, SLICE)


@step(reads=True)
def ahead_schedules(transaction: Transaction, now: float) -> tuple[ScheduleRecord, ...]:
    """Return a slice of the active recurring schedules whose last change is later than `now`.

    Such schedules exist if the clock was set back.
    """
    which = f"state = 'active' AND cron != '' AND touched > ?{mine(transaction)} ORDER BY touched, id LIMIT ?"
    return _schedules(transaction, which, now + AHEAD_S, SLICE)


@step(reads=True)
def count_schedules(transaction: Transaction) -> ScheduleFigures:
    """Return the numbers of active and paused schedules, and the next fire time."""
    active, paused = transaction.db.execute(
        "SELECT count(*) FILTER (WHERE state = 'active'), count(*) FILTER (WHERE state = 'paused')"
        " FROM schedules"
    ).fetchone()
    (next_at,) = transaction.db.execute(
        f"SELECT min(next_at) FROM schedules WHERE state = 'active'{mine(transaction)}"
    ).fetchone()
    return ScheduleFigures(active, paused, math.inf if next_at is None else next_at)


def _of_firings(transaction: Transaction, firings: tuple[Firing, ...]) -> Iterable[str]:
    return keys_in(transaction, "schedules", [firing.schedule for firing in firings])


@step(_of_firings, owned=True)
def fire_schedules(transaction: Transaction, firings: tuple[Firing, ...]) -> tuple[Fired, ...]:
    """Fire schedules: set their next fire times and store their messages or tasks, in one transaction.

    A firing has no effect if its instant is not the schedule's next one, because the schedule has already
    fired for that instant.
    """
    return tuple(_fire(firing, transaction) for firing in firings)


def _fire(firing: Firing, transaction: Transaction) -> Fired:
    """Fire one schedule: check and update its next instant, then store the firing's message or task."""
    now = transaction.now()
    # A firing that a command asked for leaves the next instant alone.
    if not firing.number:
        if pause_if_unreachable(transaction, firing.schedule):
            return Fired()
        advanced = transaction.db.execute(
            "UPDATE schedules SET instant = ?1, next_at = ?1,"
            " state = CASE WHEN ?1 != 0 THEN state ELSE 'done' END,"
            " failures = failures + ?2, missed_at = CASE WHEN missed != 0 THEN missed_at ELSE ?3 END,"
            " missed = missed + ?4, touched = ?5 WHERE id = ?6 AND state = 'active' AND instant = ?7",
            (
                *(firing.then, int(firing.failed), firing.missed_at, firing.missed, now),
                *(firing.schedule, firing.instant),
            ),
        )
        if advanced.rowcount == 0:
            return Fired()
        if not firing.then:
            _delete_done(transaction)
    if firing.message is None and firing.task is None:
        return Fired()
    # A firing that is skipped for this reason is reported to people as a missed one.
    if goes_on(firing, transaction):
        transaction.db.execute(
            "UPDATE schedules SET missed_at = CASE WHEN missed != 0 THEN missed_at ELSE ?1 END,"
            " missed = missed + 1 WHERE id = ?2",
            (firing.of or firing.instant, firing.schedule),
        )
        return Fired()
    return insert_work(firing, transaction)


def insert_work(firing: Firing, transaction: Transaction) -> Fired:
    """Store the message or the task of a firing, once for each instant."""
    now = transaction.now()
    # The instant alone does not suffice: after a clock was set back, an instant can be the next one again.
    key = -firing.number or firing.of or firing.instant
    first = transaction.db.execute(
        "INSERT INTO fires (schedule, instant, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        (firing.schedule, key, now),
    )
    if first.rowcount == 0:
        return Fired()
    message = task = None
    if firing.message is not None:
        message = number_buttons(transaction, insert_message(firing.message, transaction))
    if firing.task is not None:
        task = insert_task(firing.task, transaction)
    transaction.db.execute(
        "UPDATE fires SET message = ?, task = ? WHERE schedule = ? AND instant = ?",
        (message.id if message else None, task.id if task else None, firing.schedule, key),
    )
    # Fires that a command asked for have negative keys. They are counted apart: a later message has a lower
    # one, and would otherwise be the first to go.
    side, beyond, order = ("instant < 0", ">=", "ASC") if key < 0 else ("instant >= 0", "<=", "DESC")
    transaction.db.execute(
        f"DELETE FROM fires WHERE schedule = ?1 AND {side} AND instant {beyond} (SELECT instant FROM fires"
        f" WHERE schedule = ?1 AND {side} ORDER BY instant {order} LIMIT 1 OFFSET ?2)",
        (firing.schedule, MAX_FIRES),
    )
    return Fired(message, task)


def _delete_done(transaction: Transaction) -> None:
    """Delete a slice of the schedules that were completed at least `DONE_S` ago."""
    old = "SELECT id FROM schedules WHERE state = 'done' AND touched < ? ORDER BY touched LIMIT ?"
    found = transaction.db.execute(old, (transaction.now() - DONE_S, SLICE)).fetchall()
    transaction.db.executemany("DELETE FROM fires WHERE schedule = ?", found)
    transaction.db.executemany("DELETE FROM schedules WHERE id = ?", found)


def goes_on(firing: Firing, transaction: Transaction) -> bool:
    """Return True if work from an earlier firing is unfinished. Work of the same schedule never overlaps."""
    turn = firing.message is not None and not firing.message.notice
    if not turn and firing.task is None:
        return False
    found = transaction.db.execute(
        "SELECT EXISTS (SELECT 1 FROM messages WHERE reply IS NULL AND schedule = ?1 AND NOT notice)"
        " OR EXISTS (SELECT 1 FROM tasks WHERE ended IS NULL AND schedule = ?1)",
        (firing.schedule,),
    )
    return bool(found.fetchone()[0])


@step(reads=True)
def fired_by_hand(transaction: Transaction, schedule: int, message: int) -> bool:
    """Return True if a person had the schedule fire, and that stored this message."""
    found = transaction.db.execute(
        "SELECT EXISTS (SELECT 1 FROM fires WHERE schedule = ? AND message = ? AND instant < 0)",
        (schedule, message),
    )
    return bool(found.fetchone()[0])


@step(reads=True)
def fired_before(transaction: Transaction, schedule: int, message: int) -> float:
    """Return the time of the fire before the one that stored a message; 0 if it is not known."""
    (at,) = transaction.db.execute(
        "SELECT coalesce(max(at), 0) FROM fires WHERE schedule = ? AND message < ?", (schedule, message)
    ).fetchone()
    return float(at)


@step(reads=True)
def failed_schedules(transaction: Transaction) -> tuple[ScheduleRecord, ...]:
    """Return active schedules whose work has failed `FAILURES` times in a row."""
    return _schedules(
        transaction,
        f"state = 'active' AND failures >= {FAILURES}{mine(transaction)} ORDER BY id LIMIT ?",
        SLICE,
    )


@step(of_schedule, owned=True)
def pause_failed(transaction: Transaction, id: int, message: Incoming) -> Incoming | None:
    """Pause a schedule that failed too often, and store a `message` about it.

    Return None if the schedule is already paused.
    """
    paused = transaction.db.execute(
        "UPDATE schedules SET state = 'paused' WHERE id = ? AND state = 'active' AND failures >= ?",
        (id, FAILURES),
    )
    return insert_message(message, transaction) if paused.rowcount else None


@step(reads=True)
def missed_schedules(transaction: Transaction, chat: str = "") -> tuple[ScheduleRecord, ...]:
    """Return schedules with missed fire times that were not reported yet, for one `chat` or all."""
    return _schedules(
        transaction, f"missed != 0 AND (chat = ?1 OR ?1 = ''){mine(transaction)} ORDER BY id", chat
    )


@step(of_chat, owned=True)
def tell_missed(
    transaction: Transaction, chat: str, message: Incoming, told: tuple[tuple[int, int], ...]
) -> Incoming | None:
    """Store the `message` that reports missed fire times of a chat's schedules, and reset their counts.

    `told` contains the number of each reported schedule and the reported count. Return None, and store
    nothing, if any count has changed since.
    """
    missed = dict(
        transaction.db.execute("SELECT id, missed FROM schedules WHERE missed != 0 AND chat = ?", (chat,))
    )
    if any(missed.get(id) != many for id, many in told):
        return None
    transaction.db.executemany("UPDATE schedules SET missed = 0 WHERE id = ?", [(id,) for id, _ in told])
    return insert_message(message, transaction)


@step(reads=True)
def schedules_of_unreachable(transaction: Transaction, chat: str) -> tuple[ScheduleRecord, ...]:
    """Return the schedules that are paused because nothing could be delivered to their chat."""
    return _schedules(transaction, "chat = ? AND reason != '' ORDER BY id", chat)


@step(of_batch)
def tell_admins(transaction: Transaction, messages: tuple[Incoming, ...], chat: str) -> tuple[Incoming, ...]:
    """Store the `messages` that tell admins that a chat is unreachable; return them as stored.

    Admins are told once, until a person writes in the chat again. Any worker may store the messages: the
    workers of the admins' chats find them.
    """
    first = transaction.db.execute(
        "UPDATE unreachable SET noted = 1 WHERE chat = ? AND noted = 0 AND back = 0", (chat,)
    )
    return tuple(insert_message(message, transaction) for message in messages) if first.rowcount else ()


@step(of_chat, owned=True)
def tell_return(transaction: Transaction, chat: str, message: Incoming) -> Incoming | None:
    """Store the `message` that tells a chat, in which a person writes again, of its paused schedules.

    Return None, and store nothing, if no person has written there yet or the chat was told already.
    """
    told = transaction.db.execute("DELETE FROM unreachable WHERE chat = ? AND back > 0", (chat,))
    return insert_message(message, transaction) if told.rowcount else None


@step(reads=True)
def zone_of(transaction: Transaction, owner: str) -> str:
    """Return the time zone of an owner, empty if none is set."""
    row = transaction.db.execute("SELECT zone FROM zones WHERE owner = ?", (owner,)).fetchone()
    return str(row[0]) if row else ""


@step()
def propose_zone(transaction: Transaction, owner: str, zone: str) -> bool:
    """Set the time zone of an owner who has none. Return False if the owner already has one."""
    stored = transaction.db.execute(
        "INSERT INTO zones (owner, zone) VALUES (?, ?) ON CONFLICT (owner) DO NOTHING", (owner, zone)
    )
    return bool(stored.rowcount)


@step()
def set_zone(transaction: Transaction, owner: str, zone: str) -> None:
    """Set the time zone of an owner."""
    transaction.db.execute(
        "INSERT INTO zones (owner, zone) VALUES (?, ?)"
        " ON CONFLICT (owner) DO UPDATE SET zone = excluded.zone",
        (owner, zone),
    )


@step()
def forget_zone(transaction: Transaction, owner: str) -> None:
    """Delete the time zone of an owner, who then has none."""
    transaction.db.execute("DELETE FROM zones WHERE owner = ?", (owner,))


def _schedules(transaction: Transaction, which: str, *values: object) -> tuple[ScheduleRecord, ...]:
    """Return the schedules that match an SQL condition."""
    fired = "(SELECT max(at) FROM fires WHERE schedule = schedules.id) AS fired"
    rows = transaction.db.execute(f"SELECT {_FIELDS}, {fired} FROM schedules WHERE {which}", values)
    names = (*_FIELDS.replace(",", "").split(), "fired")
    return tuple(_schedule(dict(zip(names, row, strict=True))) for row in rows)


def _schedule(row: dict[str, object]) -> ScheduleRecord:
    """Load a schedule from a row; replace damaged values. A damaged kind is replaced by `text`."""
    row |= {name: row[name] or 0 for name in ("message", "fired")}
    row["tainted"] = bool(row["tainted"])
    row["language"] = row["language"] or "en"
    row["kind"] = row["kind"] if row["kind"] in _KINDS else "text"
    row["state"] = row["state"] if row["state"] in _STATES else "paused"
    return ScheduleRecord(**row)  # type: ignore[arg-type]
