"""Upgrades a `memory.db` with the original schema: one table, `facts`, with keys and values but no owners.

After the upgrade the facts belong to the owner of the terminal's chats. The file is copied first. The upgrade
is one transaction, so that the file has either the old or the new schema even if the process is killed.
"""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from rumi.memory.messages import MAX_KEY_CHARS, MAX_VALUE_CHARS, Fact, MemoryUnavailable
from rumi.memory.rows import put
from rumi.memory.schema import MEMORY
from rumi.memory.writing import written
from rumi.platform.chat_ids import LOCAL
from rumi.store.sqlite import copy_beside, statements, upgrade

COPY_SUFFIX = ".original"

_NEEDED = ("key", "value")
_MORE = ("source", "created_at", "updated_at")


def has_original(db: sqlite3.Connection, path: Path) -> bool:
    """Return True if a database file without a version number has the original table without owners.

    Raises:
        MemoryUnavailable: the file has a table of that name with other columns.
    """
    columns = {row[1] for row in db.execute("PRAGMA table_info(facts)")}
    if not columns:
        return False
    if not columns.issuperset(_NEEDED) or "owner" in columns:
        raise MemoryUnavailable(
            "{path} has a table of facts that this Rumi does not know.",
            "Move it away, or use another RUMI_HOME.",
            path=path,
        )
    return True


def take_over(db: sqlite3.Connection, path: Path, now: float) -> None:
    """Upgrade the file to the current schema; its facts then belong to the terminal's owner. Blocking.

    Raises:
        sqlite3.Error: the upgrade failed. Nothing has changed.
        OSError, DatabaseFault: the copy could not be made. Nothing has changed.
    """
    copy_beside(db, path, path.with_name(path.name + COPY_SUFFIX))
    with upgrade(db, MEMORY):
        facts = list(_facts(db, now))
        db.execute("DROP TABLE facts")
        for statement in statements(MEMORY.tables):
            db.execute(statement)
        for fact in facts:
            put(db, LOCAL, fact, bounded=False)  # an upgrade must not lose facts beyond the limit


def _facts(db: sqlite3.Connection, now: float) -> Iterator[Fact]:
    """Yield the old rows as facts, oldest first. Long texts are cut; the copied file has them in full."""
    there = {row[1] for row in db.execute("PRAGMA table_info(facts)")}
    columns = [*_NEEDED, *(name if name in there else "NULL" for name in _MORE)]
    order = "id" if "id" in there else "1"
    for key, value, source, created, updated in db.execute(
        f"SELECT {', '.join(columns)} FROM facts ORDER BY {order}"
    ):
        if key is None or value is None or not written(str(key)) or not written(str(value)):
            continue
        born = _seconds(created, now)
        yield Fact(
            _cut(written(str(key)), MAX_KEY_CHARS),
            _cut(written(str(value)), MAX_VALUE_CHARS),
            "explicit" if source == "explicit" else "auto",
            created=born,
            updated=_seconds(updated, born),
        )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _seconds(text: object, otherwise: float) -> float:
    """Convert a time of the original schema to a Unix time; return `otherwise` if the time is invalid.

    These times come from SQLite's `datetime('now')`: they are in UTC and do not name a zone.
    """
    try:
        read = datetime.fromisoformat(str(text))
    except ValueError:
        return otherwise
    seconds = (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    return seconds if seconds >= 0 else otherwise
