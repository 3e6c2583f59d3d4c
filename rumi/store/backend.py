"""The two kinds of database that a store may be: how to open one, and what its errors mean."""

import hashlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from rumi.store import sqlite
from rumi.store.ownership import partition_of
from rumi.store.protocol import Database, Trouble
from rumi.store.sqlite import LOCKED_S, OPEN_S, Schema, decoded

if TYPE_CHECKING:
    from rumi.store.postgres import Postgres

ENDED_S: Final = 10.0
"""How long a server may take to end a transaction whose client it has lost."""


class Backend(Protocol):
    """A database that can be opened. Blocking."""

    @property
    def location(self) -> str:
        """Return what users call it: a path, or a URL without its password."""
        ...

    @property
    def error(self) -> type[Exception]:
        """Return the class of its errors."""
        ...

    @property
    def lock_rows(self) -> str:
        """Return the end of a SELECT that locks what it finds until the transaction ends."""
        ...

    def open(self, name: str, schema: Schema) -> Database:
        """Connect, and bring the tables of a schema up to date.

        Raises:
            DatabaseFault: It cannot be used as it is; the error says what to do.
            Exception: `error`, or an OSError: it cannot be opened.
        """
        ...

    def trouble_of(self, error: Exception) -> Trouble | None:
        """Return why it cannot be written now, or None for another, permanent error."""
        ...

    def passes(self, error: Exception) -> bool:
        """Return True if the same transaction may succeed when it is tried again at once."""
        ...

    def why_unwritten(self, trouble: Trouble, error: object = "") -> tuple[str, str]:
        """Return a sentence on why it cannot be written, and what to do."""
        ...

    def now(self, db: Database) -> float:
        """Return the time by the clock that all its users share, in seconds since 1970."""
        ...

    def size(self, db: Database) -> int:
        """Return its size in bytes."""
        ...

    def notify(self, db: Database, channel: str, payload: str) -> None:
        """Notify the listeners of a channel when the transaction is committed."""
        ...

    def lock(self, db: Database, names: Iterable[str]) -> None:
        """Have transactions that lock the same names follow one another."""
        ...

    def mark(self, db: Database) -> str:
        """Return a name for the open transaction, to ask later if it was committed."""
        ...

    def committed(self, db: Database, mark: str) -> bool:
        """Return True if a transaction whose commit had no answer was committed."""
        ...


class SqliteFile:
    """A SQLite file. `notified` gets what is notified; `clock` is the time that its users share."""

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
            # One letter that a disk has spoilt must not make all of a chat unreadable.
            db.text_factory = decoded
            db.create_function("partition_of", 1, partition_of, deterministic=True)
            version = sqlite.checked_version(db, self.path, schema)
            sqlite.make_durable(db, self.path)
            sqlite.bring_up_to_date(db, self.path, schema, version)
            db.execute(f"PRAGMA busy_timeout = {LOCKED_S * 1000:.0f}")
            db.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
        except BaseException:
            db.close()
            raise
        return db

    def trouble_of(self, error: Exception) -> Trouble | None:
        """Return why the file cannot be written now."""
        return sqlite.trouble_of(self.path, error) if isinstance(error, sqlite3.Error | OSError) else None

    def passes(self, error: Exception) -> bool:
        """Return False: others never end a transaction here."""
        return False

    def why_unwritten(self, trouble: Trouble, error: object = "") -> tuple[str, str]:
        """Return why the file cannot be written."""
        return sqlite.why_unwritten(self.path, trouble, error)

    def now(self, db: Database) -> float:
        """Return this machine's time."""
        return self._clock()

    def size(self, db: Database) -> int:
        """Return the size of the file without its log."""
        return self.path.stat().st_size

    def notify(self, db: Database, channel: str, payload: str) -> None:
        """Tell it at once: nobody else reads before the commit."""
        self._notified(channel, payload)

    def lock(self, db: Database, names: Iterable[str]) -> None:
        """Do nothing: one transaction writes at a time."""

    def mark(self, db: Database) -> str:
        """Return nothing: a commit always has an answer."""
        return ""

    def committed(self, db: Database, mark: str) -> bool:
        """Return False."""
        return False


class PostgresServer:
    """A PostgreSQL database. `more` are statements for new tables that SQLite does not need."""

    lock_rows = " FOR UPDATE"

    def __init__(self, url: str, more: Mapping[str, str] | None = None, password: str = "") -> None:
        """Raise `UsageError` if the URL is not one."""
        from rumi.store import postgres  # its library takes long to load

        self._postgres = postgres
        self.server = postgres.server_of(url, password)
        self._more = more or {}

    @property
    def location(self) -> str:
        """Return the URL without its user."""
        return str(self.server)

    @property
    def error(self) -> type[Exception]:
        """Return the class of the library's errors."""
        return self._postgres.Postgres.error

    def open(self, name: str, schema: Schema, *, copying: bool = False) -> Database:
        """Connect. Only `copying` takes a database whose copy is not complete."""
        more = self._more.get(name, "")
        return self._prepared(
            lambda db: self._postgres.bring_up_to_date(db, name, schema, more, copying=copying)
        )

    def _prepared(self, prepare: "Callable[[Postgres], object]") -> "Postgres":
        """Connect, and prepare the connection; close it if that fails."""
        db = self._postgres.Postgres(self.server)
        try:
            prepare(db)
        except BaseException:
            db.close()
            raise
        return db

    def reader(self) -> "Postgres":
        """Return a connection that cannot write; its transactions read what was there at their start."""
        sql = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
        return self._prepared(lambda db: db.execute(sql))

    def listener(self, channel: str) -> "Postgres":
        """Return a connection that listens to a channel."""
        return self._prepared(lambda db: db.execute(f"LISTEN {channel}"))

    def trouble_of(self, error: Exception) -> Trouble | None:
        """Return why the database cannot be written now."""
        return self._postgres.trouble_of(error)

    def passes(self, error: Exception) -> bool:
        """Return True if another transaction was in the way."""
        return self._postgres.was_in_the_way(error)

    def why_unwritten(self, trouble: Trouble, error: object = "") -> tuple[str, str]:
        """Return why the database cannot be written."""
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
        """Lock the names, in an order that all have in common; the end of the transaction unlocks them."""
        for key in sorted({hashlib.sha256(name.encode("utf-8", "replace")).digest()[:8] for name in names}):
            db.execute("SELECT pg_advisory_xact_lock(?)", (int.from_bytes(key, "big", signed=True),)).close()

    def mark(self, db: Database) -> str:
        """Return the number that the server gives the transaction."""
        return str(db.execute("SELECT CAST(pg_current_xact_id() AS text)").fetchone()[0])

    def committed(self, db: Database, mark: str) -> bool:
        """Ask the server, until the transaction has ended there too.

        Raises:
            Exception: `error`: the server did not say.
        """
        until = time.monotonic() + ENDED_S
        while True:
            (status,) = db.execute("SELECT pg_xact_status(CAST(? AS xid8))", (mark,)).fetchone()
            if status != "in progress" or time.monotonic() > until:
                return bool(status == "committed")
            time.sleep(0.05)


def backend_of(database: "Path | Backend") -> "Backend":
    """Return the backend of a file, or the one that is given."""
    return SqliteFile(database) if isinstance(database, Path) else database


def closed(db: Database) -> None:
    """Close a connection that may be broken."""
    with suppress(Exception):
        db.close()


def as_values(numbers: Sequence[int]) -> str:
    """Return whole numbers as a list in SQL."""
    return ", ".join(str(int(number)) for number in numbers)
