"""SQLite on a disk that may be full: what it writes is refused as SQLite refuses it, and reading goes on."""

import sqlite3
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import trio

from rumi.memory.store import MemoryStore as Memory
from rumi.platform.home import Home
from rumi.store.journal.store import Store as Journal
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


@cache
def emptied() -> tuple[bytes, bytes]:
    """What `state.db` and `memory.db` hold in which nothing was written yet."""
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        Journal(home.state_db).close()
        Memory(home.memory_db).close()
        return home.state_db.read_bytes(), home.memory_db.read_bytes()


def furnish(home: Home) -> None:
    """Put both files into a home as an earlier process would have left them: making them takes its time."""
    for path, content in zip((home.state_db, home.memory_db), emptied(), strict=True):
        path.write_bytes(content)


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
