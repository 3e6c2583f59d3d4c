"""The tables of `state.db`, their version, and how a file of an earlier version becomes one of this."""

SCHEMA_VERSION = 2

SCHEMA = """
CREATE TABLE messages (
    id       INTEGER PRIMARY KEY,
    chat     TEXT NOT NULL,
    text     TEXT NOT NULL,
    received REAL NOT NULL,
    session  INTEGER,            -- set with the turn
    turn     TEXT,               -- null for what never became a turn
    reason   TEXT,               -- how the turn ended
    retried  INTEGER,            -- the message whose turn ran this one again
    reply    INTEGER REFERENCES outbox (id),  -- null while it is open
    language TEXT NOT NULL DEFAULT '',
    origin   INTEGER,            -- what its source calls it
    enclosures TEXT NOT NULL DEFAULT '[]',    -- JSON: what comes with it
    preview  INTEGER             -- what its source calls the message of the growing answer; < 0: has to go
);
CREATE INDEX messages_open ON messages (chat) WHERE reply IS NULL;
CREATE INDEX messages_of_reply ON messages (reply);
CREATE INDEX messages_of_chat ON messages (chat, id);
CREATE TABLE updates (
    id   INTEGER PRIMARY KEY,    -- the source's number of something that it may repeat
    seen REAL NOT NULL
);
CREATE INDEX updates_by_age ON updates (seen);
CREATE TABLE outbox (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    chat      TEXT NOT NULL,
    text      TEXT NOT NULL,
    created   REAL NOT NULL,
    delivered REAL,
    parts     INTEGER NOT NULL DEFAULT 0,     -- how many of its parts a person has already
    failure   TEXT               -- why nobody will ever have it; then `delivered` is when that was found
);
CREATE INDEX outbox_waiting ON outbox (chat, id) WHERE delivered IS NULL;
CREATE TABLE history (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    chat    TEXT NOT NULL,
    session INTEGER NOT NULL,
    turn    TEXT NOT NULL,
    message TEXT NOT NULL,       -- JSON: role, content, tool_calls, tool_call_id
    tainted INTEGER NOT NULL,
    created REAL NOT NULL
);
CREATE INDEX history_of_session ON history (chat, session, id);
CREATE TABLE sessions (
    chat    TEXT NOT NULL,
    number  INTEGER NOT NULL,
    started REAL NOT NULL,
    due     REAL NOT NULL,       -- when it ends if nothing happens; 0 while nothing was said in it
    ended   REAL,
    PRIMARY KEY (chat, number)
);
"""

MIGRATIONS = {
    1: """
ALTER TABLE messages ADD COLUMN language TEXT NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN origin INTEGER;
ALTER TABLE messages ADD COLUMN enclosures TEXT NOT NULL DEFAULT '[]';
ALTER TABLE messages ADD COLUMN preview INTEGER;
ALTER TABLE outbox ADD COLUMN parts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN failure TEXT;
CREATE TABLE updates (id INTEGER PRIMARY KEY, seen REAL NOT NULL);
CREATE INDEX updates_by_age ON updates (seen);
""",
}
"""What leads from a version to the next one."""
