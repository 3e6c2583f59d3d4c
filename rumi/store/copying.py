"""Copies all tables from one store (SQLite files or a PostgreSQL database) to another, in slices.

A slice is a range of rows in the order of their keys. The copy reads each slice from both stores, and writes
the slice to the target if the two differ. So running the copy again completes a copy that was interrupted, or
that was made while the source was in use. All functions block.
"""

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rumi.errors import RumiError
from rumi.platform.atomic_write import fsync_path
from rumi.store.backend import PostgresServer, SqliteFile, closed
from rumi.store.postgres import FLAGS
from rumi.store.protocol import Database
from rumi.store.sqlite import DatabaseFault, NewerSchema, Schema, decoded, transaction

ROWS: Final = 200
"""Rows in a slice. Two slices are in memory at a time: one from each store."""

ARRIVAL: Final = frozenset({"moved", "summaries", "budget_notices"})
"""Tables whose rows are read in the order in which they were inserted. SQLite stores that order in
`rowid`."""

LEASES: Final = frozenset({"workers", "partitions"})
"""Tables about running workers. They are not copied: a lease is valid only in the store that granted it."""


class CopyFault(RumiError):
    """The copy cannot be made, or the copied rows differ from the source."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns, and the columns of its primary key in order.

    If `numbered` is set, the database assigns the numbers of new rows. `flags` are the boolean columns.
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    numbered: bool
    flags: frozenset[str]


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """The result for one table: the count of all rows, the count of written rows, a digest of all rows."""

    table: str
    rows: int
    written: int
    digest: str


def tables_of(schema: Schema) -> tuple[Table, ...]:
    """Return the tables of a schema that are copied: all except the tables about leases."""
    db = sqlite3.connect(":memory:")
    try:
        db.create_function("partition_of", 1, len, deterministic=True)
        db.executescript(schema.tables)
        names = [
            name
            for (name,) in db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
                " ORDER BY name"
            )
        ]
        return tuple(_table(db, name) for name in names if name not in LEASES)
    finally:
        db.close()


def _table(db: sqlite3.Connection, name: str) -> Table:
    info = db.execute(f'PRAGMA table_info("{name}")').fetchall()
    columns = tuple(row[1] for row in info)
    key = tuple(row[1] for row in sorted(info, key=lambda row: int(row[5])) if row[5])
    numbers = {row[1] for row in info if row[2] == "INTEGER"}
    if name in ARRIVAL:
        return Table(name, ("rowid", *columns), ("rowid",), True, FLAGS & numbers)
    return Table(name, columns, key, len(key) == 1 and key[0] in numbers, FLAGS & numbers)


# One side


class Side:
    """The source or the target of a copy: one open database for each schema."""

    def __init__(self, databases: Mapping[str, Database]) -> None:
        self._databases = databases

    def of(self, schema: str) -> Database:
        """Return the database that has the tables of this schema."""
        return self._databases[schema]

    def close(self) -> None:
        """Close all databases."""
        for db in set(self._databases.values()):
            closed(db)

    def is_empty(self, tables: Mapping[str, Sequence[Table]]) -> bool:
        """Return True if no table has a row."""
        return not any(
            self.of(schema).execute(f"SELECT 1 FROM {table.name} LIMIT 1").fetchone()
            for schema, schema_tables in tables.items()
            for table in schema_tables
        )


def server_side(backend: PostgresServer, schemas: Mapping[str, Schema], *, target: bool) -> Side:
    """Connect to a PostgreSQL server. A database with an unfinished copy is accepted only as the `target`."""
    db: Database | None = None
    for name, schema in schemas.items():
        if db is not None:
            closed(db)
        db = backend.open(name, schema, copying=target)
    assert db is not None
    return Side(dict.fromkeys(schemas, db))


def file_side(paths: Mapping[str, Path], schemas: Mapping[str, Schema], *, writes: bool) -> Side:
    """Open SQLite files. With `writes`, upgrade them; otherwise, leave them unchanged.

    Without `writes`, another process may be using the files.

    Raises:
        NewerSchema: A newer program wrote a file.
        DatabaseFault: A file cannot be used as it is. Without `writes`, this includes an older schema.
    """
    opened: dict[str, Database] = {}
    try:
        for name, path in paths.items():
            opened[name] = (
                SqliteFile(path).open(name, schemas[name]) if writes else _read(path, schemas[name])
            )
    except BaseException:
        for db in opened.values():
            closed(db)
        raise
    return Side(opened)


def _read(path: Path, schema: Schema) -> Database:
    if not path.exists():
        db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        db.create_function("partition_of", 1, len, deterministic=True)
        db.executescript(schema.tables)
        return db
    uri = f"{path.absolute().as_uri()}?mode=ro"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=10)
    db.text_factory = decoded
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version != schema.version:
        db.close()
        if version > schema.version:
            raise NewerSchema(path, version, schema.version)
        raise DatabaseFault("{path} is of an earlier version, and in use.", "End that Rumi first.", path=path)
    return db


# Unfinished copies

_COPIES: Final = (
    "CREATE TABLE IF NOT EXISTS store_copies"
    " (id text PRIMARY KEY, source text NOT NULL, finished boolean NOT NULL)"
)


def begin_on_server(side: Side, schema: str, source: str, tables: Mapping[str, Sequence[Table]]) -> str:
    """Record in the target that a copy of this source has begun; return the id of the copy.

    An unfinished copy of the same source is continued and keeps its id. Workers refuse to open a database
    with an unfinished copy.

    Raises:
        CopyFault: The target has rows that are not from an unfinished copy of the same source.
    """
    db = side.of(schema)
    db.execute(_COPIES)
    row = db.execute("SELECT id, source FROM store_copies WHERE NOT finished").fetchone()
    if row is not None and row[1] == source:
        return str(row[0])
    if row is not None or not side.is_empty(tables):
        raise not_empty(row[1] if row is not None else "")
    made = secrets.token_hex(6)
    db.execute("INSERT INTO store_copies (id, source, finished) VALUES (?, ?, FALSE)", (made, source))
    return made


def end_on_server(side: Side, schema: str) -> None:
    """Record that the copy is complete, so that workers accept the database."""
    side.of(schema).execute("UPDATE store_copies SET finished = TRUE")


def not_empty(source: str = "") -> CopyFault:
    """Return the error for a target that already contains data."""
    if source:
        return CopyFault(
            "The target has an unfinished copy of another store: {source}.",
            "Use an empty database.",
            source=source,
        )
    return CopyFault("The target is not empty.", "Use an empty database, or move the home's files away.")


@contextmanager
def into_files(paths: Mapping[str, Path], mark: Path, source: str) -> Iterator[Mapping[str, Path]]:
    """Yield the paths of draft files to copy into. `replace_files` later gives them their final names.

    The file `mark` records the source of an unfinished copy. Drafts from an earlier copy of the same source
    are continued; drafts from another source are removed.

    Raises:
        CopyFault: The target has files that are not from an unfinished copy of the same source.
    """
    drafts = {name: path.with_name(f"{path.name}.copy") for name, path in paths.items()}
    try:
        earlier = str(json.loads(mark.read_text())["source"])
    except (OSError, ValueError, KeyError, TypeError):
        earlier = ""
    if earlier != source:
        if any(path.exists() for path in paths.values()):
            raise CopyFault(
                "The target is not empty.",
                "Move {values} away first.",
                values=" and ".join(str(path) for path in paths.values()),
            )
        for draft in drafts.values():
            _remove(draft)
        draft = mark.with_name(f".{mark.name}")
        draft.write_text(json.dumps({"source": source, "id": secrets.token_hex(6)}))
        draft.replace(mark)
        fsync_path(mark.parent)
    # If the process was killed between two renames, one file has its final name already: continue with it.
    yield {name: path if path.exists() else drafts[name] for name, path in paths.items()}


def replace_files(paths: Mapping[str, Path], drafts: Mapping[str, Path], mark: Path) -> None:
    """Rename complete and closed draft files to their final names, and remove the file `mark`."""
    for name, path in paths.items():
        if drafts[name] != path:
            drafts[name].replace(path)
    # Sync the renames first: without the mark, the next copy would take the files for another store.
    fsync_path(mark.parent)
    mark.unlink(missing_ok=True)


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def as_one_file(side: Side) -> None:
    """Move the contents of the write-ahead logs into the databases, so that each is a single file."""
    for db in side._databases.values():
        db.execute("PRAGMA journal_mode = DELETE").fetchall()


# Copying


def copy(
    source: Side,
    target: Side,
    tables: Mapping[str, Sequence[Table]],
    report: Callable[[str, int], object] = lambda table, rows: None,
) -> int:
    """Copy to the target all rows that differ there; return the number of rows that were written.

    `report` is called after each table, with the name of the table and the number of its rows that were
    written.
    """
    written = 0
    for schema, schema_tables in tables.items():
        for table in schema_tables:
            wrote = _copy_table(source.of(schema), target.of(schema), table)
            report(table.name, wrote)
            written += wrote
    return written


def compared(source: Side, target: Side, tables: Mapping[str, Sequence[Table]]) -> list[CopiedTable]:
    """Compare all rows of both stores; return the number of rows and a digest for each table.

    Neither store may be written during the comparison.

    Raises:
        CopyFault: A table differs.
    """
    found = []
    for schema, schema_tables in tables.items():
        for table in schema_tables:
            rows, digest = 0, hashlib.sha256()
            for after, upto, source_rows in _slices(source.of(schema), table):
                target_rows = _range(target.of(schema), table, after, upto)
                if target_rows != source_rows:
                    raise CopyFault(
                        "The copy of {name} differs behind row {rows}.",
                        "Begin the copy again.",
                        name=table.name,
                        rows=rows,
                    )
                rows += len(source_rows)
                digest.update(repr(source_rows).encode("utf-8", "replace"))
            found.append(CopiedTable(table.name, rows, 0, digest.hexdigest()[:16]))
    return found


Row = tuple[Any, ...]


def _copy_table(source: Database, target: Database, table: Table) -> int:
    written = 0
    for after, upto, rows in _slices(source, table):
        if _range(target, table, after, upto) == rows:
            continue
        try:
            _write(target, table, after, upto, rows)
        except Exception as error:
            if not _is_taken(error):
                raise
            # A unique value of a copied row: the target still has it in a later row, because the source has
            # moved it to another key since. Replace all rows from here on; the next slices fill them again.
            _write(target, table, after, None, rows)
        written += len(rows)
    _number_on(source, target, table)
    return written


def _is_taken(error: Exception) -> bool:
    return isinstance(error, sqlite3.IntegrityError) or getattr(error, "sqlstate", "") == "23505"


def _slices(db: Database, table: Table) -> Iterator[tuple[Row | None, Row | None, list[Row]]]:
    """Yield all rows in slices: the key before the slice, its last key (None at the end), and its rows."""
    after: Row | None = None
    while True:
        rows = _range(db, table, after, None, ROWS)
        key_columns = [table.columns.index(name) for name in table.key]
        upto = tuple(rows[-1][column] for column in key_columns) if len(rows) == ROWS else None
        yield after, upto, rows
        if upto is None:
            return
        after = upto


def _range(
    db: Database, table: Table, after: Row | None, upto: Row | None, limit: int = ROWS + 1
) -> list[Row]:
    where, values = _between(table, after, upto)
    names, key = ", ".join(map(_quoted, table.columns)), ", ".join(map(_quoted, table.key))
    sql = f"SELECT {names} FROM {table.name} WHERE {where} ORDER BY {key} LIMIT {limit}"
    return [tuple(map(_plain, row)) for row in db.execute(sql, values)]


def _between(table: Table, after: Row | None, upto: Row | None) -> tuple[str, list[Any]]:
    key, placeholders = ", ".join(map(_quoted, table.key)), ", ".join("?" * len(table.key))
    parts, values = ["1 = 1"], list[Any]()
    for sign, limit in ((">", after), ("<=", upto)):
        if limit is not None:
            parts.append(f"({key}) {sign} ({placeholders})")
            values += limit
    return " AND ".join(parts), values


def _write(target: Database, table: Table, after: Row | None, upto: Row | None, rows: list[Row]) -> None:
    where, values = _between(table, after, upto)
    names, placeholders = ", ".join(map(_quoted, table.columns)), ", ".join("?" * len(table.columns))
    server = not isinstance(target, sqlite3.Connection)
    override = " OVERRIDING SYSTEM VALUE" if server and table.key == ("rowid",) else ""
    flags = [server and name in table.flags for name in table.columns]
    with transaction(target):
        target.execute(f"DELETE FROM {table.name} WHERE {where}", values)
        target.executemany(
            f"INSERT INTO {table.name} ({names}){override} VALUES ({placeholders})",
            [
                tuple(bool(value) if flag else value for flag, value in zip(flags, row, strict=True))
                for row in rows
            ],
        )


def _number_on(source: Database, target: Database, table: Table) -> None:
    """Set the target's counter for row numbers, so that it numbers new rows as the source would."""
    # The counter can be above the highest row: numbers of deleted rows are not given again.
    if not table.numbered:
        return
    (key,) = table.key
    (highest,) = source.execute(f"SELECT coalesce(max({key}), 0) FROM {table.name}").fetchone()
    last = max(int(highest), _last_number(source, table))
    if not isinstance(target, sqlite3.Connection):
        target.execute(
            f"SELECT setval(pg_get_serial_sequence('{table.name}', '{key}'), ?, ?)", (max(last, 1), last > 0)
        )
    elif _has_numbers(target) and last:
        (table_sql,) = target.execute(
            "SELECT sql FROM sqlite_master WHERE name = ?", (table.name,)
        ).fetchone()
        if "AUTOINCREMENT" in table_sql:
            with transaction(target):
                target.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,))
                target.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table.name, last))


def _last_number(db: Database, table: Table) -> int:
    if isinstance(db, sqlite3.Connection):
        found = (
            _has_numbers(db)
            and db.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table.name,)).fetchone()
        )
        return int(found[0]) if found else 0
    (name,) = db.execute("SELECT pg_get_serial_sequence(?, ?)", (table.name, table.key[0])).fetchone()
    last, called = db.execute(f"SELECT last_value, is_called FROM {name}").fetchone()
    return int(last) if called else 0


def _has_numbers(db: Database) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'").fetchone() is not None


def _plain(value: Any) -> Any:
    """Convert a value for comparison between the two databases: flags become integers, texts lose NUL."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return value


def _quoted(name: str) -> str:
    return f'"{name}"' if name in ("user", "group") else name
