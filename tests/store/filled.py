"""Stores with rows in every table."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from rumi.memory.schema import MEMORY
from rumi.store.backend import SqliteFile
from rumi.store.copying import ROWS, Table, tables_of
from rumi.store.journal.schema import STATE
from rumi.store.postgres import FLAGS
from rumi.store.sqlite import Schema

SCHEMAS: Mapping[str, Schema] = {"state": STATE, "memory": MEMORY}
TABLES: Mapping[str, tuple[Table, ...]] = {name: tables_of(schema) for name, schema in SCHEMAS.items()}
MANY = 2 * ROWS + 7
FILES = {"state": "state.db", "memory": "memory.db"}


def fill(home: Path, rows: int = MANY) -> None:
    """Make a home's two files, with so many rows in each table, and numbers that are not used any more."""
    home.mkdir(mode=0o700, exist_ok=True)
    for name, file in FILES.items():
        SqliteFile(home / file).open(name, SCHEMAS[name]).close()
        with closing(sqlite3.connect(home / file, isolation_level=None)) as db:
            db.create_function("partition_of", 1, len, deterministic=True)
            db.execute("BEGIN")
            for table in TABLES[name]:
                columns = [(row[1], row[2]) for row in db.execute(f"PRAGMA table_info({table.name})")]
                names = ", ".join(f'"{column}"' for column, _ in columns)
                marks = ", ".join("?" * len(columns))
                db.executemany(
                    f"INSERT INTO {table.name} ({names}) VALUES ({marks})",
                    [[_value(column, kind, n) for column, kind in columns] for n in range(1, rows + 1)],
                )
                if table.numbered and table.name not in ("messages", "undos"):
                    db.execute(f"DELETE FROM {table.name} WHERE {table.key[0]} IN (3, {rows})")
            db.execute("COMMIT")


def _value(column: str, kind: str, number: int) -> object:
    if column == "source":
        return ("explicit", "auto")[number % 2]
    if kind in ("INTEGER", "BIGINT"):
        return number % 3 == 0 if column in FLAGS else number
    if kind == "BLOB":
        return b"bytes \0"
    if kind == "REAL":
        return number + 0.25
    return f"{column} {number} ' é 😀 _%" + ("\0" if column == "value" else "")


def rows_of_files(home: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of a home's files, and the numbers that new rows go on from."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for name, file in FILES.items():
        with closing(sqlite3.connect(home / file)) as db:
            for table in TABLES[name]:
                names = ", ".join(f'"{column}"' if column != "rowid" else column for column in table.columns)
                order = ", ".join(f'"{key}"' if key != "rowid" else key for key in table.key)
                found[table.name] = [
                    tuple(value.replace("\0", "\ufffd") if isinstance(value, str) else value for value in row)
                    for row in db.execute(f"SELECT {names} FROM {table.name} ORDER BY {order}")
                ]
            if name == "state":
                found["numbers"] = sorted(db.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    return found
