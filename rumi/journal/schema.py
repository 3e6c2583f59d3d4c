"""The tables of `state.db`, their version, and how a file of an earlier version becomes one of this."""

from rumi.databases import Schema

SCHEMA_VERSION = 11

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
    preview  INTEGER,            -- what its source calls the message of the growing answer
    unattended INTEGER NOT NULL DEFAULT 0,    -- a command from outside: no front end shows its reply
    user     INTEGER,            -- what its source calls its sender
    admin    INTEGER NOT NULL DEFAULT 0,      -- its sender may see how the whole process is
    apart    INTEGER NOT NULL DEFAULT 0,      -- its turn has a history of its own
    channel  TEXT NOT NULL DEFAULT '',        -- the name of the one that it came through
    model    TEXT NOT NULL DEFAULT '',        -- the one that its window chose for it
    task     INTEGER             -- the one whose result it brings
);
CREATE INDEX messages_open ON messages (chat) WHERE reply IS NULL;
CREATE INDEX messages_of_reply ON messages (reply);
CREATE INDEX messages_of_chat ON messages (chat, id);
CREATE INDEX messages_to_retry ON messages (chat, session, id)
    WHERE reply IS NOT NULL AND reason IS NOT NULL AND reason != 'complete' AND retried IS NULL;
CREATE TABLE updates (           -- what a source may deliver twice
    source TEXT NOT NULL,        -- a channel
    number INTEGER NOT NULL,     -- the source's
    seen   REAL NOT NULL,
    PRIMARY KEY (source, number)
) WITHOUT ROWID;
CREATE INDEX updates_by_age ON updates (source, seen);
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
    created REAL NOT NULL,
    links   TEXT NOT NULL DEFAULT '[]'        -- JSON: addresses that its user or a page gave, word for word
);
CREATE INDEX history_of_session ON history (chat, session, id);
CREATE INDEX history_of_chat ON history (chat, id);
CREATE INDEX history_tainted ON history (chat, session) WHERE tainted;
CREATE TABLE sessions (
    chat    TEXT NOT NULL,
    number  INTEGER NOT NULL,
    started REAL NOT NULL,
    due     REAL NOT NULL,       -- when it ends if nothing happens; 0 while nothing was said in it
    ended   REAL,
    fresh   INTEGER NOT NULL DEFAULT 0,  -- its user said something that nothing was learned from yet
    learned INTEGER NOT NULL DEFAULT 0,  -- the history entry up to which it was learned from
    asked   INTEGER NOT NULL DEFAULT 0,  -- to be learned from now, although it goes on
    forget  INTEGER NOT NULL DEFAULT 0,  -- its history goes as soon as it was learned from
    tries   INTEGER NOT NULL DEFAULT 0,  -- to learn from it has failed so often
    learn_after REAL NOT NULL DEFAULT 0,
    short   INTEGER NOT NULL DEFAULT 0,  -- prompts show tool results up to this history entry shortened
    PRIMARY KEY (chat, number)
);
CREATE INDEX sessions_to_learn ON sessions (chat, number) WHERE fresh;
CREATE INDEX sessions_to_forget ON sessions (chat, number) WHERE forget;
CREATE TABLE summaries (         -- what stands in the prompt for the beginning of a session
    chat    TEXT NOT NULL,
    session INTEGER NOT NULL,
    turn    TEXT NOT NULL,
    upto    INTEGER NOT NULL,    -- the last history entry that prompts do not have, the end of that turn
    text    TEXT NOT NULL,
    tainted INTEGER NOT NULL,
    links   TEXT NOT NULL,       -- JSON, as in the history
    created REAL NOT NULL,
    told    INTEGER NOT NULL DEFAULT 0,  -- the last entry that the text stands for; the rest is left out
    PRIMARY KEY (chat, session)
);
CREATE TABLE tainted_files (     -- chats with something in their files that came from outside
    chat  TEXT PRIMARY KEY,
    since REAL NOT NULL
);
CREATE TABLE moved (             -- groups that their channel calls by another number since
    old TEXT NOT NULL,           -- the chat's id, for ever
    new TEXT NOT NULL UNIQUE     -- the id that the new number would have: it leads to the chat
);
CREATE TABLE titles (            -- what the owner of a chat calls it
    chat  TEXT PRIMARY KEY,
    title TEXT NOT NULL
);
CREATE TABLE tasks (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    kind     TEXT NOT NULL,      -- what it is: web, repo
    owner    TEXT NOT NULL,
    chat     TEXT NOT NULL,      -- the one that gets its result; empty: only who looks for it
    parent   INTEGER,            -- the task that waits for it
    message  INTEGER UNIQUE,     -- the command that asked for it
    attached INTEGER NOT NULL,   -- who asked waits for it
    question TEXT NOT NULL,
    options  TEXT NOT NULL,      -- JSON: its kind's
    language TEXT NOT NULL,
    model    TEXT NOT NULL,      -- the chosen one, empty: the process's own
    state    TEXT NOT NULL,
    answer   TEXT NOT NULL DEFAULT '',
    report   TEXT NOT NULL DEFAULT '{}',      -- JSON: its kind's
    spent    TEXT NOT NULL DEFAULT '{}',      -- JSON: calls, tokens, seconds
    tainted  INTEGER NOT NULL DEFAULT 0,      -- something in its answer came from outside
    created  REAL NOT NULL,
    started  REAL,
    ended    REAL
);
CREATE INDEX tasks_open ON tasks (id) WHERE ended IS NULL;
CREATE INDEX tasks_of_owner ON tasks (owner, id);
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
    2: """
ALTER TABLE history ADD COLUMN links TEXT NOT NULL DEFAULT '[]';
CREATE TABLE tainted_files (chat TEXT PRIMARY KEY, since REAL NOT NULL);
ALTER TABLE sessions ADD COLUMN fresh INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN learned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN asked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN forget INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN learn_after REAL NOT NULL DEFAULT 0;
CREATE INDEX sessions_to_learn ON sessions (chat, number) WHERE fresh;
CREATE TABLE summaries (
    chat TEXT NOT NULL, session INTEGER NOT NULL, turn TEXT NOT NULL, upto INTEGER NOT NULL,
    text TEXT NOT NULL, tainted INTEGER NOT NULL, links TEXT NOT NULL,
    created REAL NOT NULL, PRIMARY KEY (chat, session)
);
""",
    3: """
ALTER TABLE messages ADD COLUMN unattended INTEGER NOT NULL DEFAULT 0;
UPDATE messages SET unattended = 1 WHERE chat GLOB 'tg*' AND origin IS NULL;
UPDATE outbox SET delivered = created, failure = 'the command that asked for it has left'
    WHERE delivered IS NULL AND chat GLOB 'tg*' AND EXISTS (SELECT 1 FROM messages WHERE reply = outbox.id)
    AND NOT EXISTS (SELECT 1 FROM messages WHERE reply = outbox.id AND NOT unattended);
CREATE INDEX messages_to_retry ON messages (chat, session, id)
    WHERE reply IS NOT NULL AND reason IS NOT NULL AND reason != 'complete' AND retried IS NULL;
CREATE INDEX history_tainted ON history (chat, session) WHERE tainted;
CREATE INDEX sessions_to_forget ON sessions (chat, number) WHERE forget;
CREATE TABLE moved (old INTEGER NOT NULL, new INTEGER NOT NULL UNIQUE);
ALTER TABLE sessions ADD COLUMN short INTEGER NOT NULL DEFAULT 0;
ALTER TABLE summaries ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
UPDATE summaries SET told = upto;
""",
    4: """
ALTER TABLE messages ADD COLUMN user INTEGER;
ALTER TABLE messages ADD COLUMN admin INTEGER NOT NULL DEFAULT 0;
""",
    5: """
ALTER TABLE updates RENAME TO numbers;
DROP INDEX updates_by_age;
CREATE TABLE updates (
    source TEXT NOT NULL, number INTEGER NOT NULL, seen REAL NOT NULL, PRIMARY KEY (source, number)
) WITHOUT ROWID;
INSERT INTO updates SELECT 'telegram', id, seen FROM numbers;
DROP TABLE numbers;
CREATE INDEX updates_by_age ON updates (source, seen);
ALTER TABLE moved RENAME TO renumbered;
CREATE TABLE moved (old TEXT NOT NULL, new TEXT NOT NULL UNIQUE);
INSERT INTO moved SELECT 'tg' || old, 'tg' || new FROM renumbered ORDER BY rowid;
DROP TABLE renumbered;
""",
    6: """
CREATE TABLE titles (chat TEXT PRIMARY KEY, title TEXT NOT NULL);
""",
    7: """
ALTER TABLE messages ADD COLUMN apart INTEGER NOT NULL DEFAULT 0;
CREATE INDEX history_of_chat ON history (chat, id);
""",
    8: """
ALTER TABLE messages ADD COLUMN channel TEXT NOT NULL DEFAULT '';
""",
    9: """
ALTER TABLE messages ADD COLUMN model TEXT NOT NULL DEFAULT '';
""",
    10: """
ALTER TABLE messages ADD COLUMN task INTEGER;
CREATE TABLE tasks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT NULL,
    parent INTEGER, message INTEGER UNIQUE, attached INTEGER NOT NULL, question TEXT NOT NULL,
    options TEXT NOT NULL, language TEXT NOT NULL, model TEXT NOT NULL, state TEXT NOT NULL,
    answer TEXT NOT NULL DEFAULT '', report TEXT NOT NULL DEFAULT '{}', spent TEXT NOT NULL DEFAULT '{}',
    tainted INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL, started REAL, ended REAL
);
CREATE INDEX tasks_open ON tasks (id) WHERE ended IS NULL;
CREATE INDEX tasks_of_owner ON tasks (owner, id);
""",
}
"""What leads from a version to the next one."""

STATE = Schema(SCHEMA_VERSION, SCHEMA, MIGRATIONS)
