"""SQLite on a disk that may be full: what it writes is refused as SQLite refuses it, and reading goes on."""

import sqlite3
from typing import Any

import trio

from tests.simulation.world import World


def on_the_disk_of(world: World) -> type[sqlite3.Connection]:
    """Connections whose commits fail while the world's disk is full."""

    class Connection(sqlite3.Connection):
        changes = 0
        """How much had been changed when the transaction began."""

        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if sql.startswith("BEGIN"):
                self.changes = self.total_changes
            elif sql == "COMMIT" and self.total_changes != self.changes and full(world):
                super().execute("ROLLBACK")
                raise disk_full(world)
            elif sql.startswith("PRAGMA user_version =") and full(world):
                raise disk_full(world)
            elif sql.startswith("INSERT INTO outbox") and world.fails_behind:
                world.fails_behind = "now"
            return super().execute(sql, *values)

    return Connection


def full(world: World) -> bool:
    """Whether nothing can be written now."""
    return world.full_until > 0 and trio.current_time() < world.full_until


def disk_full(world: World) -> sqlite3.OperationalError:
    """What SQLite raises."""
    world.counts["writes on a full disk"] += 1
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    error.sqlite_errorname = "SQLITE_FULL"
    return error
