"""Requests about workers that share a database: their leases, and the partitions that they own.

Each worker has one lease, which it renews; a lease that has ended is never renewed. When the lease of a
worker ends, its partitions become free. Claiming a partition increases its fence, so that writes by the
earlier worker are refused from then on. All times are on the database's clock.
"""

import json
from dataclasses import dataclass, field
from typing import Final

from rumi.store.backend import as_values
from rumi.store.journal.transaction import JournalRequest, steps
from rumi.store.ownership import PARTITIONS
from rumi.store.steps import Transaction


@dataclass(frozen=True, slots=True)
class Claimed:
    """A partition that a worker has claimed.

    Sandboxes of the earlier worker may still run for `wait_s` seconds.
    """

    number: int
    fence: int
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Member:
    """A worker as other workers see it. `left_s` is the time until its lease ends, negative afterwards."""

    name: str
    version: str
    address: str
    started: float
    left_s: float
    leaving: bool
    partitions: int
    status: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkerBacklog:
    """The backlog of one worker's partitions: messages without a reply, and undelivered replies."""

    queued: int = 0
    undelivered: int = 0


ENDED_LEASE_S: Final = 600.0
"""Time in seconds after which a worker whose lease has ended is removed from the list."""


@dataclass(frozen=True, slots=True)
class Join(JournalRequest[None]):
    """Register a worker with a lease of `lease_s` seconds. The name of the worker must be new."""

    worker: str
    version: str
    address: str
    lease_s: float


@steps.of(Join)
def join(request: Join, transaction: Transaction) -> None:
    """Store a worker; in a new database, also insert one row for each partition."""
    db, now = transaction.db, transaction.now()
    db.executemany(
        "INSERT INTO partitions (number) VALUES (?) ON CONFLICT DO NOTHING",
        [(number,) for number in range(PARTITIONS + 1)],
    )
    db.execute("DELETE FROM workers WHERE until < ?", (now - ENDED_LEASE_S,))
    db.execute(
        "INSERT INTO workers (name, version, address, started, until) VALUES (?1, ?2, ?3, ?4, ?5)"
        " ON CONFLICT (name) DO UPDATE SET until = ?5",  # a retry: the answer to an earlier attempt was lost
        (request.worker, request.version, request.address, now, now + request.lease_s),
    )


@dataclass(frozen=True, slots=True)
class Renew(JournalRequest[dict[int, int] | None]):
    """Extend a lease to `lease_s` seconds from now; return the fences of the worker's partitions.

    Return None if the lease has already ended. `status` is a JSON object that status commands on other
    workers show.
    """

    worker: str
    lease_s: float
    status: str = "{}"


@steps.of(Renew)
def renew(request: Renew, transaction: Transaction) -> dict[int, int] | None:
    """Renew a lease, unless it has ended."""
    now = transaction.now()
    renewed = transaction.db.execute(
        "UPDATE workers SET until = ?, status = ? WHERE name = ? AND until > ?",
        (now + request.lease_s, request.status, request.worker, now),
    )
    if renewed.rowcount == 0:
        return None
    return dict(
        transaction.db.execute("SELECT number, fence FROM partitions WHERE worker = ?", (request.worker,))
    )


@dataclass(frozen=True, slots=True)
class Leave(JournalRequest[None]):
    """Record that a worker is leaving, so that others take its share. With `ended`, its lease ends now."""

    worker: str
    ended: bool = False


@steps.of(Leave)
def leave(request: Leave, transaction: Transaction) -> None:
    """Record that a worker is leaving."""
    until = ", until = 0" if request.ended else ""
    transaction.db.execute(f"UPDATE workers SET leaving = TRUE{until} WHERE name = ?", (request.worker,))


@dataclass(frozen=True, slots=True)
class Claim(JournalRequest[tuple[Claimed, ...]]):
    """Claim up to `most` free partitions; return the claimed partitions.

    Sandboxes of a worker whose lease has ended may run for up to `after_s` seconds after that end. `has`
    lists the partitions that the worker knows it owns. If the database says that the worker owns other
    partitions too, the answer to an earlier claim was lost, and these partitions are claimed again.
    """

    worker: str
    most: int
    after_s: float = 0.0
    has: tuple[int, ...] = ()


@steps.of(Claim)
def claim(request: Claim, transaction: Transaction) -> tuple[Claimed, ...]:
    """Claim free partitions in ascending order, and those that this worker owns without knowing it."""
    db, now = transaction.db, transaction.now()
    # Claims of several workers run at once: each skips the rows that another one has locked.
    skip = f"{transaction.lock_rows} SKIP LOCKED" if transaction.lock_rows else ""
    ended = db.execute(f"SELECT name FROM workers WHERE until <= ?{skip}", (now,)).fetchall()
    # A renewal that waits for the row may be older than this moment: it must find that the lease has ended.
    db.executemany("UPDATE workers SET until = 0 WHERE name = ? AND until > 0", ended)
    free = db.execute(
        "SELECT number, worker, fence, ready_at FROM partitions WHERE number < ?"
        " AND (worker IS NULL OR worker NOT IN (SELECT name FROM workers WHERE until > ?))"
        f" ORDER BY number LIMIT ?{skip}",
        (PARTITIONS, now, request.most),
    ).fetchall()
    known = as_values(request.has) or "-1"
    free += db.execute(
        "SELECT number, worker, fence, ready_at FROM partitions"
        f" WHERE number < ? AND worker = ? AND number NOT IN ({known}) ORDER BY number{skip}",
        (PARTITIONS, request.worker),
    ).fetchall()
    claimed = []
    for number, worker, fence, ready_at in free:
        if worker is not None:  # not released: sandboxes of its former owner may still run
            ready_at = max(ready_at, now + request.after_s)
        claimed.append(Claimed(number, fence + 1, max(0.0, ready_at - now)))
        db.execute(
            "UPDATE partitions SET worker = ?, fence = ?, ready_at = ? WHERE number = ?",
            (request.worker, fence + 1, ready_at, number),
        )
    return tuple(claimed)


@dataclass(frozen=True, slots=True)
class Release(JournalRequest[None]):
    """Release partitions in which this worker no longer runs anything."""

    worker: str
    numbers: tuple[int, ...]


@steps.of(Release)
def release(request: Release, transaction: Transaction) -> None:
    """Mark partitions of this worker as free."""
    if request.numbers:
        transaction.db.execute(
            "UPDATE partitions SET worker = NULL, ready_at = 0 WHERE worker = ?"
            f" AND number IN ({as_values(request.numbers)})",
            (request.worker,),
        )


_MEMBER: Final = (
    "SELECT name, version, address, started, until, leaving,"
    " (SELECT count(*) FROM partitions WHERE worker = name), status FROM workers"
)


@dataclass(frozen=True, slots=True)
class Members(JournalRequest[tuple[Member, ...]]):
    """Return the workers by name, including those whose lease ended less than `ENDED_LEASE_S` ago."""


@steps.of(Members)
def members(request: Members, transaction: Transaction) -> tuple[Member, ...]:
    """Return the workers."""
    now = transaction.now()
    return tuple(_member(row, now) for row in transaction.db.execute(f"{_MEMBER} ORDER BY name"))


@dataclass(frozen=True, slots=True)
class OwnerOf(JournalRequest[Member | None]):
    """Return the worker that currently serves a partition."""

    number: int


@steps.of(OwnerOf)
def owner_of(request: OwnerOf, transaction: Transaction) -> Member | None:
    """Return the worker that owns a partition, if its lease has not ended."""
    now = transaction.now()
    row = transaction.db.execute(
        f"{_MEMBER} WHERE until > ? AND name = (SELECT worker FROM partitions WHERE number = ?)",
        (now, request.number),
    ).fetchone()
    return None if row is None else _member(row, now)


@dataclass(frozen=True, slots=True)
class Owners(JournalRequest[dict[int, str]]):
    """Return the name of the current owner of each partition."""


@steps.of(Owners)
def owners(request: Owners, transaction: Transaction) -> dict[int, str]:
    """Return the owner of each partition, without workers whose lease has ended."""
    return dict(
        transaction.db.execute(
            "SELECT number, worker FROM partitions WHERE number < ?"
            " AND worker IN (SELECT name FROM workers WHERE until > ?)",
            (PARTITIONS, transaction.now()),
        )
    )


@dataclass(frozen=True, slots=True)
class Backlogs(JournalRequest[dict[str, WorkerBacklog]]):
    """Return the backlog of each worker; the empty name stands for partitions that no worker serves."""


@steps.of(Backlogs)
def backlogs(request: Backlogs, transaction: Transaction) -> dict[str, WorkerBacklog]:
    """Count open messages and undelivered replies by worker."""
    db, served = transaction.db, owners(Owners(), transaction)
    found: dict[str, list[int]] = {}
    for index, sql in enumerate(
        (
            "SELECT partition_of(chat), count(*) FROM messages WHERE reply IS NULL GROUP BY 1",
            "SELECT partition_of(chat), count(*) FROM outbox WHERE delivered IS NULL GROUP BY 1",
        )
    ):
        for number, count in db.execute(sql):
            found.setdefault(served.get(number, ""), [0, 0])[index] += count
    return {worker: WorkerBacklog(*counts) for worker, counts in found.items()}


@dataclass(frozen=True, slots=True)
class Touch(JournalRequest[None]):
    """Do nothing. The reply shows that earlier requests have been executed and that the database works."""


@steps.of(Touch)
def touch(request: Touch, transaction: Transaction) -> None:
    """Do nothing."""


def _member(row: tuple[str, str, str, float, float, int, int, str], now: float) -> Member:
    name, version, address, started, until, leaving, partitions, status = row
    try:
        status_fields = dict(json.loads(status))
    except (ValueError, TypeError):
        status_fields = {}
    return Member(name, version, address, started, until - now, bool(leaving), partitions, status_fields)
