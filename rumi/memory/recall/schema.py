"""The tables of `recall.db`. The file is derived: one of another version is deleted and made again."""

from typing import Final

from rumi.store.sqlite import Schema

SCHEMA: Final = """
CREATE TABLE cursors (           -- up to where `state.db` is indexed
    name  TEXT PRIMARY KEY,
    value REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE owners (
    id    INTEGER PRIMARY KEY,
    name  TEXT NOT NULL UNIQUE,
    passages INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE passages (
    id      INTEGER PRIMARY KEY,
    owner   INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    chat    TEXT NOT NULL,
    session INTEGER NOT NULL,
    turn    TEXT NOT NULL,
    first   INTEGER NOT NULL,    -- its rows in `state.db`: entries of the history, a task, an episode
    last    INTEGER NOT NULL,
    at      REAL NOT NULL,
    flags   INTEGER NOT NULL,    -- what it has: numbers, dates, names
    UNIQUE (chat, session, turn, kind)
);
CREATE INDEX passages_in_order ON passages (chat, session, first);
CREATE TABLE terms (             -- each stem with its owner's number in front, and in how many passages it is
    id    INTEGER PRIMARY KEY,
    term  TEXT NOT NULL UNIQUE,
    passages INTEGER NOT NULL
);
CREATE VIRTUAL TABLE words USING fts5(said, answered, tokenize="ascii tokenchars '_'");
CREATE VIRTUAL TABLE spellings USING fts5(
    term, content='terms', content_rowid='id', tokenize='trigram', detail='none', columnsize=0
);
"""

RECALL: Final = Schema(1, SCHEMA, {})
