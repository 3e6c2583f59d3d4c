"""Reading of SQLite databases of other programs, which may be hostile and may be in use. Blocking."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from rumi.app.moving.reading import HomeReader, Stopped, TooMuch
from rumi.app.moving.records import Part
from rumi.platform.openat import shown
from rumi.tasks.bots.foreign import why_not
from rumi.texts import Text

MOST_DATABASE_BYTES: Final = 1_000_000_000
MOST_VALUE_BYTES: Final = 5_000_000
COPIES: Final = 5
"""Number of attempts to copy a database that another program writes meanwhile."""

_CHECK_EVERY: Final = 100_000
"""Number of steps of SQLite's machine after which the limits are checked."""

_READS: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION})


class ForeignDatabase:
    """A copy of a database. Only plain tables can be read: views, triggers and virtual tables never run."""

    def __init__(self, db: sqlite3.Connection, size: int) -> None:
        self._db = db
        self._left = 2 * size
        found = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' LIMIT 1000").fetchall()
        plain = [str(name) for name, sql in found if not str(sql or "").upper().startswith("CREATE VIRTUAL")]
        self.tables = {name: self._columns_of(name) for name in plain}

    def _columns_of(self, table: str) -> list[str]:
        # A hidden or generated column (nonzero) would be computed by the database's own expressions.
        rows = self._db.execute("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", (table,))
        return [str(name) for (name,) in rows]

    def rows(
        self, table: str, columns: Sequence[str], where: str = "", values: Sequence[object] = ()
    ) -> Iterator[dict[str, Any]]:
        """Yield rows of a table; `where` may also order them. Columns that it does not have are None.

        Nothing is yielded if the table does not exist.
        """
        has = [name for name in columns if name in self.tables.get(table, ())]
        if not has:
            return
        names = ", ".join(f'"{name}"' for name in has)
        for row in self._db.execute(f'SELECT {names} FROM "{table}" {where}', tuple(values)):
            # Each value is read once. In a forged file, many rows can share pages, and then fill the memory.
            self._left -= sum(len(value) for value in row if isinstance(value, str | bytes))
            if self._left < 0:
                raise sqlite3.DatabaseError("its rows are larger than the file")
            yield {**dict.fromkeys(columns), **dict(zip(has, row, strict=True))}


@contextmanager
def foreign_database(source: HomeReader, path: str, part: Part) -> Iterator[ForeignDatabase | None]:
    """Copy a database with its write-ahead log, and open the copy; None if there is none or it is damaged.

    The database itself is only read, as files, so that the program that uses it is never blocked.
    """
    with TemporaryDirectory(prefix="rumi-import-") as folder:
        copy = Path(folder, "copy.db")
        try:
            size = _copy(source, path, copy)
        except (FileNotFoundError, NotADirectoryError):
            yield None
            return
        except OSError as error:
            source.moved.leave(part, shown(path), Text("{why}", why=why_not(error)))
            yield None
            return
        stopped: list[Exception] = []
        db = sqlite3.connect(copy, isolation_level=None)
        try:
            try:
                db.execute("PRAGMA trusted_schema = OFF")
                db.execute("PRAGMA cell_size_check = ON")
                db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES)
                db.text_factory = _decoded
                db.set_progress_handler(lambda: _stops(source, stopped), _CHECK_EVERY)
                opened = ForeignDatabase(db, size)
                db.set_authorizer(_only_reads)
            except (sqlite3.Error, ValueError):
                source.moved.leave(part, shown(path), Text("it is not a database that can be read"))
                yield None
                return
            try:
                yield opened
            except sqlite3.Error:
                if stopped:
                    raise stopped[0] from None
                source.moved.leave(part, shown(path), Text("the rest of a damaged database"))
        finally:
            db.close()


def _copy(source: HomeReader, path: str, copy: Path) -> int:
    """Copy a database and its write-ahead log; return their size in bytes.

    They only fit if no checkpoint came between the two copies; if one did, both are copied again.

    Raises:
        OSError: The database cannot be copied.
    """
    log = copy.with_name(f"{copy.name}-wal")
    for _ in range(COPIES):
        copy.unlink(missing_ok=True)
        log.unlink(missing_ok=True)
        before = source.top.stamp(path)
        size = source.top.copy(path, copy, MOST_DATABASE_BYTES, source.budget.check)
        try:
            size += source.top.copy(f"{path}-wal", log, MOST_DATABASE_BYTES, source.budget.check)
        except OSError:
            log.unlink(missing_ok=True)
        if source.top.stamp(path) == before:
            break
    source.budget.spend(size)
    return size


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _only_reads(action: int, *names: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY


def _stops(source: HomeReader, stopped: list[Exception]) -> int:
    """Return 1, which ends the running statement, if a limit is reached."""
    try:
        source.budget.check()
    except (Stopped, TooMuch) as error:
        stopped.append(error)
        return 1
    return 0
