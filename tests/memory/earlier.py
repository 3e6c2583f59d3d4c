"""Files as earlier versions of the program made them."""

FIRST = (
    "CREATE TABLE facts (id INTEGER PRIMARY KEY, owner TEXT NOT NULL, key TEXT NOT NULL,"
    " folded TEXT NOT NULL, value TEXT NOT NULL,"
    " source TEXT NOT NULL CHECK (source IN ('explicit', 'auto')), chat TEXT NOT NULL,"
    " tainted INTEGER NOT NULL, created REAL NOT NULL, updated REAL NOT NULL,"
    " UNIQUE (owner, folded, value));"
    "CREATE TABLE learned (chat TEXT NOT NULL, session INTEGER NOT NULL, upto INTEGER NOT NULL,"
    " at REAL NOT NULL, PRIMARY KEY (chat, session, upto)) WITHOUT ROWID;"
    "CREATE TABLE forgotten (owner TEXT NOT NULL, folded TEXT NOT NULL, at REAL NOT NULL,"
    " PRIMARY KEY (owner, folded)) WITHOUT ROWID;"
    "PRAGMA user_version = 1;"
)
"""The statements of version 1 of `memory.db`."""
