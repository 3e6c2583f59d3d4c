"""The state that is indexed: tables in the home's `state.db` or in a database that several workers share.

The same SQL reads both, so the same rules decide which rows are indexed and shown. Three things differ
between `state.db` and a shared database: how a passage of the index is found in the tables, up to which id
all rows are committed (with several writers, a lower id can be committed later), and how many rows are
indexed.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from rumi.store.backend import PostgresServer, closed
from rumi.store.protocol import Database, Rows
from rumi.store.steps import Transaction

if TYPE_CHECKING:
    from rumi.store.postgres import Postgres

Followed: TypeAlias = Literal["history", "tasks", "episodes"]
"""The followed tables: history and episodes by their `id`, tasks by the time of their end."""

PassageRow: TypeAlias = tuple[int, str, str, int, str, int, int]
"""A row of `passages`: id, kind, chat, session, turn, first, last."""

MOST_ENTRIES: Final = 2_000_000
"""Maximum number of entries of a shared history that an index follows; it follows only the latest ones."""

SKEW_S: Final = 3600.0
"""Maximum difference between the clocks of workers, which date the ends of tasks, in seconds."""

_COLUMNS: Final = "id, kind, chat, session, turn, first, last"


class StateTables(Protocol):
    """The tables that an open index is built from. Blocking; used only by the thread of the index."""

    @property
    def error(self) -> type[Exception]:
        """The class of the exceptions that are raised if the tables cannot be read."""
        ...

    def snapshot(self) -> AbstractContextManager[object]:
        """Return a context manager; all reads within its block see the same state."""
        ...

    def read(self, sql: str, parameters: Any = (), /) -> Rows:
        """Execute a query, written in SQL that both SQLite and PostgreSQL accept."""
        ...

    def passages(self, condition: str, after: int, last: int) -> list[PassageRow]:
        """Return the passages that fulfil a condition, with ids greater than `after` and at most `last`.

        The condition is SQL that may use the columns of `passages` and the tables of the state.
        """
        ...

    def begin(self, what: Followed) -> float:
        """Return the cursor after which the next batch of rows begins."""
        ...

    def looked(self, what: Followed, last: float | None, more: bool) -> None:
        """Store the cursor after an indexed batch of rows.

        `last` is the cursor of the batch's last row, None if the batch was empty. `more` is true if the batch
        was full.
        """
        ...

    def oldest(self) -> int:
        """Return the id of a history entry: only entries with greater ids are indexed."""
        ...

    def is_another(self) -> bool:
        """Return True if the index was built from another state."""
        ...

    def cut(self) -> None:
        """Make a thread that is waiting for the database fail at once. May be called from any thread."""
        ...

    def close(self) -> None:
        """Close the connection to the tables."""
        ...


@dataclass(frozen=True, slots=True)
class Indexing(Transaction):
    """The open transaction of an index, and the state that the index is built from."""

    state: StateTables = field(kw_only=True)


def cursor(index: Database, name: str) -> float:
    """Return a stored cursor of the index, 0 if it is not set."""
    row = index.execute("SELECT value FROM cursors WHERE name = ?", (name,)).fetchone()
    return 0.0 if row is None else float(row[0])


def set_cursor(index: Database, name: str, value: float) -> None:
    """Store a cursor in the index."""
    index.execute("INSERT OR REPLACE INTO cursors (name, value) VALUES (?, ?)", (name, value))


class AttachedFile:
    """The home's `state.db`, attached read-only. Its ids grow in the order of commits."""

    error: type[Exception] = sqlite3.Error

    def __init__(self, index: sqlite3.Connection, path: Path) -> None:
        self._index = index
        index.execute("ATTACH ? AS state", (f"{path.absolute().as_uri()}?mode=ro",))

    def snapshot(self) -> AbstractContextManager[object]:
        """Do nothing: the transaction of the index includes both files."""
        return contextlib.nullcontext()

    def read(self, sql: str, parameters: Any = (), /) -> Rows:
        """Execute a statement."""
        return self._index.execute(sql, parameters)

    def passages(self, condition: str, after: int, last: int) -> list[PassageRow]:
        """Return the passages that fulfil a condition."""
        return self._index.execute(
            f"SELECT {_COLUMNS} FROM passages WHERE id > ? AND id <= ? AND ({condition})", (after, last)
        ).fetchall()

    def begin(self, what: Followed) -> float:
        """Return the cursor after which the next batch of rows begins."""
        return cursor(self._index, what)

    def looked(self, what: Followed, last: float | None, more: bool) -> None:
        """Store the cursor of the last row of a batch."""
        if last is not None:
            set_cursor(self._index, what, last)

    def oldest(self) -> int:
        """Return 0: the complete history is indexed."""
        return 0

    def is_another(self) -> bool:
        """Return True if the index is ahead of the file's history, or was built from a shared database."""
        row = self.read("SELECT seq FROM state.sqlite_sequence WHERE name = 'history'").fetchone()
        return cursor(self._index, "history") > (0 if row is None else row[0]) or bool(_origins(self._index))

    def cut(self) -> None:
        """Do nothing: a thread never waits long for a file."""

    def close(self) -> None:
        """Do nothing: the file is closed with the index."""


class SharedDatabase:
    """A PostgreSQL database, over a separate connection that cannot write.

    In PostgreSQL a lower id may be committed later than a higher one. So for a table with such ids, the index
    stores two cursors: one for the rows read so far, and `settled`. No new row can appear with an id up to
    `settled`. Each catch-up reads the rows after `settled` again, until all transactions that could still
    commit a row with an id in this range have ended.

    Raises:
        psycopg.Error: the server does not answer.
    """

    def __init__(
        self, index: sqlite3.Connection, server: PostgresServer, most_entries: int = MOST_ENTRIES
    ) -> None:
        self._index = index
        self._most = most_entries
        self._final: dict[Followed, bool] = {}
        self.error = server.error
        self._db: Postgres = server.reader()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read within one transaction, which sees everything committed before its first statement."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            with contextlib.suppress(self.error):  # a broken connection fails at its next use
                self._db.execute("ROLLBACK")

    def read(self, sql: str, parameters: Any = (), /) -> Rows:
        """Execute a statement."""
        return self._db.execute(sql, parameters)

    def passages(self, condition: str, after: int, last: int) -> list[PassageRow]:
        """Return the passages that fulfil a condition. They are sent to the database, which checks it."""
        rows = self._index.execute(
            f"SELECT {_COLUMNS} FROM passages WHERE id > ? AND id <= ?", (after, last)
        ).fetchall()
        if not rows:
            return []
        return self.read(
            "WITH passages AS (SELECT * FROM unnest(CAST(? AS bigint[]), CAST(? AS text[]),"
            " CAST(? AS text[]), CAST(? AS bigint[]), CAST(? AS text[]), CAST(? AS bigint[]),"
            f" CAST(? AS bigint[])) AS p ({_COLUMNS})) SELECT {_COLUMNS} FROM passages WHERE {condition}",
            [list(column) for column in zip(*rows, strict=True)],
        ).fetchall()

    def begin(self, what: Followed) -> float:
        """Return the cursor after which the next batch begins.

        If `settled` can advance, the batch begins after `settled`, so that it contains the unsettled rows
        again.
        """
        at = cursor(self._index, what)
        if what == "tasks":
            return at
        settled = cursor(self._index, f"{what}.settled")
        if what == "history" and settled < (oldest := self.oldest()):
            settled = oldest
            set_cursor(self._index, "history.settled", settled)
        # Decided in the snapshot that reads the slice: if it is final, the slice misses no row up to the
        # mark, and `looked` may advance `settled`.
        self._final[what] = self._is_final(what, settled)
        return settled if self._final[what] else max(at, settled)

    def looked(self, what: Followed, last: float | None, more: bool) -> None:
        """Store the cursors after a batch; at the end of the table, go back to the rows not yet settled."""
        if what == "tasks":
            # Another worker's clock may be slow: its tasks can still end before the latest time seen here.
            latest = max(last or 0.0, cursor(self._index, "tasks.latest"))
            set_cursor(self._index, "tasks.latest", latest)
            set_cursor(self._index, what, last if more and last is not None else max(0.0, latest - SKEW_S))
            return
        settled, mark = cursor(self._index, f"{what}.settled"), cursor(self._index, f"{what}.mark")
        if self._final.pop(what):
            settled = max(settled, min(last, mark) if more and last is not None else mark)
            set_cursor(self._index, f"{what}.settled", settled)
            if settled >= mark:
                set_cursor(self._index, f"{what}.mark", 0.0)
        set_cursor(self._index, what, last if more and last is not None else settled)

    def _is_final(self, what: Followed, settled: float) -> bool:
        """Return True if it is certain in this snapshot that no new row can appear with an id up to the mark.

        The mark is an id with a transaction number. Every transaction that had drawn an id up to the mark has
        a lower number: a transaction of the journal first locks rows, and so already has its number when it
        draws an id.
        """
        if cursor(self._index, f"{what}.mark") <= settled:
            # First the newest id, then the number: every transaction that has drawn an id up to the newest
            # one already has its own number, which is lower than this one.
            (newest,) = self.read(f"SELECT coalesce(max(id), 0) FROM {what}").fetchone()
            if newest > settled:
                (number,) = self.read("SELECT CAST(CAST(pg_current_xact_id() AS text) AS bigint)").fetchone()
                set_cursor(self._index, f"{what}.mark", newest)
                set_cursor(self._index, f"{what}.number", number)
            return False
        (running,) = self.read(
            "SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)"
        ).fetchone()
        return bool(running >= cursor(self._index, f"{what}.number"))

    def oldest(self) -> int:
        """Return the id of a history entry; only the latest entries, with greater ids, are indexed."""
        (newest,) = self.read("SELECT coalesce(max(id), 0) FROM history").fetchone()
        return max(0, int(newest) - self._most)

    def is_another(self) -> bool:
        """Return True if the index was built from another database, or from this one before it was restored.

        An empty index is assigned to this database.
        """
        system, line, database, table, ever = self.read(
            "SELECT CAST(system_identifier AS text), substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8),"
            " (SELECT CAST(oid AS text) FROM pg_database WHERE datname = current_database()),"
            " CAST(CAST(CAST('history' AS regclass) AS oid) AS text),"
            " coalesce(pg_sequence_last_value(CAST(pg_get_serial_sequence('history', 'id') AS regclass)), 0)"
            " FROM pg_control_system()"
        ).fetchone()
        this, origins = f"of {system} {line} {database} {table}", _origins(self._index)
        if not origins and not self._index.execute("SELECT 1 FROM cursors").fetchone():
            set_cursor(self._index, this, 0.0)
            return False
        return origins != [this] or cursor(self._index, "history.settled") > ever

    def cut(self) -> None:
        """Close the connection's socket, so that a thread blocked on the socket fails at once."""
        self._db.cut()

    def close(self) -> None:
        """Close the connection."""
        closed(self._db)


def _origins(index: Database) -> list[str]:
    """Return the names of the shared databases of the index; empty for the index of a file."""
    return [name for (name,) in index.execute("SELECT name FROM cursors WHERE name GLOB 'of *'")]
