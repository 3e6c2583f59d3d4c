"""The keys of an account's device, in a file of their own: `matrix/NAME.db` in the home. All methods block.

A ratchet that goes back to an earlier state would encrypt two messages with the same key. So a new state is
on the disk before what it encrypted is sent, and backups leave the file out.
"""

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rumi.errors import RumiError
from rumi.store.sqlite import OPEN_S, Schema, bring_up_to_date, checked_version, make_durable

KEPT_S: Final = 90 * 86_400.0
"""Retention of the keys of other people's messages, from when they came, in seconds."""

HANDLED_S: Final = 7 * 86_400.0
"""For how long a message between devices is recognised if it comes again, in seconds."""

MOST_WAITING: Final = 1_000
"""Maximum number of messages that wait for their keys."""

MOST_SESSIONS: Final = 8
"""Maximum number of sessions with one device. The least recently used ones are deleted."""

SCHEMA: Final = Schema(
    1,
    """
    CREATE TABLE own (one INTEGER PRIMARY KEY CHECK (one = 1), user TEXT, device TEXT, account TEXT);
    CREATE TABLE users (user TEXT PRIMARY KEY, stale INTEGER NOT NULL);
    CREATE TABLE devices (
        user TEXT, device TEXT, curve TEXT NOT NULL, ed TEXT NOT NULL, name TEXT NOT NULL,
        told INTEGER NOT NULL, gone INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (user, device)
    );
    CREATE TABLE sessions (
        curve TEXT, id TEXT, pickle TEXT NOT NULL, used REAL NOT NULL, PRIMARY KEY (curve, id)
    );
    CREATE TABLE inbound (
        room TEXT, id TEXT, user TEXT, curve TEXT NOT NULL, ed TEXT NOT NULL, pickle TEXT NOT NULL,
        came REAL NOT NULL, PRIMARY KEY (room, id, user)
    );
    CREATE TABLE indices (
        room TEXT, id TEXT, user TEXT, number INTEGER, event TEXT NOT NULL,
        PRIMARY KEY (room, id, user, number)
    );
    CREATE TABLE outbound (
        room TEXT PRIMARY KEY, id TEXT NOT NULL, pickle TEXT NOT NULL, made REAL NOT NULL,
        messages INTEGER NOT NULL
    );
    CREATE TABLE shared (id TEXT, user TEXT, device TEXT, PRIMARY KEY (id, user, device));
    CREATE TABLE rooms (
        room TEXT PRIMARY KEY, algorithm TEXT NOT NULL, period REAL NOT NULL, messages INTEGER NOT NULL
    );
    CREATE TABLE waiting (
        event TEXT PRIMARY KEY, room TEXT NOT NULL, id TEXT NOT NULL, user TEXT NOT NULL, raw TEXT NOT NULL,
        came REAL NOT NULL, asked INTEGER NOT NULL DEFAULT 0
    );
    CREATE TABLE handled (digest TEXT PRIMARY KEY, at REAL NOT NULL);
    """,
    {},
)


class KeysUnusable(RumiError):
    """The keys of the account cannot be used, so encrypted rooms cannot be read."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device of a user: its keys for sessions (`curve`) and for signatures (`ed`), in base64."""

    user: str
    id: str
    curve: str
    ed: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class WaitingEvent:
    """A message whose key has not come. `raw` is the event as JSON, `session` the key's name."""

    event: str
    room: str
    session: str
    user: str
    raw: str


class KeyStore:
    """The file, with one connection. `key` encrypts the secrets in it."""

    def __init__(self, path: Path, token: str) -> None:
        self._path = path
        # The token and the device's keys have the same life: a new login makes a new device. So a copy of the
        # file without the token is of no use, and no second secret has to be kept.
        self.key = hashlib.blake2b(token.encode(), digest_size=32, person=b"rumi matrix keys").digest()
        self._db: sqlite3.Connection | None = None

    @property
    def db(self) -> sqlite3.Connection:
        """Return the connection; the first call opens the file."""
        if self._db is None:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            db = sqlite3.connect(self._path, timeout=OPEN_S, isolation_level=None, check_same_thread=False)
            try:
                make_durable(db, self._path)
                bring_up_to_date(db, self._path, SCHEMA, checked_version(db, self._path, SCHEMA))
            except BaseException:
                db.close()
                raise
            self._db = db
        return self._db

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def start_over(self) -> None:
        """Delete the keys of an earlier device."""
        self.close()
        for end in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + end).unlink(missing_ok=True)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make the changes of the block at once; an error in it undoes them."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    def rows(self, sql: str, *values: object) -> list[Any]:
        """Return the rows of a query."""
        return self.db.execute(sql, values).fetchall()

    def change(self, sql: str, *values: object) -> int:
        """Change rows; return how many."""
        return self.db.execute(sql, values).rowcount

    # Devices

    def stale(self, users: Sequence[str]) -> dict[str, int]:
        """Return the users whose devices are unknown or have changed, with the number of the change."""
        for user in users:
            self.change("INSERT INTO users VALUES (?, 1) ON CONFLICT DO NOTHING", user)
        wanted = set(users)
        changed = self.rows("SELECT user, stale FROM users WHERE stale > 0")
        return {user: change for user, change in changed if user in wanted}

    def note_stale(self, users: Sequence[str]) -> None:
        """Record that the devices of users have changed. Users of whom nothing is known are not recorded."""
        for user in users:
            self.change("UPDATE users SET stale = stale + 1 WHERE user = ?", user)

    def note_devices(self, user: str, found: Sequence[Device], change: int, *, tell: bool) -> list[Device]:
        """Store the devices of a user; return those whose keys differ from before, which are not taken.

        They are up to date if nothing has changed since `change`. The first keys of a device count for ever.
        With `tell`, a device that comes later is told to its rooms.
        """
        first = not self.rows("SELECT 1 FROM devices WHERE user = ?", user)
        self.change("UPDATE devices SET gone = 1 WHERE user = ?", user)
        changed = []
        for device in found:
            self.change(
                "INSERT INTO devices (user, device, curve, ed, name, told) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                *(user, device.id, device.curve, device.ed, device.name, int(first or not tell)),
            )
            same = self.change(
                "UPDATE devices SET gone = 0 WHERE user = ? AND device = ? AND curve = ? AND ed = ?",
                *(user, device.id, device.curve, device.ed),
            )
            if not same:
                changed.append(device)
        self.change("UPDATE users SET stale = 0 WHERE user = ? AND stale = ?", user, change)
        return changed

    def devices(self, users: Sequence[str]) -> list[Device]:
        """Return the present devices of users."""
        wanted = set(users)
        found = self.rows("SELECT user, device, curve, ed, name FROM devices WHERE gone = 0")
        return [Device(*row) for row in found if row[0] in wanted]

    def untold(self, user: str, device: str) -> bool:
        """Return True once for a device that is to be told to a room."""
        sql = "UPDATE devices SET told = 1 WHERE user = ? AND device = ? AND told = 0"
        return self.change(sql, user, device) > 0

    # Events between devices

    def is_new(self, digest: str, now: float) -> bool:
        """Record an event between devices; return False if it came before."""
        return self.change("INSERT INTO handled VALUES (?, ?) ON CONFLICT DO NOTHING", digest, now) > 0

    def forget_old(self, now: float) -> None:
        """Delete what is older than its retention."""
        self.change("DELETE FROM handled WHERE at < ?", now - HANDLED_S)
        for key in self.rows("SELECT room, id, user FROM inbound WHERE came < ? LIMIT 100", now - KEPT_S):
            self.change("DELETE FROM inbound WHERE room = ? AND id = ? AND user = ?", *key)
            self.change("DELETE FROM indices WHERE room = ? AND id = ? AND user = ?", *key)

    # Messages without a key

    def wait(self, waiting: WaitingEvent, now: float) -> bool:
        """Keep a message until its key comes; return False if there is no room for it."""
        if self.rows("SELECT count(*) FROM waiting")[0][0] >= MOST_WAITING:
            return False
        self.change(
            "INSERT INTO waiting (event, room, id, user, raw, came) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            *(waiting.event, waiting.room, waiting.session, waiting.user, waiting.raw, now),
        )
        return True

    def waiting(self, room: str | None = None) -> list[WaitingEvent]:
        """Return the messages that wait, of one room or of all, oldest first."""
        return [
            WaitingEvent(*row)
            for row in self.rows(
                "SELECT event, room, id, user, raw FROM waiting WHERE ? IS NULL OR room = ? ORDER BY rowid",
                *(room, room),
            )
        ]

    def unasked(self) -> list[WaitingEvent]:
        """Return a message of each key that was not asked for yet."""
        sql = "SELECT event, room, id, user, raw FROM waiting WHERE asked = 0 GROUP BY room, id, user"
        return [WaitingEvent(*row) for row in self.rows(sql)]

    def note_asked(self, waiting: WaitingEvent) -> None:
        """Record that the key of a message was asked for."""
        sql = "UPDATE waiting SET asked = 1 WHERE room = ? AND id = ? AND user = ?"
        self.change(sql, waiting.room, waiting.session, waiting.user)

    def drop_waiting(self, events: Sequence[str]) -> None:
        """Forget messages that were read, or that are given up."""
        for event in events:
            self.change("DELETE FROM waiting WHERE event = ?", event)

    def overdue(self, before: float) -> list[WaitingEvent]:
        """Return the messages that have waited since `before`."""
        return [
            WaitingEvent(*row)
            for row in self.rows("SELECT event, room, id, user, raw FROM waiting WHERE came < ?", before)
        ]
