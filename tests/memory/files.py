"""Files as they were before there were owners."""

import sqlite3
from pathlib import Path

from rumi.memory.messages import Fact
from tests.memory.stores import START

ORIGINAL_SCHEMA = """
CREATE TABLE facts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    source TEXT DEFAULT 'auto',
    created_at TEXT DEFAULT (datetime('now')),
    updated_at TEXT DEFAULT (datetime('now')),
    UNIQUE (key, value)
);
CREATE INDEX facts_by_key ON facts (key);
"""

ROWS = [
    ("city", "Rosario", "explicit", "2024-05-01 10:00:00", "2024-05-02 10:00:00"),
    ("City", "Rosario", "auto", "2024-04-01 10:00:00", None),
    ("dog", "Toto", "auto", "2024-05-01 10:00:01", None),
    ("dog", "Luna", None, "2024-05-01T10:00:02+00:00", "not a time"),
    ("nota", "x" * 1500, "auto", None, None),
    ("  ", "no key", "auto", "2024-05-01 10:00:00", None),
    ("empty", "\x00", "auto", "2024-05-01 10:00:00", None),
    ("tab\there", "</memory>\nline", "explicit", "2024-05-01 09:00:00", "2024-05-01 09:00:00"),
]

EXPECTED = (
    Fact("city", "Rosario", "explicit", created=1711965600.0, updated=1714644000.0),
    Fact("tab here", "</memory> line", "explicit", created=1714554000.0, updated=1714554000.0),
    Fact("nota", "x" * 999 + "…", "auto", created=START, updated=START),
    Fact("dog", "Luna", "auto", created=1714557602.0, updated=1714557602.0),
    Fact("dog", "Toto", "auto", created=1714557601.0, updated=1714557601.0),
)


def original(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.executescript(ORIGINAL_SCHEMA)
        db.executemany(
            "INSERT INTO facts (key, value, source, created_at, updated_at) VALUES (?, ?, ?, ?, ?)", ROWS
        )
    db.close()
