"""Steps that decide which worker serves which chats, where several share a database.

A worker has one lease, which it renews; a lease that has ended is never renewed. Partitions of a worker whose
lease has ended are free. A claim raises the fence of a partition, so that the earlier worker's writes are
refused from then on. Times are by the database's clock.
"""

import json
from typing import Final

from rumi.journal.membership import (
    Backlog,
    Backlogs,
    Claim,
    Claimed,
    Join,
    Leave,
    Member,
    Members,
    OwnerOf,
    Owners,
    Release,
    Renew,
    Touch,
)
from rumi.journal.transaction import steps
from rumi.store.backend import as_values
from rumi.store.ownership import PARTITIONS
from rumi.store.steps import Transaction

KEPT_S: Final = 600.0
"""How long a worker whose lease has ended stays in the list."""


@steps.of(Join)
def join(request: Join, transaction: Transaction) -> None:
    """Store a worker, and the partitions in a database that is new."""
    db, now = transaction.db, transaction.now()
    db.executemany(
        "INSERT INTO partitions (number) VALUES (?) ON CONFLICT DO NOTHING",
        [(number,) for number in range(PARTITIONS + 1)],
    )
    db.execute("DELETE FROM workers WHERE until < ?", (now - KEPT_S,))
    db.execute(
        "INSERT INTO workers (name, version, address, started, until) VALUES (?1, ?2, ?3, ?4, ?5)"
        " ON CONFLICT (name) DO UPDATE SET until = ?5",  # the answer to an earlier attempt was lost
        (request.worker, request.version, request.address, now, now + request.lease_s),
    )


@steps.of(Renew)
def renew(request: Renew, transaction: Transaction) -> dict[int, int] | None:
    """Renew a lease that has not ended."""
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


@steps.of(Leave)
def leave(request: Leave, transaction: Transaction) -> None:
    """Note it."""
    until = ", until = 0" if request.ended else ""
    transaction.db.execute(f"UPDATE workers SET leaving = TRUE{until} WHERE name = ?", (request.worker,))


@steps.of(Claim)
def claim(request: Claim, transaction: Transaction) -> tuple[Claimed, ...]:
    """Take free partitions, the first ones first, and those of this worker that it does not know of."""
    db, now = transaction.db, transaction.now()
    skip = f"{transaction.lock_rows} SKIP LOCKED" if transaction.lock_rows else ""
    over = db.execute(f"SELECT name FROM workers WHERE until <= ?{skip}", (now,)).fetchall()
    # A renewal that waits for the row must find that it is too late.
    db.executemany("UPDATE workers SET until = 0 WHERE name = ? AND until > 0", over)
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
    (last,) = db.execute("SELECT coalesce(max(id), 0) FROM messages").fetchone()
    claimed = []
    for number, worker, fence, ready_at in free:
        if worker is not None:  # it has not handed the partition over
            ready_at = max(ready_at, now + request.after_s)
        claimed.append(Claimed(number, fence + 1, last, max(0.0, ready_at - now)))
        db.execute(
            "UPDATE partitions SET worker = ?, fence = ?, ready_at = ? WHERE number = ?",
            (request.worker, fence + 1, ready_at, number),
        )
    return tuple(claimed)


@steps.of(Release)
def release(request: Release, transaction: Transaction) -> None:
    """Free partitions of this worker."""
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


@steps.of(Members)
def members(request: Members, transaction: Transaction) -> tuple[Member, ...]:
    """Return the workers."""
    now = transaction.now()
    return tuple(_member(row, now) for row in transaction.db.execute(f"{_MEMBER} ORDER BY name"))


@steps.of(OwnerOf)
def owner_of(request: OwnerOf, transaction: Transaction) -> Member | None:
    """Return the worker of a partition, if its lease lasts."""
    now = transaction.now()
    row = transaction.db.execute(
        f"{_MEMBER} WHERE until > ? AND name = (SELECT worker FROM partitions WHERE number = ?)",
        (now, request.number),
    ).fetchone()
    return None if row is None else _member(row, now)


@steps.of(Owners)
def owners(request: Owners, transaction: Transaction) -> dict[int, str]:
    """Return who serves each partition, of workers whose lease lasts."""
    return dict(
        transaction.db.execute(
            "SELECT number, worker FROM partitions WHERE number < ?"
            " AND worker IN (SELECT name FROM workers WHERE until > ?)",
            (PARTITIONS, transaction.now()),
        )
    )


@steps.of(Backlogs)
def backlogs(request: Backlogs, transaction: Transaction) -> dict[str, Backlog]:
    """Count what waits."""
    db, served = transaction.db, owners(Owners(), transaction)
    found: dict[str, list[int]] = {}
    for place, sql in enumerate(
        (
            "SELECT partition_of(chat), count(*) FROM messages WHERE reply IS NULL GROUP BY 1",
            "SELECT partition_of(chat), count(*) FROM outbox WHERE delivered IS NULL GROUP BY 1",
        )
    ):
        for number, count in db.execute(sql):
            found.setdefault(served.get(number, ""), [0, 0])[place] += count
    return {worker: Backlog(*counts) for worker, counts in found.items()}


@steps.of(Touch)
def touch(request: Touch, transaction: Transaction) -> None:
    """Do nothing."""


def _member(row: tuple[str, str, str, float, float, int, int, str], now: float) -> Member:
    name, version, address, started, until, leaving, partitions, status = row
    try:
        says = dict(json.loads(status))
    except (ValueError, TypeError):
        says = {}
    return Member(name, version, address, started, until - now, bool(leaving), partitions, says)
