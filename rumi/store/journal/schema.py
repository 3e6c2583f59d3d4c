"""The tables of `state.db`, the schema version, and the migrations from earlier versions."""

from rumi.store.sqlite import Schema

SCHEMA_VERSION = 22

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
    task     INTEGER,            -- the one whose result it brings
    project  TEXT NOT NULL DEFAULT '',        -- the folder whose skills count for it as well
    schedule INTEGER,            -- the one that put it here
    notice   INTEGER NOT NULL DEFAULT 0,      -- its text is its reply: no turn begins
    tainted  INTEGER NOT NULL DEFAULT 0,      -- its text may hold what came from outside
    buttons  TEXT NOT NULL DEFAULT '[]',      -- JSON: of each its id, its label, and what a press says
    sent     REAL NOT NULL DEFAULT 0,         -- when its sender sent it, as its source says
    part_of  INTEGER,            -- the first message of the turn that it is a part of
    resumed  INTEGER NOT NULL DEFAULT 0,      -- how often its turn was resumed after the end of a process
    corrects INTEGER NOT NULL DEFAULT 0,      -- the message whose text it has replaced
    asking   TEXT NOT NULL DEFAULT '',        -- the call of its turn that waits for a person's yes
    event_of TEXT NOT NULL DEFAULT '',        -- the trigger whose event it brings
    pressed  INTEGER NOT NULL DEFAULT 0,      -- it is a press of a button below the message `origin`
    branches INTEGER NOT NULL DEFAULT 0       -- the message from which its turn begins the chat anew
);
CREATE INDEX messages_open ON messages (chat) WHERE reply IS NULL;
CREATE INDEX messages_of_reply ON messages (reply);
CREATE INDEX messages_of_chat ON messages (chat, id);
CREATE INDEX messages_with_buttons ON messages (chat, id) WHERE buttons != '[]';
CREATE INDEX messages_to_retry ON messages (chat, session, id)
    WHERE reply IS NOT NULL AND reason IS NOT NULL AND reason != 'complete' AND retried IS NULL;
CREATE TABLE updates (           -- what a source may deliver twice
    source TEXT NOT NULL,        -- a channel
    number INTEGER NOT NULL,     -- the source's
    seen   REAL NOT NULL,
    message INTEGER,             -- the one that it became
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
    failure   TEXT,              -- why nobody will ever have it; then `delivered` is when that was found
    begun     INTEGER NOT NULL DEFAULT 0,     -- how many of its parts a person may have
    in_place  INTEGER NOT NULL DEFAULT 0,     -- it takes the place of the message whose button was pressed
    note      TEXT NOT NULL DEFAULT '',       -- a line for people about the files of the chat's folder
    questions TEXT NOT NULL DEFAULT '[]',     -- JSON: what was asked for the command that it answers
    silent    INTEGER NOT NULL DEFAULT 0      -- views show neither it nor the messages that it answers
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
    links   TEXT NOT NULL DEFAULT '[]',       -- JSON: addresses that its user or a page gave, word for word
    undone  INTEGER NOT NULL DEFAULT 0,       -- its turn was taken back: prompts do not show it
    -- The schedule whose turn ended without a message; negative if a later one did: prompts do not show it
    silent  INTEGER NOT NULL DEFAULT 0,
    shown   TEXT NOT NULL DEFAULT ''          -- JSON: what people saw of it, and what its model call used
);
CREATE INDEX history_of_session ON history (chat, session, id);
CREATE INDEX history_of_chat ON history (chat, id);
CREATE INDEX history_of_turn ON history (chat, turn, id);
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
    tainted INTEGER NOT NULL DEFAULT 0,  -- expired entries of it were tainted
    nano    INTEGER NOT NULL DEFAULT 0,   -- price of its turns in billionths of a USD
    forgotten INTEGER NOT NULL DEFAULT 0, -- messages of earlier sessions up to this one are not shown
    PRIMARY KEY (chat, number)
);
CREATE INDEX sessions_to_learn ON sessions (chat, number) WHERE fresh;
CREATE INDEX sessions_to_forget ON sessions (chat, number) WHERE forget;
CREATE INDEX sessions_after_reset ON sessions (chat, number) WHERE forgotten > 0;
CREATE TABLE summaries (         -- what stands in the prompt for the beginning of a session
    chat    TEXT NOT NULL,
    session INTEGER NOT NULL,
    turn    TEXT NOT NULL,
    upto    INTEGER NOT NULL,    -- the last history entry that prompts do not have, in that turn
    text    TEXT NOT NULL,
    tainted INTEGER NOT NULL,
    links   TEXT NOT NULL,       -- JSON, as in the history
    created REAL NOT NULL,
    told    INTEGER NOT NULL DEFAULT 0,  -- the last entry that the text stands for; the rest is left out
    PRIMARY KEY (chat, session)
);
CREATE TABLE parked (            -- calls that wait for a person's yes, or have had an answer
    chat     TEXT NOT NULL,      -- or the key of a task
    number   INTEGER NOT NULL,
    call     TEXT NOT NULL,      -- the tool's name and its arguments as JSON
    question TEXT NOT NULL,
    state    TEXT NOT NULL,
    asked    INTEGER NOT NULL,   -- a stored message asks it
    turn     TEXT NOT NULL DEFAULT '',        -- the one that made it
    schedule INTEGER NOT NULL DEFAULT 0,      -- the schedule of that turn
    made     REAL NOT NULL DEFAULT 0,         -- when the turn made it
    offer    TEXT NOT NULL DEFAULT '',        -- JSON: what a yes for all fires of the schedule would cover
    PRIMARY KEY (chat, number)
) WITHOUT ROWID;
CREATE TABLE tainted_files (     -- chats with something in their files that came from outside
    chat  TEXT PRIMARY KEY,
    since REAL NOT NULL
);
CREATE TABLE moved (             -- groups that their channel calls by another number since
    old TEXT NOT NULL,           -- the chat's id, for ever
    new TEXT NOT NULL UNIQUE     -- the id that the new number would have: it leads to the chat
);
CREATE TABLE members (           -- people who have written to the bot in a group
    chat  TEXT NOT NULL,
    user  INTEGER NOT NULL,      -- what their source calls them
    name  TEXT NOT NULL,         -- what they call themselves there
    since REAL NOT NULL,
    seen  REAL NOT NULL,
    PRIMARY KEY (chat, user)
) WITHOUT ROWID;
CREATE TABLE titles (            -- what the owner of a chat calls it, and how its owner has filed it
    chat  TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    automatic INTEGER NOT NULL DEFAULT 0,     -- the program has made the title
    pinned    INTEGER NOT NULL DEFAULT 0,
    archived  INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE lineage (           -- sessions whose beginning a branch shares
    chat    TEXT NOT NULL,
    session INTEGER NOT NULL,    -- the branch
    base    INTEGER NOT NULL,    -- a session that has a part of its history
    upto    INTEGER NOT NULL,    -- the last history entry of that part
    PRIMARY KEY (chat, session, base)
) WITHOUT ROWID;
CREATE INDEX lineage_of_base ON lineage (chat, base);
CREATE TABLE tasks (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    kind     TEXT NOT NULL,      -- what it is: web, repo, bot
    owner    TEXT NOT NULL,
    chat     TEXT NOT NULL,      -- the one that gets its result; empty: only who looks for it
    parent   INTEGER,            -- of earlier versions: the task that waited for it
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
    ended    REAL,
    schedule INTEGER,            -- the one that began it
    bot      TEXT NOT NULL DEFAULT '',        -- the bot that it is a session of
    said     TEXT NOT NULL DEFAULT '[]',      -- JSON: what people said to it and it has not heard yet
    wake_at  REAL NOT NULL DEFAULT 0,         -- it sleeps until then
    user     INTEGER             -- what its chat's source calls the person who asked for it
);
CREATE INDEX tasks_open ON tasks (id) WHERE ended IS NULL;
CREATE INDEX tasks_of_owner ON tasks (owner, id);
CREATE INDEX tasks_of_bot ON tasks (bot, id) WHERE bot != '';
CREATE TABLE iterations (        -- what a bot has done in a session: each is a session of its history
    task     INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    reason   TEXT NOT NULL,      -- how its turn ended
    summary  TEXT NOT NULL,
    tainted  INTEGER NOT NULL,   -- something in it came from outside
    spent    TEXT NOT NULL,      -- JSON: all that the session had used by then
    ended    REAL NOT NULL,
    PRIMARY KEY (task, number)
) WITHOUT ROWID;
CREATE TABLE usage (             -- what model calls have used, summed up
    id       INTEGER PRIMARY KEY,
    day      TEXT NOT NULL,      -- the local date on which they began
    owner    TEXT NOT NULL,
    chat     TEXT NOT NULL,      -- empty: of a chat that was deleted
    task     INTEGER NOT NULL,   -- 0: of no task
    bot      TEXT NOT NULL,
    model    TEXT NOT NULL,
    tool     TEXT NOT NULL,      -- the one that a reply called, empty for an answer in words
    calls    INTEGER NOT NULL,
    tool_calls INTEGER NOT NULL,
    prompt   INTEGER NOT NULL,   -- tokens
    completion INTEGER NOT NULL,
    cached   INTEGER NOT NULL,   -- of the prompt
    nano     INTEGER NOT NULL,   -- billionths of a USD
    unpriced INTEGER NOT NULL,   -- tokens without a known price
    estimated INTEGER NOT NULL,  -- calls of which no server said what they used
    created  REAL NOT NULL,
    person   TEXT NOT NULL DEFAULT '',  -- who asked for it, empty where nobody knows
    UNIQUE (day, owner, chat, task, bot, model, tool, person)
);
CREATE INDEX usage_of_task ON usage (task) WHERE task;
CREATE TABLE reservations (      -- model calls that run while a budget bounds them
    key      TEXT PRIMARY KEY,
    day      TEXT NOT NULL,
    owner    TEXT NOT NULL,
    chat     TEXT NOT NULL,
    task     INTEGER NOT NULL,
    bot      TEXT NOT NULL,
    model    TEXT NOT NULL,
    prompt   INTEGER NOT NULL,
    completion INTEGER NOT NULL,
    nano     INTEGER NOT NULL,
    priced   INTEGER NOT NULL,   -- the model's price is known
    created  REAL NOT NULL,
    person   TEXT NOT NULL DEFAULT ''
);
CREATE TABLE grants (            -- what was allowed on top of the budgets of a day
    id       INTEGER PRIMARY KEY,
    day      TEXT NOT NULL,
    owner    TEXT NOT NULL,
    chat     TEXT NOT NULL,
    nano     INTEGER NOT NULL,
    tokens   INTEGER NOT NULL,
    created  REAL NOT NULL
);
CREATE TABLE budget_notices (    -- budgets of a period about which people were told
    key      TEXT PRIMARY KEY,
    created  REAL NOT NULL
);
CREATE TABLE schedules (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    owner    TEXT NOT NULL,
    chat     TEXT NOT NULL,
    kind     TEXT NOT NULL,      -- what a fire does: text, turn, research, bot
    text     TEXT NOT NULL,
    options  TEXT NOT NULL,      -- JSON: its kind's
    cron     TEXT NOT NULL,      -- its recurrence, empty for one that fires once
    zone     TEXT NOT NULL,      -- the time zone of its local time
    instant  REAL NOT NULL,      -- the time that the next fire is for
    next_at  REAL NOT NULL,      -- when that fire happens: later than its instant where it was put off
    state    TEXT NOT NULL,      -- active, paused, done
    failures INTEGER NOT NULL DEFAULT 0,      -- fires in a row whose work failed
    missed   INTEGER NOT NULL DEFAULT 0,      -- instants without a fire that nobody was told of yet
    missed_at REAL NOT NULL DEFAULT 0,        -- the first of them
    language TEXT NOT NULL,
    model    TEXT NOT NULL,
    tainted  INTEGER NOT NULL,   -- its text may hold what came from outside
    message  INTEGER UNIQUE,     -- the command that asked for it
    created  REAL NOT NULL,
    touched  REAL NOT NULL,      -- when its next fire was last set
    user     INTEGER,            -- what its chat's source calls the person who asked for it
    reason   TEXT NOT NULL DEFAULT '',        -- why it was paused, where nobody could be reached
    checked  TEXT NOT NULL DEFAULT '',        -- JSON: what its last check without a model has read
    outcome  TEXT NOT NULL DEFAULT '',        -- JSON: when and how the work of its last fire ended
    approval TEXT NOT NULL DEFAULT ''         -- JSON: the calls that a person has approved for all fires
);
CREATE INDEX schedules_due ON schedules (next_at) WHERE state = 'active';
CREATE INDEX schedules_failed ON schedules (id) WHERE state = 'active' AND failures >= 3;
CREATE INDEX schedules_missed ON schedules (chat) WHERE missed != 0;
CREATE INDEX schedules_of_owner ON schedules (owner, id);
CREATE INDEX schedules_of_chat ON schedules (chat);
CREATE INDEX schedules_touched ON schedules (touched);
CREATE TABLE fires (             -- what has fired: an instant of a schedule fires once
    schedule INTEGER NOT NULL,
    instant  REAL NOT NULL,      -- of a fire that a command asked for: minus the number of its message
    at       REAL NOT NULL,
    message  INTEGER,
    task     INTEGER,
    PRIMARY KEY (schedule, instant)
) WITHOUT ROWID;
CREATE TABLE unreachable (       -- chats to which nothing can be delivered
    chat     TEXT PRIMARY KEY,
    why      TEXT NOT NULL,      -- the refusal, in the words of the chat's source
    since    REAL NOT NULL,
    noted    INTEGER NOT NULL DEFAULT 0,      -- admins were told
    back     REAL NOT NULL DEFAULT 0          -- when a person wrote there again; 0: not yet
);
CREATE TABLE episodes (          -- a line on what a session that ended was about
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    chat    TEXT NOT NULL,
    session INTEGER NOT NULL,
    text    TEXT NOT NULL,
    began   REAL NOT NULL,
    created REAL NOT NULL,
    UNIQUE (chat, session)
);
CREATE TABLE zones (             -- the time zones of owners
    owner TEXT PRIMARY KEY,
    zone  TEXT NOT NULL
);
CREATE TABLE deliveries (        -- events that were sent to triggers: each is taken once
    source   TEXT NOT NULL,      -- the trigger
    delivery TEXT NOT NULL,      -- what the sender calls it
    received REAL NOT NULL,
    message  INTEGER,            -- the message that it became
    PRIMARY KEY (source, delivery)
) WITHOUT ROWID;
CREATE INDEX deliveries_by_age ON deliveries (received);
CREATE TABLE list_items (        -- the entries of lists that a chat shares
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    chat    TEXT NOT NULL,
    list    TEXT NOT NULL,       -- the list's name
    text    TEXT NOT NULL,
    author  TEXT NOT NULL,       -- the name of who added it
    added   REAL NOT NULL,
    ticked  REAL,                -- null while it is open
    ticker  TEXT NOT NULL DEFAULT '',         -- the name of who ticked it off
    user    INTEGER,             -- what the chat's source calls its author
    tainted INTEGER NOT NULL DEFAULT 0        -- its text may hold what came from outside
);
CREATE INDEX list_items_of_chat ON list_items (chat, list, id);
CREATE TABLE list_changes (      -- what turns have made of items of lists
    id       INTEGER PRIMARY KEY,
    turn     TEXT NOT NULL,
    chat     TEXT NOT NULL,
    item     INTEGER NOT NULL,
    before   TEXT,               -- JSON: its row, null where there was none
    after    TEXT,
    created  REAL NOT NULL
);
CREATE INDEX list_changes_of_turn ON list_changes (turn);
CREATE TABLE voices (            -- what chats have chosen about spoken answers
    chat    TEXT PRIMARY KEY,
    answers TEXT NOT NULL        -- which answers are spoken: never, to_voice, always
);
CREATE TABLE undos (             -- turns that were taken back
    message  INTEGER PRIMARY KEY,             -- the one that asked for it
    chat     TEXT NOT NULL,
    turn     TEXT NOT NULL,
    undone   TEXT NOT NULL,      -- JSON: what is as before, and what is not
    done     INTEGER NOT NULL,   -- 0: it has to be completed
    created  REAL NOT NULL
);
CREATE INDEX undos_of_chat ON undos (chat, turn);
CREATE INDEX undos_begun ON undos (chat) WHERE NOT done;
CREATE TABLE schedule_changes (  -- what turns have made of schedules
    id       INTEGER PRIMARY KEY,
    turn     TEXT NOT NULL,
    chat     TEXT NOT NULL,
    schedule INTEGER NOT NULL,
    before   TEXT,               -- JSON: its row, null where there was none
    after    TEXT,
    created  REAL NOT NULL
);
CREATE INDEX schedule_changes_of_turn ON schedule_changes (turn);
CREATE TABLE workers (           -- processes that share this database
    name     TEXT PRIMARY KEY,   -- of one process, once
    version  TEXT NOT NULL,
    address  TEXT NOT NULL,      -- where other workers reach it; empty: nowhere
    started  REAL NOT NULL,
    until    REAL NOT NULL,      -- the end of its lease; one that has ended is not renewed
    batch    INTEGER NOT NULL DEFAULT 0,      -- the last transaction that it has committed
    leaving  INTEGER NOT NULL DEFAULT 0,      -- it hands over what it serves
    status   TEXT NOT NULL DEFAULT '{}'       -- JSON: what it says of itself
);
CREATE TABLE partitions (        -- who serves the chats of a partition
    number   INTEGER PRIMARY KEY,
    worker   TEXT,               -- null: nobody
    fence    INTEGER NOT NULL DEFAULT 0,      -- higher with each change of its worker
    ready_at REAL NOT NULL DEFAULT 0          -- no sandbox of an earlier worker is there after that
);
CREATE TABLE album_parts (       -- messages of albums that come one by one, until they become one message
    id    INTEGER PRIMARY KEY,
    chat  TEXT NOT NULL,
    album TEXT NOT NULL,         -- what its source calls it
    part  TEXT NOT NULL,         -- JSON: a message
    came  REAL NOT NULL
);
CREATE INDEX album_parts_of_album ON album_parts (chat, album, came);
CREATE TABLE pieces (            -- of the files of chats, by their hash
    chat    TEXT NOT NULL,
    key     TEXT NOT NULL,
    content BLOB NOT NULL,
    size    BIGINT NOT NULL,     -- bytes
    used    INTEGER NOT NULL,    -- the stored manifest has it
    PRIMARY KEY (chat, key)
);
CREATE INDEX pieces_unused ON pieces (chat) WHERE used = 0;
CREATE TABLE workspaces (        -- the files of chats, as they were at the end of a turn
    chat     TEXT PRIMARY KEY,
    fence    BIGINT NOT NULL,    -- of the owner that loaded it last: no other one writes
    manifest BLOB NOT NULL,      -- empty: none is stored
    size     BIGINT NOT NULL,    -- bytes of the files
    changed  REAL NOT NULL
);
CREATE TABLE effects (           -- what tools do at other services, where a repetition would be a second deed
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    chat    TEXT NOT NULL,
    turn    TEXT NOT NULL,       -- the turn, or what else asks for it, such as a reply
    key     TEXT NOT NULL,       -- a digest of what is done
    kind    TEXT NOT NULL,
    what    TEXT NOT NULL,       -- for people: what is done, and to whom
    state   TEXT NOT NULL,       -- reserved, handed_over, done, failed
    note    TEXT NOT NULL DEFAULT '',         -- what the service said
    created REAL NOT NULL,
    changed REAL NOT NULL,
    UNIQUE (turn, key)
);
CREATE INDEX effects_of_chat ON effects (chat, id);
CREATE TABLE mail_positions (    -- up to where the folders of mailboxes have been read
    account  TEXT NOT NULL,      -- the address at its server
    folder   TEXT NOT NULL,
    validity INTEGER NOT NULL,   -- the server's UIDVALIDITY: with another one, numbers begin again
    upto     INTEGER NOT NULL,   -- the last UID that was read
    changed  REAL NOT NULL,
    PRIMARY KEY (account, folder)
) WITHOUT ROWID;
CREATE TABLE matrix_accounts (
    account TEXT PRIMARY KEY,    -- the user's id at its homeserver
    token   TEXT NOT NULL,       -- up to where events have been stored
    salt    TEXT NOT NULL,       -- part of the ids of what is sent: another database, other ids
    changed REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE matrix_rooms (      -- where the chats of accounts are
    chat   TEXT PRIMARY KEY,
    room   TEXT NOT NULL,
    thread TEXT NOT NULL         -- the event that the thread begins with; empty outside of threads
) WITHOUT ROWID;
CREATE TABLE matrix_events (     -- messages of people and of Rumi, by numbers in their order
    number  INTEGER PRIMARY KEY AUTOINCREMENT,
    account TEXT NOT NULL,
    event   TEXT,                -- null while nobody knows if it was sent
    chat    TEXT NOT NULL,
    message INTEGER,             -- the message that it became; null for Rumi's own
    what    TEXT NOT NULL DEFAULT '',  -- the question that it asks
    seen    REAL NOT NULL
);
CREATE UNIQUE INDEX matrix_events_of_account ON matrix_events (account, event);
CREATE INDEX matrix_events_by_age ON matrix_events (seen);
CREATE INDEX matrix_events_of_chat ON matrix_events (chat);
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
    11: """
ALTER TABLE messages ADD COLUMN project TEXT NOT NULL DEFAULT '';
CREATE TABLE usage (
    id INTEGER PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT NULL,
    task INTEGER NOT NULL, bot TEXT NOT NULL, model TEXT NOT NULL, tool TEXT NOT NULL,
    calls INTEGER NOT NULL, tool_calls INTEGER NOT NULL, prompt INTEGER NOT NULL,
    completion INTEGER NOT NULL, cached INTEGER NOT NULL, nano INTEGER NOT NULL,
    unpriced INTEGER NOT NULL, estimated INTEGER NOT NULL, created REAL NOT NULL,
    UNIQUE (day, owner, chat, task, bot, model, tool)
);
CREATE INDEX usage_of_task ON usage (task) WHERE task;
CREATE TABLE reservations (
    key TEXT PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT NULL,
    task INTEGER NOT NULL, bot TEXT NOT NULL, model TEXT NOT NULL, prompt INTEGER NOT NULL,
    completion INTEGER NOT NULL, nano INTEGER NOT NULL, priced INTEGER NOT NULL, created REAL NOT NULL
);
CREATE TABLE grants (
    id INTEGER PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT NULL,
    nano INTEGER NOT NULL, tokens INTEGER NOT NULL, created REAL NOT NULL
);
CREATE TABLE budget_notices (key TEXT PRIMARY KEY, created REAL NOT NULL);
""",
    12: """
ALTER TABLE messages ADD COLUMN schedule INTEGER;
ALTER TABLE messages ADD COLUMN notice INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN tainted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN schedule INTEGER;
CREATE TABLE schedules (
    id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, chat TEXT NOT NULL, kind TEXT NOT NULL,
    text TEXT NOT NULL, options TEXT NOT NULL, cron TEXT NOT NULL, zone TEXT NOT NULL,
    instant REAL NOT NULL, next_at REAL NOT NULL, state TEXT NOT NULL,
    failures INTEGER NOT NULL DEFAULT 0, missed INTEGER NOT NULL DEFAULT 0,
    missed_at REAL NOT NULL DEFAULT 0, language TEXT NOT NULL, model TEXT NOT NULL,
    tainted INTEGER NOT NULL, message INTEGER UNIQUE, created REAL NOT NULL, touched REAL NOT NULL
);
CREATE INDEX schedules_due ON schedules (next_at) WHERE state = 'active';
CREATE INDEX schedules_failed ON schedules (id) WHERE state = 'active' AND failures >= 3;
CREATE INDEX schedules_missed ON schedules (chat) WHERE missed != 0;
CREATE INDEX schedules_of_owner ON schedules (owner, id);
CREATE INDEX schedules_of_chat ON schedules (chat);
CREATE INDEX schedules_touched ON schedules (touched);
CREATE TABLE fires (
    schedule INTEGER NOT NULL, instant REAL NOT NULL, at REAL NOT NULL, message INTEGER, task INTEGER,
    PRIMARY KEY (schedule, instant)
) WITHOUT ROWID;
CREATE TABLE zones (owner TEXT PRIMARY KEY, zone TEXT NOT NULL);
""",
    13: """
ALTER TABLE messages ADD COLUMN buttons TEXT NOT NULL DEFAULT '[]';
CREATE INDEX messages_with_buttons ON messages (chat, id) WHERE buttons != '[]';
CREATE TABLE parked (
    chat TEXT NOT NULL, number INTEGER NOT NULL, call TEXT NOT NULL, question TEXT NOT NULL,
    state TEXT NOT NULL, asked INTEGER NOT NULL, PRIMARY KEY (chat, number)
) WITHOUT ROWID;
ALTER TABLE tasks ADD COLUMN bot TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN said TEXT NOT NULL DEFAULT '[]';
ALTER TABLE tasks ADD COLUMN wake_at REAL NOT NULL DEFAULT 0;
CREATE INDEX tasks_of_bot ON tasks (bot, id) WHERE bot != '';
CREATE TABLE iterations (
    task INTEGER NOT NULL, number INTEGER NOT NULL, reason TEXT NOT NULL, summary TEXT NOT NULL,
    tainted INTEGER NOT NULL, spent TEXT NOT NULL, ended REAL NOT NULL, PRIMARY KEY (task, number)
) WITHOUT ROWID;
""",
    14: """
CREATE TABLE episodes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, session INTEGER NOT NULL, text TEXT NOT NULL,
    began REAL NOT NULL, created REAL NOT NULL, UNIQUE (chat, session)
);
ALTER TABLE schedules ADD COLUMN user INTEGER;
ALTER TABLE tasks ADD COLUMN user INTEGER;
ALTER TABLE reservations ADD COLUMN person TEXT NOT NULL DEFAULT '';
DROP INDEX usage_of_task;
ALTER TABLE usage RENAME TO usage_before;
CREATE TABLE usage (
    id INTEGER PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT NULL,
    task INTEGER NOT NULL, bot TEXT NOT NULL, model TEXT NOT NULL, tool TEXT NOT NULL,
    calls INTEGER NOT NULL, tool_calls INTEGER NOT NULL, prompt INTEGER NOT NULL,
    completion INTEGER NOT NULL, cached INTEGER NOT NULL, nano INTEGER NOT NULL,
    unpriced INTEGER NOT NULL, estimated INTEGER NOT NULL, created REAL NOT NULL,
    person TEXT NOT NULL DEFAULT '', UNIQUE (day, owner, chat, task, bot, model, tool, person)
);
INSERT INTO usage SELECT *, '' FROM usage_before;
DROP TABLE usage_before;
CREATE INDEX usage_of_task ON usage (task) WHERE task;
ALTER TABLE history ADD COLUMN undone INTEGER NOT NULL DEFAULT 0;
ALTER TABLE parked ADD COLUMN turn TEXT NOT NULL DEFAULT '';
CREATE TABLE undos (
    message INTEGER PRIMARY KEY, chat TEXT NOT NULL, turn TEXT NOT NULL, undone TEXT NOT NULL,
    done INTEGER NOT NULL, created REAL NOT NULL
);
CREATE INDEX undos_of_chat ON undos (chat, turn);
CREATE INDEX undos_begun ON undos (chat) WHERE NOT done;
CREATE TABLE schedule_changes (
    id INTEGER PRIMARY KEY, turn TEXT NOT NULL, chat TEXT NOT NULL, schedule INTEGER NOT NULL,
    before TEXT, after TEXT, created REAL NOT NULL
);
CREATE INDEX schedule_changes_of_turn ON schedule_changes (turn);
""",
    15: """
DROP INDEX schedules_missed;
CREATE INDEX schedules_missed ON schedules (chat) WHERE missed != 0;
CREATE TABLE workers (
    name     TEXT PRIMARY KEY,
    version  TEXT NOT NULL,
    address  TEXT NOT NULL,
    started  REAL NOT NULL,
    until    REAL NOT NULL,
    batch    INTEGER NOT NULL DEFAULT 0,
    leaving  INTEGER NOT NULL DEFAULT 0,
    status   TEXT NOT NULL DEFAULT '{}'
);
CREATE TABLE partitions (
    number   INTEGER PRIMARY KEY,
    worker   TEXT,
    fence    INTEGER NOT NULL DEFAULT 0,
    ready_at REAL NOT NULL DEFAULT 0
);
CREATE TABLE album_parts (
    id INTEGER PRIMARY KEY, chat TEXT NOT NULL, album TEXT NOT NULL, part TEXT NOT NULL, came REAL NOT NULL
);
CREATE INDEX album_parts_of_album ON album_parts (chat, album, came);
CREATE TABLE pieces (
    chat TEXT NOT NULL, key TEXT NOT NULL, content BLOB NOT NULL, size BIGINT NOT NULL, used INTEGER NOT NULL,
    PRIMARY KEY (chat, key)
);
CREATE INDEX pieces_unused ON pieces (chat) WHERE used = 0;
CREATE TABLE workspaces (
    chat TEXT PRIMARY KEY, fence BIGINT NOT NULL, manifest BLOB NOT NULL, size BIGINT NOT NULL,
    changed REAL NOT NULL
);
""",
    16: """
ALTER TABLE messages ADD COLUMN sent REAL NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN part_of INTEGER;
ALTER TABLE messages ADD COLUMN resumed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN corrects INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN asking TEXT NOT NULL DEFAULT '';
CREATE TABLE voices (chat TEXT PRIMARY KEY, answers TEXT NOT NULL);
CREATE TABLE members (
    chat TEXT NOT NULL, user INTEGER NOT NULL, name TEXT NOT NULL, since REAL NOT NULL, seen REAL NOT NULL,
    PRIMARY KEY (chat, user)
) WITHOUT ROWID;
ALTER TABLE outbox ADD COLUMN begun INTEGER NOT NULL DEFAULT 0;
ALTER TABLE schedules ADD COLUMN reason TEXT NOT NULL DEFAULT '';
CREATE TABLE unreachable (
    chat TEXT PRIMARY KEY, why TEXT NOT NULL, since REAL NOT NULL, noted INTEGER NOT NULL DEFAULT 0,
    back REAL NOT NULL DEFAULT 0
);
""",
    17: """
ALTER TABLE history ADD COLUMN silent INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN event_of TEXT NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN pressed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN in_place INTEGER NOT NULL DEFAULT 0;
ALTER TABLE schedules ADD COLUMN checked TEXT NOT NULL DEFAULT '';
ALTER TABLE schedules ADD COLUMN outcome TEXT NOT NULL DEFAULT '';
ALTER TABLE schedules ADD COLUMN approval TEXT NOT NULL DEFAULT '';
ALTER TABLE parked ADD COLUMN schedule INTEGER NOT NULL DEFAULT 0;
ALTER TABLE parked ADD COLUMN made REAL NOT NULL DEFAULT 0;
ALTER TABLE parked ADD COLUMN offer TEXT NOT NULL DEFAULT '';
UPDATE parked SET
    schedule = coalesce((SELECT max(schedule) FROM messages WHERE messages.chat = parked.chat
        AND messages.turn = parked.turn), 0),
    made = coalesce((SELECT max(received) FROM messages WHERE messages.chat = parked.chat
        AND messages.turn = parked.turn), 0)
    WHERE turn != '';
UPDATE schedules SET owner = CASE WHEN replace(chat, '_', '') = chat THEN chat
    ELSE rtrim(rtrim(chat, '0123456789'), '_') END
    WHERE owner = 'local' AND substr(chat, 1, 2) = 'tg';
CREATE TABLE deliveries (
    source TEXT NOT NULL, delivery TEXT NOT NULL, received REAL NOT NULL, message INTEGER,
    PRIMARY KEY (source, delivery)
) WITHOUT ROWID;
CREATE INDEX deliveries_by_age ON deliveries (received);
CREATE TABLE list_items (
    id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, list TEXT NOT NULL, text TEXT NOT NULL,
    author TEXT NOT NULL, added REAL NOT NULL, ticked REAL, ticker TEXT NOT NULL DEFAULT '',
    user INTEGER, tainted INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX list_items_of_chat ON list_items (chat, list, id);
CREATE TABLE list_changes (
    id INTEGER PRIMARY KEY, turn TEXT NOT NULL, chat TEXT NOT NULL, item INTEGER NOT NULL, before TEXT,
    after TEXT, created REAL NOT NULL
);
CREATE INDEX list_changes_of_turn ON list_changes (turn);
""",
    18: """
ALTER TABLE sessions ADD COLUMN tainted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN nano INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET tainted = TRUE WHERE started + 60 <
    (SELECT min(created) FROM history WHERE history.chat = sessions.chat AND session = number);
""",
    19: """
ALTER TABLE history ADD COLUMN shown TEXT NOT NULL DEFAULT '';
CREATE INDEX history_of_turn ON history (chat, turn, id);
ALTER TABLE outbox ADD COLUMN note TEXT NOT NULL DEFAULT '';
ALTER TABLE outbox ADD COLUMN questions TEXT NOT NULL DEFAULT '[]';
ALTER TABLE outbox ADD COLUMN silent INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sessions_after_reset ON sessions (chat, number) WHERE forgotten > 0;
ALTER TABLE updates ADD COLUMN message INTEGER;
ALTER TABLE messages ADD COLUMN branches INTEGER NOT NULL DEFAULT 0;
ALTER TABLE titles ADD COLUMN automatic INTEGER NOT NULL DEFAULT 0;
ALTER TABLE titles ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE titles ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
CREATE TABLE lineage (
    chat TEXT NOT NULL, session INTEGER NOT NULL, base INTEGER NOT NULL, upto INTEGER NOT NULL,
    PRIMARY KEY (chat, session, base)
) WITHOUT ROWID;
CREATE INDEX lineage_of_base ON lineage (chat, base);
""",
    20: """
CREATE TABLE effects (
    id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, turn TEXT NOT NULL, key TEXT NOT NULL,
    kind TEXT NOT NULL, what TEXT NOT NULL, state TEXT NOT NULL, note TEXT NOT NULL DEFAULT '',
    created REAL NOT NULL, changed REAL NOT NULL, UNIQUE (turn, key)
);
CREATE INDEX effects_of_chat ON effects (chat, id);
CREATE TABLE mail_positions (
    account TEXT NOT NULL, folder TEXT NOT NULL, validity INTEGER NOT NULL, upto INTEGER NOT NULL,
    changed REAL NOT NULL, PRIMARY KEY (account, folder)
) WITHOUT ROWID;
""",
    21: """
CREATE TABLE matrix_accounts (
    account TEXT PRIMARY KEY, token TEXT NOT NULL, salt TEXT NOT NULL, changed REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE matrix_rooms (
    chat TEXT PRIMARY KEY, room TEXT NOT NULL, thread TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE matrix_events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT NOT NULL, event TEXT, chat TEXT NOT NULL,
    message INTEGER, what TEXT NOT NULL DEFAULT '', seen REAL NOT NULL
);
CREATE UNIQUE INDEX matrix_events_of_account ON matrix_events (account, event);
CREATE INDEX matrix_events_by_age ON matrix_events (seen);
CREATE INDEX matrix_events_of_chat ON matrix_events (chat);
""",
}
"""SQL statements that upgrade each version to the next one."""

STATE = Schema(SCHEMA_VERSION, SCHEMA, MIGRATIONS)

ON_A_SERVER = {
    "state": """
ALTER TABLE moved ADD COLUMN rowid bigint GENERATED ALWAYS AS IDENTITY;
ALTER TABLE summaries ADD COLUMN rowid bigint GENERATED ALWAYS AS IDENTITY;
ALTER TABLE budget_notices ADD COLUMN rowid bigint GENERATED ALWAYS AS IDENTITY;
CREATE INDEX summaries_in_order ON summaries (rowid);
CREATE INDEX messages_open_of_all ON messages (partition_of(chat)) WHERE reply IS NULL;
CREATE INDEX outbox_waiting_of_all ON outbox (partition_of(chat)) WHERE delivered IS NULL;
CREATE INDEX schedules_due_of_all ON schedules (partition_of(chat), next_at) WHERE state = 'active';
CREATE INDEX sessions_to_learn_of_all ON sessions (partition_of(chat)) WHERE fresh;
INSERT INTO partitions (number) SELECT generate_series(0, 256);
"""
}
"""Additional statements for a new PostgreSQL database. They create columns for the order of insertion, which
SQLite has in `rowid`; indexes for workers that serve only some of the chats; and the partition rows that
transactions lock."""
