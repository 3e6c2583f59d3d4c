"""Steps about workers that share a database: their leases, and the partitions that they own.

Each worker has one lease, which it renews; a lease that has ended is never renewed. When the lease of a
worker ends, its partitions become free. Claiming a partition increases its fence, so that writes by the
earlier worker are refused from then on. All times are on the database's clock.
"""

import json
from dataclasses import dataclass, field
from typing import Final

from rumi.store.backend import as_values
from rumi.store.ownership import PARTITIONS
from rumi.store.steps import Transaction, step


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


@step()
def join_cluster(transaction: Transaction, worker: str, version: str, address: str, lease_s: float) -> None:
    """Register a worker with a lease of `lease_s` seconds. The name of the worker must be new."""
    db, now = transaction.db, transaction.now()
    db.executemany(
        "INSERT INTO partitions (number) VALUES (?) ON CONFLICT DO NOTHING",
        [(number,) for number in range(PARTITIONS + 1)],
    )
    db.execute("DELETE FROM workers WHERE until < ?", (now - ENDED_LEASE_S,))
    db.execute(
        "INSERT INTO workers (name, version, address, started, until) VALUES (?1, ?2, ?3, ?4, ?5)"
        " ON CONFLICT (name) DO UPDATE SET until = ?5",  # a retry: the answer to an earlier attempt was lost
        (worker, version, address, now, now + lease_s),
    )


@step()
def renew_lease(
    transaction: Transaction, worker: str, lease_s: float, status: str = "{}"
) -> dict[int, int] | None:
    """Extend a lease to `lease_s` seconds from now; return the fences of the worker's partitions.

    Return None if the lease has already ended. `status` is a JSON object that status commands on other
    workers show.
    """
    now = transaction.now()
    renewed = transaction.db.execute(
        "UPDATE workers SET until = ?, status = ? WHERE name = ? AND until > ?",
        (now + lease_s, status, worker, now),
    )
    if renewed.rowcount == 0:
        return None
    return dict(transaction.db.execute("SELECT number, fence FROM partitions WHERE worker = ?", (worker,)))


@step()
def leave_cluster(transaction: Transaction, worker: str, ended: bool = False) -> None:
    """Record that a worker is leaving, so that others take its share. With `ended`, its lease ends now."""
    until = ", until = 0" if ended else ""
    transaction.db.execute(f"UPDATE workers SET leaving = TRUE{until} WHERE name = ?", (worker,))


@step()
def claim_partitions(
    transaction: Transaction, worker: str, most: int, after_s: float = 0.0, has: tuple[int, ...] = ()
) -> tuple[Claimed, ...]:
    """Claim up to `most` free partitions; return the claimed partitions.

    Sandboxes of a worker whose lease has ended may run for up to `after_s` seconds after that end. `has`
    lists the partitions that the worker knows it owns. If the database says that the worker owns other
    partitions too, the answer to an earlier claim was lost, and these partitions are claimed again.
    """
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
        (PARTITIONS, now, most),
    ).fetchall()
    known = as_values(has) or "-1"
    free += db.execute(
        "SELECT number, worker, fence, ready_at FROM partitions"
        f" WHERE number < ? AND worker = ? AND number NOT IN ({known}) ORDER BY number{skip}",
        (PARTITIONS, worker),
    ).fetchall()
    claimed = []
    for number, owner, fence, ready_at in free:
        if owner is not None:  # not released: sandboxes of its former owner may still run
            ready_at = max(ready_at, now + after_s)
        claimed.append(Claimed(number, fence + 1, max(0.0, ready_at - now)))
        db.execute(
            "UPDATE partitions SET worker = ?, fence = ?, ready_at = ? WHERE number = ?",
            (worker, fence + 1, ready_at, number),
        )
    return tuple(claimed)


@step()
def release_partitions(transaction: Transaction, worker: str, numbers: tuple[int, ...]) -> None:
    """Release partitions in which this worker no longer runs anything."""
    if numbers:
        transaction.db.execute(
            "UPDATE partitions SET worker = NULL, ready_at = 0 WHERE worker = ?"
            f" AND number IN ({as_values(numbers)})",
            (worker,),
        )


_MEMBER: Final = (
    "SELECT name, version, address, started, until, leaving,"
    " (SELECT count(*) FROM partitions WHERE worker = name), status FROM workers"
)


@step()
def cluster_members(transaction: Transaction) -> tuple[Member, ...]:
    """Return the workers by name, including those whose lease ended less than `ENDED_LEASE_S` ago."""
    now = transaction.now()
    return tuple(_member(row, now) for row in transaction.db.execute(f"{_MEMBER} ORDER BY name"))


@step()
def owner_of_partition(transaction: Transaction, number: int) -> Member | None:
    """Return the worker that currently serves a partition."""
    now = transaction.now()
    row = transaction.db.execute(
        f"{_MEMBER} WHERE until > ? AND name = (SELECT worker FROM partitions WHERE number = ?)",
        (now, number),
    ).fetchone()
    return None if row is None else _member(row, now)


@step()
def partition_owners(transaction: Transaction) -> dict[int, str]:
    """Return the name of the current owner of each partition."""
    return dict(
        transaction.db.execute(
            "SELECT number, worker FROM partitions WHERE number < ?"
            " AND worker IN (SELECT name FROM workers WHERE until > ?)",
            (PARTITIONS, transaction.now()),
        )
    )


@step()
def worker_backlogs(transaction: Transaction) -> dict[str, WorkerBacklog]:
    """Return the backlog of each worker; the empty name stands for partitions that no worker serves."""
    db, served = transaction.db, partition_owners.do(transaction)
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


@step()
def touch(transaction: Transaction) -> None:
    """Do nothing. The reply shows that earlier requests have been executed and that the database works."""


def _member(row: tuple[str, str, str, float, float, int, int, str], now: float) -> Member:
    name, version, address, started, until, leaving, partitions, status = row
    try:
        status_fields = dict(json.loads(status))
    except (ValueError, TypeError):
        status_fields = {}
    return Member(name, version, address, started, until - now, bool(leaving), partitions, status_fields)
