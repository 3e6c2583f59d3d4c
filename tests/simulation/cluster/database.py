"""The database that all workers share, and what comes over the way to it.

The statements are the real ones, on one SQLite file, whose transactions follow one another. A worker that is
cut off gets no answer; a commit may be done and its answer lost; notifications may be lost.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import trio

from rumi.store.backend import SqliteFile
from rumi.store.ownership import channel_of, woken
from rumi.store.protocol import Database, Rows, Trouble
from rumi.store.sqlite import Schema
from tests.simulation.world import World


class Away(sqlite3.OperationalError):
    """The server does not answer."""


class Server:
    """The database server. `down_until`: nobody reaches it before that time, on trio's clock."""

    def __init__(self, world: World, path: Path) -> None:
        self.world = world
        self.file = SqliteFile(path, self._notify, world.now)
        self.down_until = 0.0
        self.leases: dict[str, float] = {}
        """When the lease of each worker ends, on trio's clock."""
        self._listeners: dict[str, FakeNotifications] = {}

    @property
    def down(self) -> bool:
        """Return True while nobody reaches it."""
        return trio.current_time() < self.down_until

    def _notify(self, channel: str, payload: str) -> None:
        listener = self._listeners.get(channel)
        if listener is None or listener.way.cut or self.world.dice("notifications", 0.1):
            self.world.counts["notifications lost"] += 1
            return
        listener.take(woken(payload))

    def listen(self, listener: "FakeNotifications") -> None:
        """Notifications for a worker reach this ear from now on."""
        self._listeners = {name: other for name, other in self._listeners.items() if other is not listener}
        self._listeners[channel_of(listener.worker)] = listener

    def unlisten(self, listener: "FakeNotifications") -> None:
        """Nothing reaches it any more."""
        self._listeners = {name: other for name, other in self._listeners.items() if other is not listener}


class Way:
    """A worker's way to the server: a backend, as its stores see it. `cut_until` is on trio's clock.

    `unsure` is how often a commit is done or not, and its answer lost, of so many.
    """

    error = sqlite3.Error
    lock_rows = ""
    location = "the database"

    def __init__(self, server: Server) -> None:
        self.server = server
        self.cut_until = 0.0
        self.unsure = 0.0
        self.dead = False
        self.counts: Counter[str] = server.world.counts

    @property
    def cut(self) -> bool:
        """Return True while the server is not reached."""
        return self.dead or self.server.down or trio.current_time() < self.cut_until

    def open(self, name: str, schema: Schema) -> Database:
        """Connect."""
        if self.cut:
            raise Away("no route")
        return Connection(self, self.server.file.open(name, schema))

    def trouble_of(self, error: Exception) -> Trouble | None:
        """Return why the database cannot be written now."""
        return "away" if isinstance(error, Away) else None

    def passes(self, error: Exception) -> bool:
        """Return False: transactions follow one another."""
        return False

    def why_unwritten(self, trouble: Trouble, error: object = "") -> tuple[str, str]:
        """Return why it cannot be written."""
        return f"the database is {trouble}", "Wait."

    def now(self, db: Database) -> float:
        """Return the server's time."""
        return self.server.world.now()

    def size(self, db: Database) -> int:
        """Return nothing that anybody looks at."""
        return 0

    def notify(self, db: Database, channel: str, payload: str) -> None:
        """Notify a channel."""
        self.server.file.notify(db, channel, payload)


class Connection:
    """A connection of a worker. `broken`: it is to be opened again."""

    def __init__(self, way: Way, db: Database) -> None:
        self._way = way
        self._db = db
        self._changes = 0
        self.broken = False

    @property
    def in_transaction(self) -> bool:
        """Return True between BEGIN and COMMIT."""
        return not self.broken and self._db.in_transaction

    def execute(self, sql: str, parameters: Any = (), /) -> Rows:
        """Execute a statement, if the server is reached."""
        way = self._way
        if self.broken or way.cut:
            self._break()
            raise Away("the connection has ended")
        if sql.startswith("BEGIN"):
            self._changes = self._db.total_changes  # type: ignore[attr-defined]
        elif sql == "COMMIT" and self._db.total_changes != self._changes:  # type: ignore[attr-defined]
            random = way.server.world.random
            if not way.server.world.calm and way.unsure and random.random() < way.unsure:
                done = random.random() < 0.6
                way.counts["commits without an answer"] += 1
                way.server.world.note("database", f"has lost the answer of a commit that is done: {done}")
                if done:
                    self._db.execute("COMMIT")
                self._break()
                raise Away("no answer to a commit")
        return self._db.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Rows:
        """Execute a statement once for each set of parameters."""
        if self.broken:
            raise Away("the connection has ended")
        return self._db.executemany(sql, parameters)

    def _break(self) -> None:
        if not self.broken:
            self.broken = True
            self.close()

    def close(self) -> None:
        """Close it: what is not committed is rolled back."""
        with suppress(sqlite3.Error):
            self._db.close()


class FakeNotifications:
    """Hears what is notified to a worker, unless it is lost on the way."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self.worker = ""
        self._chats: set[str] = set()
        self._heard = trio.Event()

    def take(self, chats: Iterable[str]) -> None:
        """A notification has come."""
        self._chats.update(chats)
        self._heard.set()

    async def receive(self, worker: str) -> tuple[str, ...]:
        """Return the chats of the next notifications."""
        if worker != self.worker:
            self.worker = worker
            self.way.server.listen(self)
        while not self._chats:
            self._heard = trio.Event()
            await self._heard.wait()
        chats, self._chats = self._chats, set()
        return tuple(sorted(chats))

    def close(self) -> None:
        """Hear nothing any more."""
        self.way.server.unlisten(self)
