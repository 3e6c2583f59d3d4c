"""Requests that store and fire schedules. One transaction fires a schedule and sets its next fire time."""

import math
from dataclasses import dataclass, replace
from typing import Final, get_args

from rumi.store.journal.history import MOST_ENTRY
from rumi.store.journal.inbox import insert_message
from rumi.store.journal.records import (
    Fired,
    Firing,
    Incoming,
    ScheduleFigures,
    ScheduleKind,
    ScheduleRecord,
    ScheduleState,
)
from rumi.store.journal.tasks import insert_task
from rumi.store.journal.transaction import SLICE, JournalRequest, OwnedWrite, Read, clean, mine, steps
from rumi.store.journal.undo import note_schedule, schedule_row
from rumi.store.steps import Transaction

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
    " language, model, tainted, message, created, user"
)


@dataclass(frozen=True, slots=True)
class AddSchedule(JournalRequest[ScheduleRecord | None]):
    """Store a schedule; return it with its number, or the existing schedule of the same `message`.

    Return None if the owner already has `most` schedules that are not done. Also return None if the person
    with the user numbers `users` already has `most_of_users` such schedules.
    """

    schedule: ScheduleRecord
    most: int
    most_of_users: int | None = None
    users: tuple[int, ...] = ()


@steps.of(AddSchedule)
def add_schedule(request: AddSchedule, transaction: Transaction) -> ScheduleRecord | None:
    """Store a schedule, or return the existing schedule of the same message."""
    new = request.schedule
    if new.message:
        found = _schedules(transaction, "message = ?", new.message)
        if found:
            return found[0]
    # The limits are checked in the transaction: simultaneous requests cannot exceed them together.
    (open_,) = transaction.db.execute(
        "SELECT count(*) FROM schedules WHERE owner = ? AND state != 'done'", (new.owner,)
    ).fetchone()
    if open_ >= request.most:
        return None
    if request.most_of_users is not None:
        (theirs,) = transaction.db.execute(
            "SELECT count(*) FROM schedules WHERE state != 'done' AND user IN"
            f" ({', '.join('?' * len(request.users))})",
            request.users,
        ).fetchone()
        if theirs >= request.most_of_users:
            return None
    now = transaction.now()
    (id,) = transaction.db.execute(
        "INSERT INTO schedules (owner, chat, kind, text, options, cron, zone, instant, next_at, state,"
        " language, model, tainted, message, created, touched, user)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'active', ?, ?, ?, nullif(?, 0), ?, ?, ?) RETURNING id",
        (
            *(new.owner, new.chat, new.kind, clean(new.text), clean(new.options), new.cron, new.zone),
            *(new.instant, new.next_at or new.instant, new.language, clean(new.model), new.tainted),
            *(new.message, now, now, new.user),
        ),
    ).fetchone()
    note_schedule(transaction, new.turn, new.chat, id, None)
    transaction.touched.add(new.chat)
    return replace(new, id=id, next_at=new.next_at or new.instant, created=now)


@dataclass(frozen=True, slots=True)
class LoadSchedule(Read[ScheduleRecord | None]):
    """Return a schedule, or None if it does not exist."""

    id: int


@steps.of(LoadSchedule)
def load_schedule(request: LoadSchedule, transaction: Transaction) -> ScheduleRecord | None:
    """Return a schedule."""
    found = _schedules(transaction, "id = ?", request.id) if 0 < request.id <= MOST_ENTRY else ()
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class ListSchedules(Read[tuple[ScheduleRecord, ...]]):
    """Return open schedules, then the latest completed ones, of one `owner` or, if None, of all owners."""

    owner: str | None
    limit: int = 1000


@steps.of(ListSchedules)
def list_schedules(request: ListSchedules, transaction: Transaction) -> tuple[ScheduleRecord, ...]:
    """Return schedules: first those that are not done."""
    which = "owner = ?1 OR ?1 IS NULL ORDER BY state = 'done', CASE state WHEN 'done' THEN -id ELSE id END"
    return _schedules(transaction, f"{which} LIMIT ?2", request.owner, request.limit)


@dataclass(frozen=True, slots=True)
class SetSchedule(JournalRequest[bool]):
    """Pause a schedule, or resume it with the next fire time `instant`.

    Return False if the schedule is done or does not exist.
    """

    id: int
    state: ScheduleState
    instant: float = 0.0


@steps.of(SetSchedule)
def set_schedule(request: SetSchedule, transaction: Transaction) -> bool:
    """Pause or resume a schedule."""
    return bool(
        transaction.db.execute(
            "UPDATE schedules SET state = ?1, instant = coalesce(nullif(?2, 0), instant),"
            " next_at = coalesce(nullif(?2, 0), next_at), failures = 0, touched = ?3"
            " WHERE id = ?4 AND state != 'done'",
            (request.state, request.instant, transaction.now(), request.id),
        ).rowcount
    )


@dataclass(frozen=True, slots=True)
class PauseSchedules(JournalRequest[int]):
    """Pause all active schedules. Return the number of paused schedules."""


@steps.of(PauseSchedules)
def pause_schedules(request: PauseSchedules, transaction: Transaction) -> int:
    """Pause all active schedules."""
    paused = transaction.db.execute("UPDATE schedules SET state = 'paused' WHERE state = 'active'")
    return paused.rowcount


@dataclass(frozen=True, slots=True)
class MoveSchedules(OwnedWrite[None]):
    """Set the next fire times of schedules.

    Each move contains the number of a schedule, its former instant (the planned fire time), its new instant,
    and the time at which it will actually fire.
    """

    moves: tuple[tuple[int, float, float, float], ...]


@steps.of(MoveSchedules)
def move_schedules(request: MoveSchedules, transaction: Transaction) -> None:
    """Set the next fire times of those schedules whose instant is still the former one."""
    now = transaction.now()
    transaction.db.executemany(
        "UPDATE schedules SET instant = ?, next_at = ?, touched = ? WHERE id = ? AND instant = ?",
        [(instant, next_at, now, id, had) for id, had, instant, next_at in request.moves],
    )


@dataclass(frozen=True, slots=True)
class DeleteSchedule(JournalRequest[bool]):
    """Delete a schedule. Return False if it does not exist.

    If a `turn` of a `chat` is given, undoing the turn restores the schedule.
    """

    id: int
    turn: str = ""
    chat: str = ""


@steps.of(DeleteSchedule)
def delete_schedule(request: DeleteSchedule, transaction: Transaction) -> bool:
    """Delete a schedule and the record of its firings."""
    before = schedule_row(transaction, request.id) if request.turn else None
    transaction.db.execute("DELETE FROM fires WHERE schedule = ?", (request.id,))
    deleted = transaction.db.execute("DELETE FROM schedules WHERE id = ?", (request.id,)).rowcount
    if before is not None:
        note_schedule(transaction, request.turn, request.chat, request.id, before)
    return bool(deleted)


@dataclass(frozen=True, slots=True)
class DueSchedules(Read[tuple[ScheduleRecord, ...]]):
    """Return a slice of the active schedules that fire at or before `upto`, earliest first."""

    upto: float


@steps.of(DueSchedules)
def due_schedules(request: DueSchedules, transaction: Transaction) -> tuple[ScheduleRecord, ...]:
    """Return active schedules that are due."""
    which = f"state = 'active' AND next_at <= ?{mine(transaction)} ORDER BY next_at, id LIMIT ?"
    return _schedules(transaction, which, request.upto, SLICE)


@dataclass(frozen=True, slots=True)
class AheadSchedules(Read[tuple[ScheduleRecord, ...]]):
    """Return a slice of the active recurring schedules whose last change is later than `now`.

    Such schedules exist if the clock was set back.
    """

    now: float


@steps.of(AheadSchedules)
def ahead_schedules(request: AheadSchedules, transaction: Transaction) -> tuple[ScheduleRecord, ...]:
    """Return active recurring schedules whose last change is in the future."""
    which = f"state = 'active' AND cron != '' AND touched > ?{mine(transaction)} ORDER BY touched, id LIMIT ?"
    return _schedules(transaction, which, request.now + AHEAD_S, SLICE)


@dataclass(frozen=True, slots=True)
class CountSchedules(Read[ScheduleFigures]):
    """Return the numbers of active and paused schedules, and the next fire time."""


@steps.of(CountSchedules)
def count_schedules(request: CountSchedules, transaction: Transaction) -> ScheduleFigures:
    """Count schedules, and find the next fire time."""
    active, paused = transaction.db.execute(
        "SELECT count(*) FILTER (WHERE state = 'active'), count(*) FILTER (WHERE state = 'paused')"
        " FROM schedules"
    ).fetchone()
    (next_at,) = transaction.db.execute(
        f"SELECT min(next_at) FROM schedules WHERE state = 'active'{mine(transaction)}"
    ).fetchone()
    return ScheduleFigures(active, paused, math.inf if next_at is None else next_at)


@dataclass(frozen=True, slots=True)
class Fire(OwnedWrite[tuple[Fired, ...]]):
    """Fire schedules: set their next fire times and store their messages or tasks, in one transaction.

    A firing has no effect if its instant is not the schedule's next one, because the schedule has already
    fired for that instant.
    """

    firings: tuple[Firing, ...]


@steps.of(Fire)
def fire(request: Fire, transaction: Transaction) -> tuple[Fired, ...]:
    """Fire schedules; each instant fires only once."""
    return tuple(_fire(firing, transaction) for firing in request.firings)


def _fire(firing: Firing, transaction: Transaction) -> Fired:
    """Fire one schedule: check and update its next instant, then store the firing's message or task."""
    now = transaction.now()
    # A firing that a command asked for leaves the next instant alone.
    if not firing.number:
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
    if _goes_on(firing, transaction):
        transaction.db.execute(
            "UPDATE schedules SET missed_at = CASE WHEN missed != 0 THEN missed_at ELSE ?1 END,"
            " missed = missed + 1 WHERE id = ?2",
            (firing.of or firing.instant, firing.schedule),
        )
        return Fired()
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
        message = insert_message(firing.message, transaction)
    if firing.task is not None:
        task = insert_task(firing.task, transaction)
    transaction.db.execute(
        "UPDATE fires SET message = ?, task = ? WHERE schedule = ? AND instant = ?",
        (message.id if message else None, task.id if task else None, firing.schedule, key),
    )
    transaction.db.execute(
        "DELETE FROM fires WHERE schedule = ?1 AND instant <="
        " (SELECT instant FROM fires WHERE schedule = ?1 ORDER BY instant DESC LIMIT 1 OFFSET ?2)",
        (firing.schedule, MAX_FIRES),
    )
    return Fired(message, task)


def _delete_done(transaction: Transaction) -> None:
    """Delete a slice of the schedules that were completed at least `DONE_S` ago."""
    old = "SELECT id FROM schedules WHERE state = 'done' AND touched < ? ORDER BY touched LIMIT ?"
    found = transaction.db.execute(old, (transaction.now() - DONE_S, SLICE)).fetchall()
    transaction.db.executemany("DELETE FROM fires WHERE schedule = ?", found)
    transaction.db.executemany("DELETE FROM schedules WHERE id = ?", found)


def _goes_on(firing: Firing, transaction: Transaction) -> bool:
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


@dataclass(frozen=True, slots=True)
class FailedSchedules(Read[tuple[ScheduleRecord, ...]]):
    """Return active schedules whose work has failed `FAILURES` times in a row."""


@steps.of(FailedSchedules)
def failed_schedules(request: FailedSchedules, transaction: Transaction) -> tuple[ScheduleRecord, ...]:
    """Return active schedules that failed too often."""
    return _schedules(
        transaction,
        f"state = 'active' AND failures >= {FAILURES}{mine(transaction)} ORDER BY id LIMIT ?",
        SLICE,
    )


@dataclass(frozen=True, slots=True)
class PauseFailed(OwnedWrite[Incoming | None]):
    """Pause a schedule that failed too often, and store a `message` about it.

    Return None if the schedule is already paused.
    """

    id: int
    message: Incoming


@steps.of(PauseFailed)
def pause_failed(request: PauseFailed, transaction: Transaction) -> Incoming | None:
    """Pause a schedule that failed too often, and store a message about it once."""
    paused = transaction.db.execute(
        "UPDATE schedules SET state = 'paused' WHERE id = ? AND state = 'active' AND failures >= ?",
        (request.id, FAILURES),
    )
    return insert_message(request.message, transaction) if paused.rowcount else None


@dataclass(frozen=True, slots=True)
class MissedSchedules(Read[tuple[ScheduleRecord, ...]]):
    """Return schedules with missed fire times that were not reported yet, for one `chat` or all."""

    chat: str = ""


@steps.of(MissedSchedules)
def missed_schedules(request: MissedSchedules, transaction: Transaction) -> tuple[ScheduleRecord, ...]:
    """Return the schedules with unreported missed fire times."""
    return _schedules(
        transaction, f"missed != 0 AND (chat = ?1 OR ?1 = ''){mine(transaction)} ORDER BY id", request.chat
    )


@dataclass(frozen=True, slots=True)
class TellMissed(OwnedWrite[Incoming | None]):
    """Store the `message` that reports missed fire times of a chat's schedules, and reset their counts.

    `told` contains the number of each reported schedule and the reported count. Return None, and store
    nothing, if any count has changed since.
    """

    chat: str
    message: Incoming
    told: tuple[tuple[int, int], ...]


@steps.of(TellMissed)
def tell_missed(request: TellMissed, transaction: Transaction) -> Incoming | None:
    """Store the report of missed fire times and reset the counts, if no count has changed since."""
    missed = dict(
        transaction.db.execute(
            "SELECT id, missed FROM schedules WHERE missed != 0 AND chat = ?", (request.chat,)
        )
    )
    if any(missed.get(id) != many for id, many in request.told):
        return None
    transaction.db.executemany(
        "UPDATE schedules SET missed = 0 WHERE id = ?", [(id,) for id, _ in request.told]
    )
    return insert_message(request.message, transaction)


@dataclass(frozen=True, slots=True)
class ZoneOf(Read[str]):
    """Return the time zone of an owner, empty if none is set."""

    owner: str


@steps.of(ZoneOf)
def zone_of(request: ZoneOf, transaction: Transaction) -> str:
    """Return the time zone of an owner."""
    row = transaction.db.execute("SELECT zone FROM zones WHERE owner = ?", (request.owner,)).fetchone()
    return str(row[0]) if row else ""


@dataclass(frozen=True, slots=True)
class SetZone(JournalRequest[None]):
    """Set the time zone of an owner."""

    owner: str
    zone: str


@steps.of(SetZone)
def set_zone(request: SetZone, transaction: Transaction) -> None:
    """Set the time zone of an owner."""
    transaction.db.execute(
        "INSERT INTO zones (owner, zone) VALUES (?, ?)"
        " ON CONFLICT (owner) DO UPDATE SET zone = excluded.zone",
        (request.owner, request.zone),
    )


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
