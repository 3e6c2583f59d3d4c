"""The tables of `state.db`, and their version."""

SCHEMA_VERSION = 1

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
    reply    INTEGER REFERENCES outbox (id)  -- null while it is open
);
CREATE INDEX messages_open ON messages (chat) WHERE reply IS NULL;
CREATE INDEX messages_of_reply ON messages (reply);
CREATE INDEX messages_of_chat ON messages (chat, id);
CREATE TABLE outbox (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    chat      TEXT NOT NULL,
    text      TEXT NOT NULL,
    created   REAL NOT NULL,
    delivered REAL
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
