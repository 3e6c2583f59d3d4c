"""Two database backends, a SQLite file and a PostgreSQL server: open a database, classify its errors."""

import hashlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from rumi.platform.extras import require_extra
from rumi.store import sqlite
from rumi.store.ownership import partition_of
from rumi.store.protocol import Database, Trouble
from rumi.store.sqlite import LOCKED_S, OPEN_S, Schema, decoded

if TYPE_CHECKING:
    from rumi.store.postgres import Postgres

ENDED_S: Final = 10.0
"""Maximum wait until the server has ended a transaction whose connection was lost, in seconds."""


class Backend(Protocol):
    """A database that can be opened. All methods block."""

    @property
    def location(self) -> str:
        """Return the name that users see: a path, or a URL without its password."""
        ...

    @property
    def error(self) -> type[Exception]:
        """Return the base class of the exceptions of the database library."""
        ...

    @property
    def lock_rows(self) -> str:
        """Return the SQL suffix that makes a SELECT lock its rows until the transaction ends."""
        ...

    def open(self, name: str, schema: Schema) -> Database:
        """Connect, and upgrade the tables of a schema to the current version.

        Raises:
            DatabaseFault: The database cannot be used in its present state; the error says what to do.
            Exception: Connecting or upgrading failed. The exception is of the class `error`, or an OSError.
        """
        ...

    def trouble_of(self, error: Exception) -> Trouble | None:
        """Return the problem that prevents writing for now, such as a full disk; None for any other error."""
        ...

    def passes(self, error: Exception) -> bool:
        """Return True if the transaction may succeed when retried at once, for example after a conflict."""
        ...

    def why_unwritten(self, trouble: Trouble, error: object = "") -> tuple[str, str]:
        """Return two texts: the reason why the database cannot be written, and advice for the user."""
        ...

    def now(self, db: Database) -> float:
        """Return the time in seconds since 1970, by the clock that all clients of the database share."""
        ...

    def size(self, db: Database) -> int:
        """Return the size of the database in bytes."""
        ...

    def notify(self, db: Database, channel: str, payload: str) -> None:
        """Notify the listeners of a channel once the open transaction is committed."""
        ...

    def lock(self, db: Database, names: Iterable[str]) -> None:
        """Lock names until the transaction ends. Transactions that lock the same name run one at a time."""
        ...

    def mark(self, db: Database) -> str:
        """Return the id of the open transaction, to be passed to `committed` later."""
        ...

    def committed(self, db: Database, mark: str) -> bool:
        """Return True if the transaction with this id was committed.

        Needed when the reply to the COMMIT was lost.
        """
        ...


class SqliteFile:
    """A SQLite file.

    `notified` is called with the channel and payload of each notification that a transaction sends. `clock`
    returns the current time; all clients use the same clock.
    """

    error: type[Exception] = sqlite3.Error
    lock_rows = ""

    def __init__(
        self,
        path: Path,
        notified: Callable[[str, str], object] = lambda channel, payload: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self._notified = notified
        self._clock = clock

    @property
    def location(self) -> str:
        """Return the path."""
        return str(self.path)

    def open(self, name: str, schema: Schema) -> Database:
        """Open the file."""
        db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=OPEN_S)
        try:
            # One damaged byte on the disk must not make a whole chat unreadable.
            db.text_factory = decoded
            db.create_function("partition_of", 1, partition_of, deterministic=True)
            version = sqlite.checked_version(db, self.path, schema)
            sqlite.make_durable(db, self.path)
            sqlite.bring_up_to_date(db, self.path, schema, version)
            # Opening may wait long for a lock. From here on the wait is short, and the callers retry.
            db.execute(f"PRAGMA busy_timeout = {LOCKED_S * 1000:.0f}")
            # Users may delete facts and chats for good: SQLite overwrites deleted content with zeros.
            db.execute("PRAGMA secure_delete = ON")
        except BaseException:
            db.close()
            raise
        return db

    def trouble_of(self, error: Exception) -> Trouble | None:
        """Return the problem that prevents writing to the file for now; None for any other error."""
        return sqlite.trouble_of(self.path, error) if isinstance(error, sqlite3.Error | OSError) else None

    def passes(self, error: Exception) -> bool:
        """Return False: SQLite never aborts one transaction in favour of another."""
        return False

    def why_unwritten(self, trouble: Trouble, error: object = "") -> tuple[str, str]:
        """Return two texts: the reason why the file cannot be written, and advice for the user."""
        return sqlite.why_unwritten(self.path, trouble, error)

    def now(self, db: Database) -> float:
        """Return this machine's time."""
        return self._clock()

    def size(self, db: Database) -> int:
        """Return the size of the file in bytes, without its write-ahead log."""
        return self.path.stat().st_size

    def notify(self, db: Database, channel: str, payload: str) -> None:
        """Call `notified` immediately, without waiting for the commit."""
        self._notified(channel, payload)

    def lock(self, db: Database, names: Iterable[str]) -> None:
        """Do nothing: SQLite already runs only one writing transaction at a time."""

    def mark(self, db: Database) -> str:
        """Return an empty id: a COMMIT in SQLite always returns a result, so no id is needed."""
        return ""

    def committed(self, db: Database, mark: str) -> bool:
        """Return False: the result of a COMMIT in SQLite is never in doubt."""
        return False


class PostgresServer:
    """A PostgreSQL database.

    `more` maps a schema's name to additional SQL statements for a new database. Only PostgreSQL needs them.
    """

    lock_rows = " FOR UPDATE"

    def __init__(self, url: str, more: Mapping[str, str] | None = None, password: str = "") -> None:
        """Parse the URL, without connecting to the server.

        Raises:
            UsageError: The text is not the URL of a PostgreSQL database, or the URL contains a password.
        """
        # Commands on a home with SQLite files must not wait for psycopg, which takes long to import.
        require_extra("cluster")
        from rumi.store import postgres

        self._postgres = postgres
        self.server = postgres.server_of(url, password)
        self._more = more or {}

    @property
    def location(self) -> str:
        """Return the URL without user and password."""
        return str(self.server)

    @property
    def error(self) -> type[Exception]:
        """Return the base class of psycopg's errors."""
        return self._postgres.Postgres.error

    def open(self, name: str, schema: Schema, *, copying: bool = False) -> Database:
        """Connect, and upgrade the schema.

        With `copying`, also accept a database that contains an unfinished copy.
        """
        more = self._more.get(name, "")
        return self._prepared(
            lambda db: self._postgres.bring_up_to_date(db, name, schema, more, copying=copying)
        )

    def _prepared(self, prepare: "Callable[[Postgres], object]") -> "Postgres":
        """Connect, and call `prepare` with the connection; close the connection if `prepare` fails."""
        db = self._postgres.Postgres(self.server)
        try:
            prepare(db)
        except BaseException:
            db.close()
            raise
        return db

    def reader(self) -> "Postgres":
        """Return a read-only connection; each of its transactions sees one snapshot of the database."""
        sql = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
        return self._prepared(lambda db: db.execute(sql))

    def listener(self, channel: str) -> "Postgres":
        """Return a connection that receives the notifications of a channel."""
        return self._prepared(lambda db: db.execute(f"LISTEN {channel}"))

    def trouble_of(self, error: Exception) -> Trouble | None:
        """Return the problem that prevents writing for now; None for any other error."""
        return self._postgres.trouble_of(error)

    def passes(self, error: Exception) -> bool:
        """Return True if the error was a conflict with another transaction, which aborted this one."""
        return self._postgres.was_in_the_way(error)

    def why_unwritten(self, trouble: Trouble, error: object = "") -> tuple[str, str]:
        """Return two texts: the reason why the database cannot be written, and advice for the user."""
        return self._postgres.why_unwritten(self.server, trouble, error)

    def now(self, db: Database) -> float:
        """Return the server's time."""
        (now,) = db.execute(
            "SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
        ).fetchone()
        return float(now)

    def size(self, db: Database) -> int:
        """Return the size of the database."""
        return int(db.execute("SELECT pg_database_size(current_database())").fetchone()[0])

    def notify(self, db: Database, channel: str, payload: str) -> None:
        """Notify a channel."""
        db.execute("SELECT pg_notify(?, ?)", (channel, payload)).close()

    def lock(self, db: Database, names: Iterable[str]) -> None:
        """Lock names until the transaction ends."""
        # Every transaction locks in the same order, so that two of them cannot deadlock.
        for key in sorted({hashlib.sha256(name.encode("utf-8", "replace")).digest()[:8] for name in names}):
            db.execute("SELECT pg_advisory_xact_lock(?)", (int.from_bytes(key, "big", signed=True),)).close()

    def mark(self, db: Database) -> str:
        """Return the id that the server gave to the open transaction."""
        return str(db.execute("SELECT CAST(pg_current_xact_id() AS text)").fetchone()[0])

    def committed(self, db: Database, mark: str) -> bool:
        """Ask the server whether the transaction was committed.

        If the transaction is still running, wait up to `ENDED_S` seconds for its end.

        Raises:
            Exception: The server did not answer: an exception of the class `error`.
        """
        until = time.monotonic() + ENDED_S
        while True:
            # The server may need a moment to notice that the connection of the transaction is gone.
            (status,) = db.execute("SELECT pg_xact_status(CAST(? AS xid8))", (mark,)).fetchone()
            if status != "in progress" or time.monotonic() > until:
                return bool(status == "committed")
            time.sleep(0.05)


def backend_of(database: "Path | Backend") -> "Backend":
    """Return the backend for the path of a SQLite file; return a backend unchanged."""
    return SqliteFile(database) if isinstance(database, Path) else database


def closed(db: Database) -> None:
    """Close a connection that may be broken; ignore errors."""
    with suppress(Exception):
        db.close()


def as_values(numbers: Sequence[int]) -> str:
    """Return integers as a comma-separated list for SQL."""
    return ", ".join(str(int(number)) for number in numbers)
