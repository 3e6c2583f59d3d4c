"""What the index follows: the tables of `state.db`, in the home's file or in a database that workers share.

Both are read by the same SQL, so there is one set of rules of what is indexed and what is shown. They differ
in three things: how an index's passages are compared with the tables, up to where nothing new can appear any
more, and how much is followed.
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
from rumi.store.steps import Steps, Transaction

if TYPE_CHECKING:
    from rumi.store.postgres import Postgres

Followed: TypeAlias = Literal["history", "tasks", "episodes"]
"""What is followed: tables by their `id`, and tasks by the time of their end."""

PassageRow: TypeAlias = tuple[int, str, str, int, str, int, int]
"""A row of `passages`: id, kind, chat, session, turn, first, last."""

MOST_ENTRIES: Final = 2_000_000
"""Entries of a shared history that an index follows: the latest ones."""

SKEW_S: Final = 3600.0
"""So much the clocks of workers may differ: they date the ends of tasks."""

_COLUMNS: Final = "id, kind, chat, session, turn, first, last"


class StateTables(Protocol):
    """The tables beside an open index. Blocking; used by the index's thread."""

    @property
    def error(self) -> type[Exception]:
        """Return the class of errors of reading."""
        ...

    def snapshot(self) -> AbstractContextManager[object]:
        """Within the block, all that is read is of one moment."""
        ...

    def read(self, sql: str, parameters: Any = (), /) -> Rows:
        """Execute a statement that reads, in the SQL that SQLite and PostgreSQL share."""
        ...

    def passages(self, condition: str, after: int, last: int) -> list[PassageRow]:
        """Return the passages with ids above `after`, up to `last`, of which a condition is true.

        The condition names columns of `passages` and the tables of the state.
        """
        ...

    def begin(self, what: Followed) -> float:
        """Return behind which place the next slice begins."""
        ...

    def looked(self, what: Followed, last: float | None, more: bool) -> None:
        """Note the last place of a slice that was indexed, None for an empty one; `more`: it was full."""
        ...

    def oldest(self) -> int:
        """Return the entry of the history from which on it is followed."""
        ...

    def is_another(self) -> bool:
        """Return True if the index was made of something other than this."""
        ...

    def cut(self) -> None:
        """Let a thread that waits for an answer fail at once. Callable from another thread."""
        ...

    def close(self) -> None:
        """Read no more."""
        ...


@dataclass(frozen=True, slots=True)
class Indexing(Transaction):
    """The open transaction of an index, and what it follows."""

    state: StateTables = field(kw_only=True)


def cursor(index: Database, name: str) -> float:
    """Return a place that the index has noted, 0 for none."""
    row = index.execute("SELECT value FROM cursors WHERE name = ?", (name,)).fetchone()
    return 0.0 if row is None else float(row[0])


def set_cursor(index: Database, name: str, value: float) -> None:
    """Note a place."""
    index.execute("INSERT OR REPLACE INTO cursors (name, value) VALUES (?, ?)", (name, value))


class AttachedFile:
    """The home's `state.db`, attached read-only. Its ids ascend in the order of the commits."""

    error: type[Exception] = sqlite3.Error

    def __init__(self, index: sqlite3.Connection, path: Path) -> None:
        self._index = index
        index.execute("ATTACH ? AS state", (f"{path.absolute().as_uri()}?mode=ro",))

    def snapshot(self) -> AbstractContextManager[object]:
        """Do nothing: the index's transaction has both files."""
        return contextlib.nullcontext()

    def read(self, sql: str, parameters: Any = (), /) -> Rows:
        """Execute a statement."""
        return self._index.execute(sql, parameters)

    def passages(self, condition: str, after: int, last: int) -> list[PassageRow]:
        """Return the passages of which a condition is true."""
        return self._index.execute(
            f"SELECT {_COLUMNS} FROM passages WHERE id > ? AND id <= ? AND ({condition})", (after, last)
        ).fetchall()

    def begin(self, what: Followed) -> float:
        """Return behind which place the next slice begins."""
        return cursor(self._index, what)

    def looked(self, what: Followed, last: float | None, more: bool) -> None:
        """Go on behind the last place."""
        if last is not None:
            set_cursor(self._index, what, last)

    def oldest(self) -> int:
        """Return 0: all of it is followed."""
        return 0

    def is_another(self) -> bool:
        """Return True if more is indexed than the file ever had, or if the index is of a shared database."""
        row = self.read("SELECT seq FROM state.sqlite_sequence WHERE name = 'history'").fetchone()
        return cursor(self._index, "history") > (0 if row is None else row[0]) or bool(_origins(self._index))

    def cut(self) -> None:
        """Do nothing: a file answers."""

    def close(self) -> None:
        """Do nothing: the file is closed with the index."""


class SharedDatabase:
    """A PostgreSQL database, by a connection of its own that cannot write.

    There a lower id may be committed later than a higher one. So an index keeps two places of a table: up to
    `settled` nothing can appear any more, and what is behind it is looked at again by each catch-up, until no
    transaction runs any more that could have drawn one of its ids.

    Raises:
        psycopg.Error: The server does not answer.
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
        """Read in one transaction, which sees what was committed before its first statement."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            with contextlib.suppress(self.error):  # a connection that is gone fails at its next use
                self._db.execute("ROLLBACK")

    def read(self, sql: str, parameters: Any = (), /) -> Rows:
        """Execute a statement."""
        return self._db.execute(sql, parameters)

    def passages(self, condition: str, after: int, last: int) -> list[PassageRow]:
        """Send the passages to the database, which says of which a condition is true."""
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
        """Return behind which place the next slice begins: back at what is settled, once it can grow."""
        at = cursor(self._index, what)
        if what == "tasks":
            return at
        settled = cursor(self._index, f"{what}.settled")
        if what == "history" and settled < (oldest := self.oldest()):
            settled = oldest
            set_cursor(self._index, "history.settled", settled)
        self._final[what] = self._is_final(what, settled)
        return settled if self._final[what] else max(at, settled)

    def looked(self, what: Followed, last: float | None, more: bool) -> None:
        """Note what was looked at; behind the end, go back to what is not settled."""
        if what == "tasks":
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
        """Return True if nothing can appear any more up to the mark, as far as this snapshot sees.

        The mark is an id beside the number of a transaction, which all that had drawn an id up to it precede:
        a transaction of the journal locks rows first, and has a number by that.
        """
        if cursor(self._index, f"{what}.mark") <= settled:
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
        """Return the entry from which on there are as many ids as are followed."""
        (newest,) = self.read("SELECT coalesce(max(id), 0) FROM history").fetchone()
        return max(0, int(newest) - self._most)

    def is_another(self) -> bool:
        """Return True if the index is of another database, or of this one before it was restored.

        An empty index becomes one of this database.
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
        """Shut the connection's socket."""
        self._db.cut()

    def close(self) -> None:
        """Close the connection."""
        closed(self._db)


def _origins(index: Database) -> list[str]:
    """Return the shared database that the index is of, nothing for an index of a file."""
    return [name for (name,) in index.execute("SELECT name FROM cursors WHERE name GLOB 'of *'")]


steps: Steps[Indexing] = Steps()
"""The functions of `following` and `search`."""
