"""The tables of `memory.db`, their version, and the migrations from earlier versions."""

from typing import Final

from rumi.store.sqlite import Schema

SCHEMA_VERSION: Final = 2

SCHEMA: Final = """
CREATE TABLE facts (
    id      INTEGER PRIMARY KEY,
    owner   TEXT NOT NULL,
    key     TEXT NOT NULL,       -- as it was written
    folded  TEXT NOT NULL,       -- what keys are compared by
    value   TEXT NOT NULL,
    source  TEXT NOT NULL CHECK (source IN ('explicit', 'auto')),
    chat    TEXT NOT NULL,       -- where it came from
    tainted INTEGER NOT NULL,    -- something from outside had been read there before
    created REAL NOT NULL,
    updated REAL NOT NULL,
    turn    TEXT NOT NULL DEFAULT '',  -- the turn of the chat, or the session as `session 3`
    UNIQUE (owner, folded, value)
);
CREATE TABLE past (              -- facts that others have replaced
    id      INTEGER PRIMARY KEY,
    owner   TEXT NOT NULL,
    folded  TEXT NOT NULL,
    key     TEXT NOT NULL,
    value   TEXT NOT NULL,
    source  TEXT NOT NULL,
    chat    TEXT NOT NULL,
    turn    TEXT NOT NULL,
    tainted INTEGER NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    ended   REAL NOT NULL
);
CREATE INDEX past_of_key ON past (owner, folded, id);
CREATE TABLE learned (           -- sessions that facts were drawn from, up to an entry of the history
    chat    TEXT NOT NULL,
    session INTEGER NOT NULL,
    upto    INTEGER NOT NULL,
    at      REAL NOT NULL,
    PRIMARY KEY (chat, session, upto)
) WITHOUT ROWID;
CREATE TABLE forgotten (         -- keys whose facts were forgotten a short while ago
    owner   TEXT NOT NULL,
    folded  TEXT NOT NULL,
    at      REAL NOT NULL,
    PRIMARY KEY (owner, folded)
) WITHOUT ROWID;
CREATE TABLE shared (            -- keys whose facts a group sees; the facts stay their owner's
    owner   TEXT NOT NULL,
    folded  TEXT NOT NULL,
    "group" TEXT NOT NULL,       -- the owner of the group's facts
    at      REAL NOT NULL,
    PRIMARY KEY (owner, folded, "group")
) WITHOUT ROWID;
CREATE INDEX shared_with ON shared ("group");
CREATE TABLE changes (           -- what turns have made of the facts under a key
    id      INTEGER PRIMARY KEY,
    turn    TEXT NOT NULL,
    owner   TEXT NOT NULL,
    folded  TEXT NOT NULL,
    before  TEXT NOT NULL,       -- JSON: the rows
    after   TEXT NOT NULL,
    at      REAL NOT NULL
);
CREATE INDEX changes_of_turn ON changes (turn);
"""

MIGRATIONS: Final[dict[int, str]] = {
    1: """
ALTER TABLE facts ADD COLUMN turn TEXT NOT NULL DEFAULT '';
CREATE TABLE past (
    id      INTEGER PRIMARY KEY,
    owner   TEXT NOT NULL,
    folded  TEXT NOT NULL,
    key     TEXT NOT NULL,
    value   TEXT NOT NULL,
    source  TEXT NOT NULL,
    chat    TEXT NOT NULL,
    turn    TEXT NOT NULL,
    tainted INTEGER NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    ended   REAL NOT NULL
);
CREATE INDEX past_of_key ON past (owner, folded, id);
CREATE TABLE shared (
    owner TEXT NOT NULL, folded TEXT NOT NULL, "group" TEXT NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (owner, folded, "group")
) WITHOUT ROWID;
CREATE INDEX shared_with ON shared ("group");
CREATE TABLE changes (
    id INTEGER PRIMARY KEY, turn TEXT NOT NULL, owner TEXT NOT NULL, folded TEXT NOT NULL,
    before TEXT NOT NULL, after TEXT NOT NULL, at REAL NOT NULL
);
CREATE INDEX changes_of_turn ON changes (turn);
""",
}
"""The statements that upgrade from a version to the next one."""

MEMORY: Final = Schema(SCHEMA_VERSION, SCHEMA, MIGRATIONS)
