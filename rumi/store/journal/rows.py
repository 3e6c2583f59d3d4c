"""Rows of tables as JSON, with which an undo restores what a turn has changed."""

import json

from rumi.store.steps import Transaction

_BOOLEANS = ("tainted",)
"""Columns that are numbers in SQLite and booleans in PostgreSQL: the texts of both must be equal."""


def row_json(transaction: Transaction, table: str, id: int) -> str | None:
    """Return all columns of a row as a JSON object; None if the row does not exist."""
    cursor = transaction.db.execute(f"SELECT * FROM {table} WHERE id = ?", (id,))
    row = cursor.fetchone()
    if row is None:
        return None
    columns = dict(zip((column[0] for column in cursor.description), row, strict=True))
    return json.dumps(columns | {name: int(columns[name]) for name in _BOOLEANS if name in columns})


def put_row(transaction: Transaction, table: str, id: int, row: str) -> None:
    """Store a row that `row_json` returned earlier, in place of the present one."""
    columns = json.loads(row)
    columns |= {name: bool(columns[name]) for name in _BOOLEANS if name in columns}
    placeholders = ", ".join("?" * len(columns))
    names = ", ".join(columns)  # safe in SQL: `row_json` took the names from the table
    transaction.db.execute(f"DELETE FROM {table} WHERE id = ?", (id,))
    transaction.db.execute(f"INSERT INTO {table} ({names}) VALUES ({placeholders})", list(columns.values()))
