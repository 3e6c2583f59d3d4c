"""Reads the workers of a database for `rumi status --all`, even if none of them runs on this machine."""

from typing import Any, Final

from rumi.platform.timestamps import utc
from rumi.store.backend import PostgresServer
from rumi.store.journal.leases import Member, WorkerBacklog, cluster_members, worker_backlogs
from rumi.store.journal.store import Store

_FIGURES: Final = ("turns", "tasks", "waiting", "trouble")


def read_workers(server: PostgresServer) -> dict[str, Any]:
    """Return the workers, and the backlog of the partitions that no worker serves. This function blocks.

    Raises:
        JournalError: The database does not answer.
    """
    store = Store(server, now=None)
    try:
        members, backlogs = store.run([cluster_members(), worker_backlogs()])
    finally:
        store.close()
    assert isinstance(members, tuple)
    assert isinstance(backlogs, dict)
    served = {member.name for member in members if member.left_s > 0}
    left = [backlog for worker, backlog in backlogs.items() if worker not in served]
    return {
        "workers": [_as_json(member, backlogs.get(member.name, WorkerBacklog())) for member in members],
        "unserved": {
            "queued": sum(backlog.queued for backlog in left),
            "undelivered": sum(backlog.undelivered for backlog in left),
        },
    }


def _as_json(member: Member, backlog: WorkerBacklog) -> dict[str, object]:
    """Return a worker as JSON; times are in seconds. `lag_s` is the age of its last reported status."""
    lease_s = member.status.get("lease_s")
    live = isinstance(lease_s, int | float) and member.left_s > 0
    lag_s = float(lease_s) - member.left_s if live else None  # type: ignore[arg-type]
    return {
        "name": member.name,
        "version": member.version,
        "address": member.address,
        "state": "ended" if member.left_s <= 0 else "leaving" if member.leaving else "running",
        "started": utc(member.started),
        "lease_left_s": round(max(0.0, member.left_s), 3),
        "partitions": member.partitions if member.left_s > 0 else 0,
        "queued": backlog.queued,
        "undelivered": backlog.undelivered,
        "lag_s": None if lag_s is None else round(max(0.0, lag_s), 3),
        **{name: member.status.get(name) for name in _FIGURES},
    }
