"""Files as earlier versions of the program made them, each with something of everything in it."""

import sqlite3
from pathlib import Path

SCHEMAS = {
    1: """
CREATE TABLE messages (id INTEGER PRIMARY KEY, chat TEXT NOT NULL, text TEXT NOT NULL, received REAL NOT NULL,
    session INTEGER, turn TEXT, reason TEXT, retried INTEGER, reply INTEGER REFERENCES outbox (id));
CREATE INDEX messages_open ON messages (chat) WHERE reply IS NULL;
CREATE INDEX messages_of_reply ON messages (reply);
CREATE INDEX messages_of_chat ON messages (chat, id);
CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, text TEXT NOT NULL,
    created REAL NOT NULL, delivered REAL);
CREATE INDEX outbox_waiting ON outbox (chat, id) WHERE delivered IS NULL;
CREATE TABLE history (id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, session INTEGER NOT NULL,
    turn TEXT NOT NULL, message TEXT NOT NULL, tainted INTEGER NOT NULL, created REAL NOT NULL);
CREATE INDEX history_of_session ON history (chat, session, id);
CREATE TABLE sessions (chat TEXT NOT NULL, number INTEGER NOT NULL, started REAL NOT NULL, due REAL NOT NULL,
    ended REAL, PRIMARY KEY (chat, number));
""",
    2: """
CREATE TABLE messages (id INTEGER PRIMARY KEY, chat TEXT NOT NULL, text TEXT NOT NULL, received REAL NOT NULL,
    session INTEGER, turn TEXT, reason TEXT, retried INTEGER, reply INTEGER REFERENCES outbox (id),
    language TEXT NOT NULL DEFAULT '', origin INTEGER,
    enclosures TEXT NOT NULL DEFAULT '[]', preview INTEGER);
CREATE INDEX messages_open ON messages (chat) WHERE reply IS NULL;
CREATE INDEX messages_of_reply ON messages (reply);
CREATE INDEX messages_of_chat ON messages (chat, id);
CREATE TABLE updates (id INTEGER PRIMARY KEY, seen REAL NOT NULL);
CREATE INDEX updates_by_age ON updates (seen);
CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, text TEXT NOT NULL,
    created REAL NOT NULL, delivered REAL, parts INTEGER NOT NULL DEFAULT 0, failure TEXT);
CREATE INDEX outbox_waiting ON outbox (chat, id) WHERE delivered IS NULL;
CREATE TABLE history (id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, session INTEGER NOT NULL,
    turn TEXT NOT NULL, message TEXT NOT NULL, tainted INTEGER NOT NULL, created REAL NOT NULL);
CREATE INDEX history_of_session ON history (chat, session, id);
CREATE TABLE sessions (chat TEXT NOT NULL, number INTEGER NOT NULL, started REAL NOT NULL, due REAL NOT NULL,
    ended REAL, PRIMARY KEY (chat, number));
""",
    3: """
CREATE TABLE messages (id INTEGER PRIMARY KEY, chat TEXT NOT NULL, text TEXT NOT NULL, received REAL NOT NULL,
    session INTEGER, turn TEXT, reason TEXT, retried INTEGER, reply INTEGER REFERENCES outbox (id),
    language TEXT NOT NULL DEFAULT '', origin INTEGER,
    enclosures TEXT NOT NULL DEFAULT '[]', preview INTEGER);
CREATE INDEX messages_open ON messages (chat) WHERE reply IS NULL;
CREATE INDEX messages_of_reply ON messages (reply);
CREATE INDEX messages_of_chat ON messages (chat, id);
CREATE TABLE updates (id INTEGER PRIMARY KEY, seen REAL NOT NULL);
CREATE INDEX updates_by_age ON updates (seen);
CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, text TEXT NOT NULL,
    created REAL NOT NULL, delivered REAL, parts INTEGER NOT NULL DEFAULT 0, failure TEXT);
CREATE INDEX outbox_waiting ON outbox (chat, id) WHERE delivered IS NULL;
CREATE TABLE history (id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, session INTEGER NOT NULL,
    turn TEXT NOT NULL, message TEXT NOT NULL, tainted INTEGER NOT NULL, created REAL NOT NULL,
    links TEXT NOT NULL DEFAULT '[]');
CREATE INDEX history_of_session ON history (chat, session, id);
CREATE TABLE sessions (chat TEXT NOT NULL, number INTEGER NOT NULL, started REAL NOT NULL, due REAL NOT NULL,
    ended REAL, fresh INTEGER NOT NULL DEFAULT 0, learned INTEGER NOT NULL DEFAULT 0,
    asked INTEGER NOT NULL DEFAULT 0, forget INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL DEFAULT 0,
    learn_after REAL NOT NULL DEFAULT 0, PRIMARY KEY (chat, number));
CREATE INDEX sessions_to_learn ON sessions (chat, number) WHERE fresh;
CREATE TABLE summaries (chat TEXT NOT NULL, session INTEGER NOT NULL, turn TEXT NOT NULL,
    upto INTEGER NOT NULL, text TEXT NOT NULL, tainted INTEGER NOT NULL, links TEXT NOT NULL,
    created REAL NOT NULL, PRIMARY KEY (chat, session));
CREATE TABLE tainted_files (chat TEXT PRIMARY KEY, since REAL NOT NULL);
""",
    4: """
CREATE TABLE messages (id INTEGER PRIMARY KEY, chat TEXT NOT NULL, text TEXT NOT NULL, received REAL NOT NULL,
    session INTEGER, turn TEXT, reason TEXT, retried INTEGER, reply INTEGER REFERENCES outbox (id),
    language TEXT NOT NULL DEFAULT '', origin INTEGER,
    enclosures TEXT NOT NULL DEFAULT '[]', preview INTEGER, unattended INTEGER NOT NULL DEFAULT 0);
CREATE INDEX messages_open ON messages (chat) WHERE reply IS NULL;
CREATE INDEX messages_of_reply ON messages (reply);
CREATE INDEX messages_of_chat ON messages (chat, id);
CREATE INDEX messages_to_retry ON messages (chat, session, id)
    WHERE reply IS NOT NULL AND reason IS NOT NULL AND reason != 'complete' AND retried IS NULL;
CREATE TABLE updates (id INTEGER PRIMARY KEY, seen REAL NOT NULL);
CREATE INDEX updates_by_age ON updates (seen);
CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, text TEXT NOT NULL,
    created REAL NOT NULL, delivered REAL, parts INTEGER NOT NULL DEFAULT 0, failure TEXT);
CREATE INDEX outbox_waiting ON outbox (chat, id) WHERE delivered IS NULL;
CREATE TABLE history (id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, session INTEGER NOT NULL,
    turn TEXT NOT NULL, message TEXT NOT NULL, tainted INTEGER NOT NULL, created REAL NOT NULL,
    links TEXT NOT NULL DEFAULT '[]');
CREATE INDEX history_of_session ON history (chat, session, id);
CREATE INDEX history_tainted ON history (chat, session) WHERE tainted;
CREATE TABLE sessions (chat TEXT NOT NULL, number INTEGER NOT NULL, started REAL NOT NULL, due REAL NOT NULL,
    ended REAL, fresh INTEGER NOT NULL DEFAULT 0, learned INTEGER NOT NULL DEFAULT 0,
    asked INTEGER NOT NULL DEFAULT 0, forget INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL DEFAULT 0,
    learn_after REAL NOT NULL DEFAULT 0, short INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (chat, number));
CREATE INDEX sessions_to_learn ON sessions (chat, number) WHERE fresh;
CREATE INDEX sessions_to_forget ON sessions (chat, number) WHERE forget;
CREATE TABLE summaries (chat TEXT NOT NULL, session INTEGER NOT NULL, turn TEXT NOT NULL,
    upto INTEGER NOT NULL, text TEXT NOT NULL, tainted INTEGER NOT NULL, links TEXT NOT NULL,
    created REAL NOT NULL, told INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (chat, session));
CREATE TABLE tainted_files (chat TEXT PRIMARY KEY, since REAL NOT NULL);
CREATE TABLE moved (old INTEGER NOT NULL, new INTEGER NOT NULL UNIQUE);
""",
}
SCHEMAS[5] = SCHEMAS[4].replace(
    "unattended INTEGER NOT NULL DEFAULT 0);",
    "unattended INTEGER NOT NULL DEFAULT 0,\n    user INTEGER, admin INTEGER NOT NULL DEFAULT 0);",
)
SCHEMAS[6] = (
    SCHEMAS[5]
    .replace(
        "CREATE TABLE updates (id INTEGER PRIMARY KEY, seen REAL NOT NULL);\n"
        "CREATE INDEX updates_by_age ON updates (seen);",
        "CREATE TABLE updates (source TEXT NOT NULL, number INTEGER NOT NULL, seen REAL NOT NULL,\n"
        "    PRIMARY KEY (source, number)) WITHOUT ROWID;\n"
        "CREATE INDEX updates_by_age ON updates (source, seen);",
    )
    .replace(
        "(old INTEGER NOT NULL, new INTEGER NOT NULL UNIQUE)", "(old TEXT NOT NULL, new TEXT NOT NULL UNIQUE)"
    )
)
SCHEMAS[7] = SCHEMAS[6] + "CREATE TABLE titles (chat TEXT PRIMARY KEY, title TEXT NOT NULL);\n"
SCHEMAS[8] = (
    SCHEMAS[7].replace(
        "user INTEGER, admin INTEGER NOT NULL DEFAULT 0);",
        "user INTEGER, admin INTEGER NOT NULL DEFAULT 0, apart INTEGER NOT NULL DEFAULT 0);",
    )
    + "CREATE INDEX history_of_chat ON history (chat, id);\n"
)
SCHEMAS[9] = SCHEMAS[8].replace(
    "apart INTEGER NOT NULL DEFAULT 0);",
    "apart INTEGER NOT NULL DEFAULT 0,\n    channel TEXT NOT NULL DEFAULT '');",
)
SCHEMAS[10] = SCHEMAS[9].replace(
    "channel TEXT NOT NULL DEFAULT '');",
    "channel TEXT NOT NULL DEFAULT '',\n    model TEXT NOT NULL DEFAULT '');",
)
SCHEMAS[11] = (
    SCHEMAS[10].replace(
        "model TEXT NOT NULL DEFAULT '');", "model TEXT NOT NULL DEFAULT '',\n    task INTEGER);"
    )
    + """
CREATE TABLE tasks (id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, owner TEXT NOT NULL,
    chat TEXT NOT NULL, parent INTEGER, message INTEGER UNIQUE, attached INTEGER NOT NULL,
    question TEXT NOT NULL, options TEXT NOT NULL, language TEXT NOT NULL, model TEXT NOT NULL,
    state TEXT NOT NULL, answer TEXT NOT NULL DEFAULT '', report TEXT NOT NULL DEFAULT '{}',
    spent TEXT NOT NULL DEFAULT '{}', tainted INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL,
    started REAL, ended REAL);
CREATE INDEX tasks_open ON tasks (id) WHERE ended IS NULL;
CREATE INDEX tasks_of_owner ON tasks (owner, id);
"""
)
SCHEMAS[12] = (
    SCHEMAS[11].replace("task INTEGER);", "task INTEGER,\n    project TEXT NOT NULL DEFAULT '');")
    + """
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
"""
)
SCHEMAS[13] = (
    SCHEMAS[12]
    .replace(
        "    project TEXT NOT NULL DEFAULT '');",
        "    project TEXT NOT NULL DEFAULT '',\n    schedule INTEGER, notice INTEGER NOT NULL DEFAULT 0,\n"
        "    tainted INTEGER NOT NULL DEFAULT 0);",
    )
    .replace("started REAL, ended REAL);", "started REAL, ended REAL, schedule INTEGER);")
    + """
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
CREATE INDEX schedules_missed ON schedules (chat) WHERE missed;
CREATE INDEX schedules_of_owner ON schedules (owner, id);
CREATE INDEX schedules_of_chat ON schedules (chat);
CREATE INDEX schedules_touched ON schedules (touched);
CREATE TABLE fires (
    schedule INTEGER NOT NULL, instant REAL NOT NULL, at REAL NOT NULL, message INTEGER, task INTEGER,
    PRIMARY KEY (schedule, instant)
) WITHOUT ROWID;
CREATE TABLE zones (owner TEXT PRIMARY KEY, zone TEXT NOT NULL);
"""
)
SCHEMAS[14] = (
    SCHEMAS[13]
    .replace(
        "tainted INTEGER NOT NULL DEFAULT 0);\nCREATE",
        "tainted INTEGER NOT NULL DEFAULT 0, buttons TEXT NOT NULL DEFAULT '[]');\nCREATE",
    )
    .replace(
        "started REAL, ended REAL, schedule INTEGER);",
        "started REAL, ended REAL, schedule INTEGER, bot TEXT NOT NULL DEFAULT '',\n"
        "    said TEXT NOT NULL DEFAULT '[]', wake_at REAL NOT NULL DEFAULT 0);",
    )
    + """
CREATE INDEX messages_with_buttons ON messages (chat, id) WHERE buttons != '[]';
CREATE TABLE parked (
    chat TEXT NOT NULL, number INTEGER NOT NULL, call TEXT NOT NULL, question TEXT NOT NULL,
    state TEXT NOT NULL, asked INTEGER NOT NULL, PRIMARY KEY (chat, number)
) WITHOUT ROWID;
CREATE INDEX tasks_of_bot ON tasks (bot, id) WHERE bot != '';
CREATE TABLE iterations (
    task INTEGER NOT NULL, number INTEGER NOT NULL, reason TEXT NOT NULL, summary TEXT NOT NULL,
    tainted INTEGER NOT NULL, spent TEXT NOT NULL, ended REAL NOT NULL, PRIMARY KEY (task, number)
) WITHOUT ROWID;
"""
)

SCHEMAS[14] = (
    SCHEMAS[13]
    + """
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
"""
)

SCHEMAS[15] = """
CREATE TABLE messages ( id INTEGER PRIMARY KEY, chat TEXT NOT NULL, text TEXT NOT NULL, received REAL NOT
    NULL, session INTEGER, turn TEXT, reason TEXT, retried INTEGER, reply INTEGER REFERENCES outbox (id),
    language TEXT NOT NULL DEFAULT '', origin INTEGER, enclosures TEXT NOT NULL DEFAULT '[]', preview
    INTEGER, unattended INTEGER NOT NULL DEFAULT 0, user INTEGER, admin INTEGER NOT NULL DEFAULT 0, apart
    INTEGER NOT NULL DEFAULT 0, channel TEXT NOT NULL DEFAULT '', model TEXT NOT NULL DEFAULT '', task
    INTEGER, project TEXT NOT NULL DEFAULT '', schedule INTEGER, notice INTEGER NOT NULL DEFAULT 0, tainted
    INTEGER NOT NULL DEFAULT 0, buttons TEXT NOT NULL DEFAULT '[]' );
CREATE INDEX messages_open ON messages (chat) WHERE reply IS NULL;
CREATE INDEX messages_of_reply ON messages (reply);
CREATE INDEX messages_of_chat ON messages (chat, id);
CREATE INDEX messages_with_buttons ON messages (chat, id) WHERE buttons != '[]';
CREATE INDEX messages_to_retry ON messages (chat, session, id) WHERE reply IS NOT NULL AND reason IS NOT
    NULL AND reason != 'complete' AND retried IS NULL;
CREATE TABLE updates ( source TEXT NOT NULL, number INTEGER NOT NULL, seen REAL NOT NULL, PRIMARY KEY
    (source, number) ) WITHOUT ROWID;
CREATE INDEX updates_by_age ON updates (source, seen);
CREATE TABLE outbox ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, text TEXT NOT NULL, created
    REAL NOT NULL, delivered REAL, parts INTEGER NOT NULL DEFAULT 0, failure TEXT );
CREATE INDEX outbox_waiting ON outbox (chat, id) WHERE delivered IS NULL;
CREATE TABLE history ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, session INTEGER NOT NULL,
    turn TEXT NOT NULL, message TEXT NOT NULL, tainted INTEGER NOT NULL, created REAL NOT NULL, links TEXT
    NOT NULL DEFAULT '[]', undone INTEGER NOT NULL DEFAULT 0 );
CREATE INDEX history_of_session ON history (chat, session, id);
CREATE INDEX history_of_chat ON history (chat, id);
CREATE INDEX history_tainted ON history (chat, session) WHERE tainted;
CREATE TABLE sessions ( chat TEXT NOT NULL, number INTEGER NOT NULL, started REAL NOT NULL, due REAL NOT
    NULL, ended REAL, fresh INTEGER NOT NULL DEFAULT 0, learned INTEGER NOT NULL DEFAULT 0, asked INTEGER
    NOT NULL DEFAULT 0, forget INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL DEFAULT 0, learn_after
    REAL NOT NULL DEFAULT 0, short INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (chat, number) );
CREATE INDEX sessions_to_learn ON sessions (chat, number) WHERE fresh;
CREATE INDEX sessions_to_forget ON sessions (chat, number) WHERE forget;
CREATE TABLE summaries ( chat TEXT NOT NULL, session INTEGER NOT NULL, turn TEXT NOT NULL, upto INTEGER NOT
    NULL, text TEXT NOT NULL, tainted INTEGER NOT NULL, links TEXT NOT NULL, created REAL NOT NULL, told
    INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (chat, session) );
CREATE TABLE parked ( chat TEXT NOT NULL, number INTEGER NOT NULL, call TEXT NOT NULL, question TEXT NOT
    NULL, state TEXT NOT NULL, asked INTEGER NOT NULL, turn TEXT NOT NULL DEFAULT '', PRIMARY KEY (chat,
    number) ) WITHOUT ROWID;
CREATE TABLE tainted_files ( chat TEXT PRIMARY KEY, since REAL NOT NULL );
CREATE TABLE moved ( old TEXT NOT NULL, new TEXT NOT NULL UNIQUE );
CREATE TABLE titles ( chat TEXT PRIMARY KEY, title TEXT NOT NULL );
CREATE TABLE tasks ( id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, owner TEXT NOT NULL, chat
    TEXT NOT NULL, parent INTEGER, message INTEGER UNIQUE, attached INTEGER NOT NULL, question TEXT NOT
    NULL, options TEXT NOT NULL, language TEXT NOT NULL, model TEXT NOT NULL, state TEXT NOT NULL, answer
    TEXT NOT NULL DEFAULT '', report TEXT NOT NULL DEFAULT '{}', spent TEXT NOT NULL DEFAULT '{}', tainted
    INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL, started REAL, ended REAL, schedule INTEGER, bot TEXT
    NOT NULL DEFAULT '', said TEXT NOT NULL DEFAULT '[]', wake_at REAL NOT NULL DEFAULT 0, user INTEGER );
CREATE INDEX tasks_open ON tasks (id) WHERE ended IS NULL;
CREATE INDEX tasks_of_owner ON tasks (owner, id);
CREATE INDEX tasks_of_bot ON tasks (bot, id) WHERE bot != '';
CREATE TABLE iterations ( task INTEGER NOT NULL, number INTEGER NOT NULL, reason TEXT NOT NULL, summary TEXT
    NOT NULL, tainted INTEGER NOT NULL, spent TEXT NOT NULL, ended REAL NOT NULL, PRIMARY KEY (task, number)
    ) WITHOUT ROWID;
CREATE TABLE usage ( id INTEGER PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT NULL,
    task INTEGER NOT NULL, bot TEXT NOT NULL, model TEXT NOT NULL, tool TEXT NOT NULL, calls INTEGER NOT
    NULL, tool_calls INTEGER NOT NULL, prompt INTEGER NOT NULL, completion INTEGER NOT NULL, cached INTEGER
    NOT NULL, nano INTEGER NOT NULL, unpriced INTEGER NOT NULL, estimated INTEGER NOT NULL, created REAL NOT
    NULL, person TEXT NOT NULL DEFAULT '', UNIQUE (day, owner, chat, task, bot, model, tool, person) );
CREATE INDEX usage_of_task ON usage (task) WHERE task;
CREATE TABLE reservations ( key TEXT PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT
    NULL, task INTEGER NOT NULL, bot TEXT NOT NULL, model TEXT NOT NULL, prompt INTEGER NOT NULL, completion
    INTEGER NOT NULL, nano INTEGER NOT NULL, priced INTEGER NOT NULL, created REAL NOT NULL, person TEXT NOT
    NULL DEFAULT '' );
CREATE TABLE grants ( id INTEGER PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT NULL,
    nano INTEGER NOT NULL, tokens INTEGER NOT NULL, created REAL NOT NULL );
CREATE TABLE budget_notices ( key TEXT PRIMARY KEY, created REAL NOT NULL );
CREATE TABLE schedules ( id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, chat TEXT NOT NULL, kind
    TEXT NOT NULL, text TEXT NOT NULL, options TEXT NOT NULL, cron TEXT NOT NULL, zone TEXT NOT NULL,
    instant REAL NOT NULL, next_at REAL NOT NULL, state TEXT NOT NULL, failures INTEGER NOT NULL DEFAULT 0,
    missed INTEGER NOT NULL DEFAULT 0, missed_at REAL NOT NULL DEFAULT 0, language TEXT NOT NULL, model TEXT
    NOT NULL, tainted INTEGER NOT NULL, message INTEGER UNIQUE, created REAL NOT NULL, touched REAL NOT
    NULL, user INTEGER );
CREATE INDEX schedules_due ON schedules (next_at) WHERE state = 'active';
CREATE INDEX schedules_failed ON schedules (id) WHERE state = 'active' AND failures >= 3;
CREATE INDEX schedules_missed ON schedules (chat) WHERE missed;
CREATE INDEX schedules_of_owner ON schedules (owner, id);
CREATE INDEX schedules_of_chat ON schedules (chat);
CREATE INDEX schedules_touched ON schedules (touched);
CREATE TABLE fires ( schedule INTEGER NOT NULL, instant REAL NOT NULL, at REAL NOT NULL, message INTEGER,
    task INTEGER, PRIMARY KEY (schedule, instant) ) WITHOUT ROWID;
CREATE TABLE episodes ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, session INTEGER NOT NULL,
    text TEXT NOT NULL, began REAL NOT NULL, created REAL NOT NULL, UNIQUE (chat, session) );
CREATE TABLE zones ( owner TEXT PRIMARY KEY, zone TEXT NOT NULL );
CREATE TABLE undos ( message INTEGER PRIMARY KEY, chat TEXT NOT NULL, turn TEXT NOT NULL, undone TEXT NOT
    NULL, done INTEGER NOT NULL, created REAL NOT NULL );
CREATE INDEX undos_of_chat ON undos (chat, turn);
CREATE INDEX undos_begun ON undos (chat) WHERE NOT done;
CREATE TABLE schedule_changes ( id INTEGER PRIMARY KEY, turn TEXT NOT NULL, chat TEXT NOT NULL, schedule
    INTEGER NOT NULL, before TEXT, after TEXT, created REAL NOT NULL );
CREATE INDEX schedule_changes_of_turn ON schedule_changes (turn);
"""
SCHEMAS[16] = """
CREATE TABLE messages ( id INTEGER PRIMARY KEY, chat TEXT NOT NULL, text TEXT NOT NULL, received REAL NOT
    NULL, session INTEGER, turn TEXT, reason TEXT, retried INTEGER, reply INTEGER REFERENCES outbox (id),
    language TEXT NOT NULL DEFAULT '', origin INTEGER, enclosures TEXT NOT NULL DEFAULT '[]', preview
    INTEGER, unattended INTEGER NOT NULL DEFAULT 0, user INTEGER, admin INTEGER NOT NULL DEFAULT 0, apart
    INTEGER NOT NULL DEFAULT 0, channel TEXT NOT NULL DEFAULT '', model TEXT NOT NULL DEFAULT '', task
    INTEGER, project TEXT NOT NULL DEFAULT '', schedule INTEGER, notice INTEGER NOT NULL DEFAULT 0,
    tainted INTEGER NOT NULL DEFAULT 0, buttons TEXT NOT NULL DEFAULT '[]' );
CREATE INDEX messages_open ON messages (chat) WHERE reply IS NULL;
CREATE INDEX messages_of_reply ON messages (reply);
CREATE INDEX messages_of_chat ON messages (chat, id);
CREATE INDEX messages_with_buttons ON messages (chat, id) WHERE buttons != '[]';
CREATE INDEX messages_to_retry ON messages (chat, session, id) WHERE reply IS NOT NULL AND reason IS NOT
    NULL AND reason != 'complete' AND retried IS NULL;
CREATE TABLE updates ( source TEXT NOT NULL, number INTEGER NOT NULL, seen REAL NOT NULL, PRIMARY KEY
    (source, number) ) WITHOUT ROWID;
CREATE INDEX updates_by_age ON updates (source, seen);
CREATE TABLE outbox ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, text TEXT NOT NULL,
    created REAL NOT NULL, delivered REAL, parts INTEGER NOT NULL DEFAULT 0, failure TEXT );
CREATE INDEX outbox_waiting ON outbox (chat, id) WHERE delivered IS NULL;
CREATE TABLE history ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, session INTEGER NOT NULL,
    turn TEXT NOT NULL, message TEXT NOT NULL, tainted INTEGER NOT NULL, created REAL NOT NULL, links TEXT
    NOT NULL DEFAULT '[]', undone INTEGER NOT NULL DEFAULT 0 );
CREATE INDEX history_of_session ON history (chat, session, id);
CREATE INDEX history_of_chat ON history (chat, id);
CREATE INDEX history_tainted ON history (chat, session) WHERE tainted;
CREATE TABLE sessions ( chat TEXT NOT NULL, number INTEGER NOT NULL, started REAL NOT NULL, due REAL NOT
    NULL, ended REAL, fresh INTEGER NOT NULL DEFAULT 0, learned INTEGER NOT NULL DEFAULT 0, asked INTEGER
    NOT NULL DEFAULT 0, forget INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL DEFAULT 0, learn_after
    REAL NOT NULL DEFAULT 0, short INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (chat, number) );
CREATE INDEX sessions_to_learn ON sessions (chat, number) WHERE fresh;
CREATE INDEX sessions_to_forget ON sessions (chat, number) WHERE forget;
CREATE TABLE summaries ( chat TEXT NOT NULL, session INTEGER NOT NULL, turn TEXT NOT NULL, upto INTEGER
    NOT NULL, text TEXT NOT NULL, tainted INTEGER NOT NULL, links TEXT NOT NULL, created REAL NOT NULL,
    told INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (chat, session) );
CREATE TABLE parked ( chat TEXT NOT NULL, number INTEGER NOT NULL, call TEXT NOT NULL, question TEXT NOT
    NULL, state TEXT NOT NULL, asked INTEGER NOT NULL, turn TEXT NOT NULL DEFAULT '', PRIMARY KEY (chat,
    number) ) WITHOUT ROWID;
CREATE TABLE tainted_files ( chat TEXT PRIMARY KEY, since REAL NOT NULL );
CREATE TABLE moved ( old TEXT NOT NULL, new TEXT NOT NULL UNIQUE );
CREATE TABLE titles ( chat TEXT PRIMARY KEY, title TEXT NOT NULL );
CREATE TABLE tasks ( id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, owner TEXT NOT NULL, chat
    TEXT NOT NULL, parent INTEGER, message INTEGER UNIQUE, attached INTEGER NOT NULL, question TEXT NOT
    NULL, options TEXT NOT NULL, language TEXT NOT NULL, model TEXT NOT NULL, state TEXT NOT NULL, answer
    TEXT NOT NULL DEFAULT '', report TEXT NOT NULL DEFAULT '{}', spent TEXT NOT NULL DEFAULT '{}', tainted
    INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL, started REAL, ended REAL, schedule INTEGER, bot
    TEXT NOT NULL DEFAULT '', said TEXT NOT NULL DEFAULT '[]', wake_at REAL NOT NULL DEFAULT 0, user
    INTEGER );
CREATE INDEX tasks_open ON tasks (id) WHERE ended IS NULL;
CREATE INDEX tasks_of_owner ON tasks (owner, id);
CREATE INDEX tasks_of_bot ON tasks (bot, id) WHERE bot != '';
CREATE TABLE iterations ( task INTEGER NOT NULL, number INTEGER NOT NULL, reason TEXT NOT NULL, summary
    TEXT NOT NULL, tainted INTEGER NOT NULL, spent TEXT NOT NULL, ended REAL NOT NULL, PRIMARY KEY (task,
    number) ) WITHOUT ROWID;
CREATE TABLE usage ( id INTEGER PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT NULL,
    task INTEGER NOT NULL, bot TEXT NOT NULL, model TEXT NOT NULL, tool TEXT NOT NULL, calls INTEGER NOT
    NULL, tool_calls INTEGER NOT NULL, prompt INTEGER NOT NULL, completion INTEGER NOT NULL, cached
    INTEGER NOT NULL, nano INTEGER NOT NULL, unpriced INTEGER NOT NULL, estimated INTEGER NOT NULL,
    created REAL NOT NULL, person TEXT NOT NULL DEFAULT '', UNIQUE (day, owner, chat, task, bot, model,
    tool, person) );
CREATE INDEX usage_of_task ON usage (task) WHERE task;
CREATE TABLE reservations ( key TEXT PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT
    NULL, task INTEGER NOT NULL, bot TEXT NOT NULL, model TEXT NOT NULL, prompt INTEGER NOT NULL,
    completion INTEGER NOT NULL, nano INTEGER NOT NULL, priced INTEGER NOT NULL, created REAL NOT NULL,
    person TEXT NOT NULL DEFAULT '' );
CREATE TABLE grants ( id INTEGER PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT NULL,
    nano INTEGER NOT NULL, tokens INTEGER NOT NULL, created REAL NOT NULL );
CREATE TABLE budget_notices ( key TEXT PRIMARY KEY, created REAL NOT NULL );
CREATE TABLE schedules ( id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, chat TEXT NOT NULL,
    kind TEXT NOT NULL, text TEXT NOT NULL, options TEXT NOT NULL, cron TEXT NOT NULL, zone TEXT NOT NULL,
    instant REAL NOT NULL, next_at REAL NOT NULL, state TEXT NOT NULL, failures INTEGER NOT NULL DEFAULT
    0, missed INTEGER NOT NULL DEFAULT 0, missed_at REAL NOT NULL DEFAULT 0, language TEXT NOT NULL, model
    TEXT NOT NULL, tainted INTEGER NOT NULL, message INTEGER UNIQUE, created REAL NOT NULL, touched REAL
    NOT NULL, user INTEGER );
CREATE INDEX schedules_due ON schedules (next_at) WHERE state = 'active';
CREATE INDEX schedules_failed ON schedules (id) WHERE state = 'active' AND failures >= 3;
CREATE INDEX schedules_missed ON schedules (chat) WHERE missed != 0;
CREATE INDEX schedules_of_owner ON schedules (owner, id);
CREATE INDEX schedules_of_chat ON schedules (chat);
CREATE INDEX schedules_touched ON schedules (touched);
CREATE TABLE fires ( schedule INTEGER NOT NULL, instant REAL NOT NULL, at REAL NOT NULL, message INTEGER,
    task INTEGER, PRIMARY KEY (schedule, instant) ) WITHOUT ROWID;
CREATE TABLE episodes ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, session INTEGER NOT
    NULL, text TEXT NOT NULL, began REAL NOT NULL, created REAL NOT NULL, UNIQUE (chat, session) );
CREATE TABLE zones ( owner TEXT PRIMARY KEY, zone TEXT NOT NULL );
CREATE TABLE undos ( message INTEGER PRIMARY KEY, chat TEXT NOT NULL, turn TEXT NOT NULL, undone TEXT NOT
    NULL, done INTEGER NOT NULL, created REAL NOT NULL );
CREATE INDEX undos_of_chat ON undos (chat, turn);
CREATE INDEX undos_begun ON undos (chat) WHERE NOT done;
CREATE TABLE schedule_changes ( id INTEGER PRIMARY KEY, turn TEXT NOT NULL, chat TEXT NOT NULL, schedule
    INTEGER NOT NULL, before TEXT, after TEXT, created REAL NOT NULL );
CREATE INDEX schedule_changes_of_turn ON schedule_changes (turn);
CREATE TABLE workers ( name TEXT PRIMARY KEY, version TEXT NOT NULL, address TEXT NOT NULL, started REAL
    NOT NULL, until REAL NOT NULL, batch INTEGER NOT NULL DEFAULT 0, leaving INTEGER NOT NULL DEFAULT 0,
    status TEXT NOT NULL DEFAULT '{}' );
CREATE TABLE partitions ( number INTEGER PRIMARY KEY, worker TEXT, fence INTEGER NOT NULL DEFAULT 0,
    ready_at REAL NOT NULL DEFAULT 0 );
CREATE TABLE album_parts ( id INTEGER PRIMARY KEY, chat TEXT NOT NULL, album TEXT NOT NULL, part TEXT NOT
    NULL, came REAL NOT NULL );
CREATE INDEX album_parts_of_album ON album_parts (chat, album, came);
CREATE TABLE pieces ( chat TEXT NOT NULL, key TEXT NOT NULL, content BLOB NOT NULL, size BIGINT NOT NULL,
    used INTEGER NOT NULL, PRIMARY KEY (chat, key) );
CREATE INDEX pieces_unused ON pieces (chat) WHERE used = 0;
CREATE TABLE workspaces ( chat TEXT PRIMARY KEY, fence BIGINT NOT NULL, manifest BLOB NOT NULL, size
    BIGINT NOT NULL, changed REAL NOT NULL );
"""

SCHEMAS[17] = """
CREATE TABLE messages ( id INTEGER PRIMARY KEY, chat TEXT NOT NULL, text TEXT NOT NULL, received REAL
    NOT NULL, session INTEGER, turn TEXT, reason TEXT, retried INTEGER, reply INTEGER REFERENCES outbox
    (id), language TEXT NOT NULL DEFAULT '', origin INTEGER, enclosures TEXT NOT NULL DEFAULT '[]',
    preview INTEGER, unattended INTEGER NOT NULL DEFAULT 0, user INTEGER, admin INTEGER NOT NULL DEFAULT
    0, apart INTEGER NOT NULL DEFAULT 0, channel TEXT NOT NULL DEFAULT '', model TEXT NOT NULL DEFAULT
    '', task INTEGER, project TEXT NOT NULL DEFAULT '', schedule INTEGER, notice INTEGER NOT NULL
    DEFAULT 0, tainted INTEGER NOT NULL DEFAULT 0, buttons TEXT NOT NULL DEFAULT '[]', sent REAL NOT
    NULL DEFAULT 0, part_of INTEGER, resumed INTEGER NOT NULL DEFAULT 0, corrects INTEGER NOT NULL
    DEFAULT 0, asking TEXT NOT NULL DEFAULT '' );
CREATE INDEX messages_open ON messages (chat) WHERE reply IS NULL;
CREATE INDEX messages_of_reply ON messages (reply);
CREATE INDEX messages_of_chat ON messages (chat, id);
CREATE INDEX messages_with_buttons ON messages (chat, id) WHERE buttons != '[]';
CREATE INDEX messages_to_retry ON messages (chat, session, id) WHERE reply IS NOT NULL AND reason IS NOT
    NULL AND reason != 'complete' AND retried IS NULL;
CREATE TABLE updates ( source TEXT NOT NULL, number INTEGER NOT NULL, seen REAL NOT NULL, PRIMARY KEY
    (source, number) ) WITHOUT ROWID;
CREATE INDEX updates_by_age ON updates (source, seen);
CREATE TABLE outbox ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, text TEXT NOT NULL,
    created REAL NOT NULL, delivered REAL, parts INTEGER NOT NULL DEFAULT 0, failure TEXT, begun INTEGER
    NOT NULL DEFAULT 0 );
CREATE INDEX outbox_waiting ON outbox (chat, id) WHERE delivered IS NULL;
CREATE TABLE history ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, session INTEGER NOT
    NULL, turn TEXT NOT NULL, message TEXT NOT NULL, tainted INTEGER NOT NULL, created REAL NOT NULL,
    links TEXT NOT NULL DEFAULT '[]', undone INTEGER NOT NULL DEFAULT 0 );
CREATE INDEX history_of_session ON history (chat, session, id);
CREATE INDEX history_of_chat ON history (chat, id);
CREATE INDEX history_tainted ON history (chat, session) WHERE tainted;
CREATE TABLE sessions ( chat TEXT NOT NULL, number INTEGER NOT NULL, started REAL NOT NULL, due REAL NOT
    NULL, ended REAL, fresh INTEGER NOT NULL DEFAULT 0, learned INTEGER NOT NULL DEFAULT 0, asked
    INTEGER NOT NULL DEFAULT 0, forget INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL DEFAULT 0,
    learn_after REAL NOT NULL DEFAULT 0, short INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (chat, number) );
CREATE INDEX sessions_to_learn ON sessions (chat, number) WHERE fresh;
CREATE INDEX sessions_to_forget ON sessions (chat, number) WHERE forget;
CREATE TABLE summaries ( chat TEXT NOT NULL, session INTEGER NOT NULL, turn TEXT NOT NULL, upto INTEGER
    NOT NULL, text TEXT NOT NULL, tainted INTEGER NOT NULL, links TEXT NOT NULL, created REAL NOT NULL,
    told INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (chat, session) );
CREATE TABLE parked ( chat TEXT NOT NULL, number INTEGER NOT NULL, call TEXT NOT NULL, question TEXT NOT
    NULL, state TEXT NOT NULL, asked INTEGER NOT NULL, turn TEXT NOT NULL DEFAULT '', PRIMARY KEY (chat,
    number) ) WITHOUT ROWID;
CREATE TABLE tainted_files ( chat TEXT PRIMARY KEY, since REAL NOT NULL );
CREATE TABLE moved ( old TEXT NOT NULL, new TEXT NOT NULL UNIQUE );
CREATE TABLE members ( chat TEXT NOT NULL, user INTEGER NOT NULL, name TEXT NOT NULL, since REAL NOT
    NULL, seen REAL NOT NULL, PRIMARY KEY (chat, user) ) WITHOUT ROWID;
CREATE TABLE titles ( chat TEXT PRIMARY KEY, title TEXT NOT NULL );
CREATE TABLE tasks ( id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, owner TEXT NOT NULL, chat
    TEXT NOT NULL, parent INTEGER, message INTEGER UNIQUE, attached INTEGER NOT NULL, question TEXT NOT
    NULL, options TEXT NOT NULL, language TEXT NOT NULL, model TEXT NOT NULL, state TEXT NOT NULL,
    answer TEXT NOT NULL DEFAULT '', report TEXT NOT NULL DEFAULT '{}', spent TEXT NOT NULL DEFAULT
    '{}', tainted INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL, started REAL, ended REAL, schedule
    INTEGER, bot TEXT NOT NULL DEFAULT '', said TEXT NOT NULL DEFAULT '[]', wake_at REAL NOT NULL
    DEFAULT 0, user INTEGER );
CREATE INDEX tasks_open ON tasks (id) WHERE ended IS NULL;
CREATE INDEX tasks_of_owner ON tasks (owner, id);
CREATE INDEX tasks_of_bot ON tasks (bot, id) WHERE bot != '';
CREATE TABLE iterations ( task INTEGER NOT NULL, number INTEGER NOT NULL, reason TEXT NOT NULL, summary
    TEXT NOT NULL, tainted INTEGER NOT NULL, spent TEXT NOT NULL, ended REAL NOT NULL, PRIMARY KEY
    (task, number) ) WITHOUT ROWID;
CREATE TABLE usage ( id INTEGER PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT NULL,
    task INTEGER NOT NULL, bot TEXT NOT NULL, model TEXT NOT NULL, tool TEXT NOT NULL, calls INTEGER NOT
    NULL, tool_calls INTEGER NOT NULL, prompt INTEGER NOT NULL, completion INTEGER NOT NULL, cached
    INTEGER NOT NULL, nano INTEGER NOT NULL, unpriced INTEGER NOT NULL, estimated INTEGER NOT NULL,
    created REAL NOT NULL, person TEXT NOT NULL DEFAULT '', UNIQUE (day, owner, chat, task, bot, model,
    tool, person) );
CREATE INDEX usage_of_task ON usage (task) WHERE task;
CREATE TABLE reservations ( key TEXT PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT
    NULL, task INTEGER NOT NULL, bot TEXT NOT NULL, model TEXT NOT NULL, prompt INTEGER NOT NULL,
    completion INTEGER NOT NULL, nano INTEGER NOT NULL, priced INTEGER NOT NULL, created REAL NOT NULL,
    person TEXT NOT NULL DEFAULT '' );
CREATE TABLE grants ( id INTEGER PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT
    NULL, nano INTEGER NOT NULL, tokens INTEGER NOT NULL, created REAL NOT NULL );
CREATE TABLE budget_notices ( key TEXT PRIMARY KEY, created REAL NOT NULL );
CREATE TABLE schedules ( id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, chat TEXT NOT NULL,
    kind TEXT NOT NULL, text TEXT NOT NULL, options TEXT NOT NULL, cron TEXT NOT NULL, zone TEXT NOT
    NULL, instant REAL NOT NULL, next_at REAL NOT NULL, state TEXT NOT NULL, failures INTEGER NOT NULL
    DEFAULT 0, missed INTEGER NOT NULL DEFAULT 0, missed_at REAL NOT NULL DEFAULT 0, language TEXT NOT
    NULL, model TEXT NOT NULL, tainted INTEGER NOT NULL, message INTEGER UNIQUE, created REAL NOT NULL,
    touched REAL NOT NULL, user INTEGER, reason TEXT NOT NULL DEFAULT '' );
CREATE INDEX schedules_due ON schedules (next_at) WHERE state = 'active';
CREATE INDEX schedules_failed ON schedules (id) WHERE state = 'active' AND failures >= 3;
CREATE INDEX schedules_missed ON schedules (chat) WHERE missed != 0;
CREATE INDEX schedules_of_owner ON schedules (owner, id);
CREATE INDEX schedules_of_chat ON schedules (chat);
CREATE INDEX schedules_touched ON schedules (touched);
CREATE TABLE fires ( schedule INTEGER NOT NULL, instant REAL NOT NULL, at REAL NOT NULL, message
    INTEGER, task INTEGER, PRIMARY KEY (schedule, instant) ) WITHOUT ROWID;
CREATE TABLE unreachable ( chat TEXT PRIMARY KEY, why TEXT NOT NULL, since REAL NOT NULL, noted INTEGER
    NOT NULL DEFAULT 0, back REAL NOT NULL DEFAULT 0 );
CREATE TABLE episodes ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, session INTEGER NOT
    NULL, text TEXT NOT NULL, began REAL NOT NULL, created REAL NOT NULL, UNIQUE (chat, session) );
CREATE TABLE zones ( owner TEXT PRIMARY KEY, zone TEXT NOT NULL );
CREATE TABLE voices ( chat TEXT PRIMARY KEY, answers TEXT NOT NULL );
CREATE TABLE undos ( message INTEGER PRIMARY KEY, chat TEXT NOT NULL, turn TEXT NOT NULL, undone TEXT
    NOT NULL, done INTEGER NOT NULL, created REAL NOT NULL );
CREATE INDEX undos_of_chat ON undos (chat, turn);
CREATE INDEX undos_begun ON undos (chat) WHERE NOT done;
CREATE TABLE schedule_changes ( id INTEGER PRIMARY KEY, turn TEXT NOT NULL, chat TEXT NOT NULL, schedule
    INTEGER NOT NULL, before TEXT, after TEXT, created REAL NOT NULL );
CREATE INDEX schedule_changes_of_turn ON schedule_changes (turn);
CREATE TABLE workers ( name TEXT PRIMARY KEY, version TEXT NOT NULL, address TEXT NOT NULL, started REAL
    NOT NULL, until REAL NOT NULL, batch INTEGER NOT NULL DEFAULT 0, leaving INTEGER NOT NULL DEFAULT 0,
    status TEXT NOT NULL DEFAULT '{}' );
CREATE TABLE partitions ( number INTEGER PRIMARY KEY, worker TEXT, fence INTEGER NOT NULL DEFAULT 0,
    ready_at REAL NOT NULL DEFAULT 0 );
CREATE TABLE album_parts ( id INTEGER PRIMARY KEY, chat TEXT NOT NULL, album TEXT NOT NULL, part TEXT
    NOT NULL, came REAL NOT NULL );
CREATE INDEX album_parts_of_album ON album_parts (chat, album, came);
CREATE TABLE pieces ( chat TEXT NOT NULL, key TEXT NOT NULL, content BLOB NOT NULL, size BIGINT NOT
    NULL, used INTEGER NOT NULL, PRIMARY KEY (chat, key) );
CREATE INDEX pieces_unused ON pieces (chat) WHERE used = 0;
CREATE TABLE workspaces ( chat TEXT PRIMARY KEY, fence BIGINT NOT NULL, manifest BLOB NOT NULL, size
    BIGINT NOT NULL, changed REAL NOT NULL );
"""

SCHEMAS[18] = """
CREATE TABLE messages ( id INTEGER PRIMARY KEY, chat TEXT NOT NULL, text TEXT NOT NULL, received
    REAL NOT NULL, session INTEGER, turn TEXT, reason TEXT, retried INTEGER, reply INTEGER
    REFERENCES outbox (id), language TEXT NOT NULL DEFAULT '', origin INTEGER, enclosures TEXT NOT
    NULL DEFAULT '[]', preview INTEGER, unattended INTEGER NOT NULL DEFAULT 0, user INTEGER, admin
    INTEGER NOT NULL DEFAULT 0, apart INTEGER NOT NULL DEFAULT 0, channel TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '', task INTEGER, project TEXT NOT NULL DEFAULT '', schedule
    INTEGER, notice INTEGER NOT NULL DEFAULT 0, tainted INTEGER NOT NULL DEFAULT 0, buttons TEXT NOT
    NULL DEFAULT '[]', sent REAL NOT NULL DEFAULT 0, part_of INTEGER, resumed INTEGER NOT NULL
    DEFAULT 0, corrects INTEGER NOT NULL DEFAULT 0, asking TEXT NOT NULL DEFAULT '', event_of TEXT
    NOT NULL DEFAULT '', pressed INTEGER NOT NULL DEFAULT 0 );
CREATE INDEX messages_open ON messages (chat) WHERE reply IS NULL;
CREATE INDEX messages_of_reply ON messages (reply);
CREATE INDEX messages_of_chat ON messages (chat, id);
CREATE INDEX messages_with_buttons ON messages (chat, id) WHERE buttons != '[]';
CREATE INDEX messages_to_retry ON messages (chat, session, id) WHERE reply IS NOT NULL AND reason IS
    NOT NULL AND reason != 'complete' AND retried IS NULL;
CREATE TABLE updates ( source TEXT NOT NULL, number INTEGER NOT NULL, seen REAL NOT NULL, PRIMARY
    KEY (source, number) ) WITHOUT ROWID;
CREATE INDEX updates_by_age ON updates (source, seen);
CREATE TABLE outbox ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, text TEXT NOT NULL,
    created REAL NOT NULL, delivered REAL, parts INTEGER NOT NULL DEFAULT 0, failure TEXT, begun
    INTEGER NOT NULL DEFAULT 0, in_place INTEGER NOT NULL DEFAULT 0 );
CREATE INDEX outbox_waiting ON outbox (chat, id) WHERE delivered IS NULL;
CREATE TABLE history ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, session INTEGER NOT
    NULL, turn TEXT NOT NULL, message TEXT NOT NULL, tainted INTEGER NOT NULL, created REAL NOT
    NULL, links TEXT NOT NULL DEFAULT '[]', undone INTEGER NOT NULL DEFAULT 0, silent INTEGER NOT
    NULL DEFAULT 0 );
CREATE INDEX history_of_session ON history (chat, session, id);
CREATE INDEX history_of_chat ON history (chat, id);
CREATE INDEX history_tainted ON history (chat, session) WHERE tainted;
CREATE TABLE sessions ( chat TEXT NOT NULL, number INTEGER NOT NULL, started REAL NOT NULL, due REAL
    NOT NULL, ended REAL, fresh INTEGER NOT NULL DEFAULT 0, learned INTEGER NOT NULL DEFAULT 0,
    asked INTEGER NOT NULL DEFAULT 0, forget INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL
    DEFAULT 0, learn_after REAL NOT NULL DEFAULT 0, short INTEGER NOT NULL DEFAULT 0, PRIMARY KEY
    (chat, number) );
CREATE INDEX sessions_to_learn ON sessions (chat, number) WHERE fresh;
CREATE INDEX sessions_to_forget ON sessions (chat, number) WHERE forget;
CREATE TABLE summaries ( chat TEXT NOT NULL, session INTEGER NOT NULL, turn TEXT NOT NULL, upto
    INTEGER NOT NULL, text TEXT NOT NULL, tainted INTEGER NOT NULL, links TEXT NOT NULL, created
    REAL NOT NULL, told INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (chat, session) );
CREATE TABLE parked ( chat TEXT NOT NULL, number INTEGER NOT NULL, call TEXT NOT NULL, question TEXT
    NOT NULL, state TEXT NOT NULL, asked INTEGER NOT NULL, turn TEXT NOT NULL DEFAULT '', schedule
    INTEGER NOT NULL DEFAULT 0, made REAL NOT NULL DEFAULT 0, offer TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (chat, number) ) WITHOUT ROWID;
CREATE TABLE tainted_files ( chat TEXT PRIMARY KEY, since REAL NOT NULL );
CREATE TABLE moved ( old TEXT NOT NULL, new TEXT NOT NULL UNIQUE );
CREATE TABLE members ( chat TEXT NOT NULL, user INTEGER NOT NULL, name TEXT NOT NULL, since REAL NOT
    NULL, seen REAL NOT NULL, PRIMARY KEY (chat, user) ) WITHOUT ROWID;
CREATE TABLE titles ( chat TEXT PRIMARY KEY, title TEXT NOT NULL );
CREATE TABLE tasks ( id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, owner TEXT NOT NULL,
    chat TEXT NOT NULL, parent INTEGER, message INTEGER UNIQUE, attached INTEGER NOT NULL, question
    TEXT NOT NULL, options TEXT NOT NULL, language TEXT NOT NULL, model TEXT NOT NULL, state TEXT
    NOT NULL, answer TEXT NOT NULL DEFAULT '', report TEXT NOT NULL DEFAULT '{}', spent TEXT NOT
    NULL DEFAULT '{}', tainted INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL, started REAL,
    ended REAL, schedule INTEGER, bot TEXT NOT NULL DEFAULT '', said TEXT NOT NULL DEFAULT '[]',
    wake_at REAL NOT NULL DEFAULT 0, user INTEGER );
CREATE INDEX tasks_open ON tasks (id) WHERE ended IS NULL;
CREATE INDEX tasks_of_owner ON tasks (owner, id);
CREATE INDEX tasks_of_bot ON tasks (bot, id) WHERE bot != '';
CREATE TABLE iterations ( task INTEGER NOT NULL, number INTEGER NOT NULL, reason TEXT NOT NULL,
    summary TEXT NOT NULL, tainted INTEGER NOT NULL, spent TEXT NOT NULL, ended REAL NOT NULL,
    PRIMARY KEY (task, number) ) WITHOUT ROWID;
CREATE TABLE usage ( id INTEGER PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT
    NULL, task INTEGER NOT NULL, bot TEXT NOT NULL, model TEXT NOT NULL, tool TEXT NOT NULL, calls
    INTEGER NOT NULL, tool_calls INTEGER NOT NULL, prompt INTEGER NOT NULL, completion INTEGER NOT
    NULL, cached INTEGER NOT NULL, nano INTEGER NOT NULL, unpriced INTEGER NOT NULL, estimated
    INTEGER NOT NULL, created REAL NOT NULL, person TEXT NOT NULL DEFAULT '', UNIQUE (day, owner,
    chat, task, bot, model, tool, person) );
CREATE INDEX usage_of_task ON usage (task) WHERE task;
CREATE TABLE reservations ( key TEXT PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT
    NOT NULL, task INTEGER NOT NULL, bot TEXT NOT NULL, model TEXT NOT NULL, prompt INTEGER NOT
    NULL, completion INTEGER NOT NULL, nano INTEGER NOT NULL, priced INTEGER NOT NULL, created REAL
    NOT NULL, person TEXT NOT NULL DEFAULT '' );
CREATE TABLE grants ( id INTEGER PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT
    NULL, nano INTEGER NOT NULL, tokens INTEGER NOT NULL, created REAL NOT NULL );
CREATE TABLE budget_notices ( key TEXT PRIMARY KEY, created REAL NOT NULL );
CREATE TABLE schedules ( id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, chat TEXT NOT
    NULL, kind TEXT NOT NULL, text TEXT NOT NULL, options TEXT NOT NULL, cron TEXT NOT NULL, zone
    TEXT NOT NULL, instant REAL NOT NULL, next_at REAL NOT NULL, state TEXT NOT NULL, failures
    INTEGER NOT NULL DEFAULT 0, missed INTEGER NOT NULL DEFAULT 0, missed_at REAL NOT NULL DEFAULT
    0, language TEXT NOT NULL, model TEXT NOT NULL, tainted INTEGER NOT NULL, message INTEGER
    UNIQUE, created REAL NOT NULL, touched REAL NOT NULL, user INTEGER, reason TEXT NOT NULL DEFAULT
    '', checked TEXT NOT NULL DEFAULT '', outcome TEXT NOT NULL DEFAULT '', approval TEXT NOT NULL
    DEFAULT '' );
CREATE INDEX schedules_due ON schedules (next_at) WHERE state = 'active';
CREATE INDEX schedules_failed ON schedules (id) WHERE state = 'active' AND failures >= 3;
CREATE INDEX schedules_missed ON schedules (chat) WHERE missed != 0;
CREATE INDEX schedules_of_owner ON schedules (owner, id);
CREATE INDEX schedules_of_chat ON schedules (chat);
CREATE INDEX schedules_touched ON schedules (touched);
CREATE TABLE fires ( schedule INTEGER NOT NULL, instant REAL NOT NULL, at REAL NOT NULL, message
    INTEGER, task INTEGER, PRIMARY KEY (schedule, instant) ) WITHOUT ROWID;
CREATE TABLE unreachable ( chat TEXT PRIMARY KEY, why TEXT NOT NULL, since REAL NOT NULL, noted
    INTEGER NOT NULL DEFAULT 0, back REAL NOT NULL DEFAULT 0 );
CREATE TABLE episodes ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, session INTEGER
    NOT NULL, text TEXT NOT NULL, began REAL NOT NULL, created REAL NOT NULL, UNIQUE (chat, session)
    );
CREATE TABLE zones ( owner TEXT PRIMARY KEY, zone TEXT NOT NULL );
CREATE TABLE deliveries ( source TEXT NOT NULL, delivery TEXT NOT NULL, received REAL NOT NULL,
    message INTEGER, PRIMARY KEY (source, delivery) ) WITHOUT ROWID;
CREATE INDEX deliveries_by_age ON deliveries (received);
CREATE TABLE list_items ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, list TEXT NOT
    NULL, text TEXT NOT NULL, author TEXT NOT NULL, added REAL NOT NULL, ticked REAL, ticker TEXT
    NOT NULL DEFAULT '', user INTEGER, tainted INTEGER NOT NULL DEFAULT 0 );
CREATE INDEX list_items_of_chat ON list_items (chat, list, id);
CREATE TABLE list_changes ( id INTEGER PRIMARY KEY, turn TEXT NOT NULL, chat TEXT NOT NULL, item
    INTEGER NOT NULL, before TEXT, after TEXT, created REAL NOT NULL );
CREATE INDEX list_changes_of_turn ON list_changes (turn);
CREATE TABLE voices ( chat TEXT PRIMARY KEY, answers TEXT NOT NULL );
CREATE TABLE undos ( message INTEGER PRIMARY KEY, chat TEXT NOT NULL, turn TEXT NOT NULL, undone
    TEXT NOT NULL, done INTEGER NOT NULL, created REAL NOT NULL );
CREATE INDEX undos_of_chat ON undos (chat, turn);
CREATE INDEX undos_begun ON undos (chat) WHERE NOT done;
CREATE TABLE schedule_changes ( id INTEGER PRIMARY KEY, turn TEXT NOT NULL, chat TEXT NOT NULL,
    schedule INTEGER NOT NULL, before TEXT, after TEXT, created REAL NOT NULL );
CREATE INDEX schedule_changes_of_turn ON schedule_changes (turn);
CREATE TABLE workers ( name TEXT PRIMARY KEY, version TEXT NOT NULL, address TEXT NOT NULL, started
    REAL NOT NULL, until REAL NOT NULL, batch INTEGER NOT NULL DEFAULT 0, leaving INTEGER NOT NULL
    DEFAULT 0, status TEXT NOT NULL DEFAULT '{}' );
CREATE TABLE partitions ( number INTEGER PRIMARY KEY, worker TEXT, fence INTEGER NOT NULL DEFAULT 0,
    ready_at REAL NOT NULL DEFAULT 0 );
CREATE TABLE album_parts ( id INTEGER PRIMARY KEY, chat TEXT NOT NULL, album TEXT NOT NULL, part
    TEXT NOT NULL, came REAL NOT NULL );
CREATE INDEX album_parts_of_album ON album_parts (chat, album, came);
CREATE TABLE pieces ( chat TEXT NOT NULL, key TEXT NOT NULL, content BLOB NOT NULL, size BIGINT NOT
    NULL, used INTEGER NOT NULL, PRIMARY KEY (chat, key) );
CREATE INDEX pieces_unused ON pieces (chat) WHERE used = 0;
CREATE TABLE workspaces ( chat TEXT PRIMARY KEY, fence BIGINT NOT NULL, manifest BLOB NOT NULL, size
    BIGINT NOT NULL, changed REAL NOT NULL );
"""
SCHEMAS[19] = SCHEMAS[18].replace(
    "short INTEGER NOT NULL DEFAULT 0, PRIMARY KEY",
    "short INTEGER NOT NULL DEFAULT 0, tainted INTEGER NOT NULL DEFAULT 0, nano INTEGER NOT NULL DEFAULT 0,"
    " PRIMARY KEY",
)

SCHEMAS[19] = """
CREATE TABLE messages ( id INTEGER PRIMARY KEY, chat TEXT NOT NULL, text TEXT NOT NULL, received
    REAL NOT NULL, session INTEGER, turn TEXT, reason TEXT, retried INTEGER, reply INTEGER
    REFERENCES outbox (id), language TEXT NOT NULL DEFAULT '', origin INTEGER, enclosures TEXT NOT
    NULL DEFAULT '[]', preview INTEGER, unattended INTEGER NOT NULL DEFAULT 0, user INTEGER, admin
    INTEGER NOT NULL DEFAULT 0, apart INTEGER NOT NULL DEFAULT 0, channel TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '', task INTEGER, project TEXT NOT NULL DEFAULT '', schedule
    INTEGER, notice INTEGER NOT NULL DEFAULT 0, tainted INTEGER NOT NULL DEFAULT 0, buttons TEXT NOT
    NULL DEFAULT '[]', sent REAL NOT NULL DEFAULT 0, part_of INTEGER, resumed INTEGER NOT NULL
    DEFAULT 0, corrects INTEGER NOT NULL DEFAULT 0, asking TEXT NOT NULL DEFAULT '', event_of TEXT
    NOT NULL DEFAULT '', pressed INTEGER NOT NULL DEFAULT 0 );
CREATE INDEX messages_open ON messages (chat) WHERE reply IS NULL;
CREATE INDEX messages_of_reply ON messages (reply);
CREATE INDEX messages_of_chat ON messages (chat, id);
CREATE INDEX messages_with_buttons ON messages (chat, id) WHERE buttons != '[]';
CREATE INDEX messages_to_retry ON messages (chat, session, id) WHERE reply IS NOT NULL AND reason IS
    NOT NULL AND reason != 'complete' AND retried IS NULL;
CREATE TABLE updates ( source TEXT NOT NULL, number INTEGER NOT NULL, seen REAL NOT NULL, PRIMARY
    KEY (source, number) ) WITHOUT ROWID;
CREATE INDEX updates_by_age ON updates (source, seen);
CREATE TABLE outbox ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, text TEXT NOT NULL,
    created REAL NOT NULL, delivered REAL, parts INTEGER NOT NULL DEFAULT 0, failure TEXT, begun
    INTEGER NOT NULL DEFAULT 0, in_place INTEGER NOT NULL DEFAULT 0 );
CREATE INDEX outbox_waiting ON outbox (chat, id) WHERE delivered IS NULL;
CREATE TABLE history ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, session INTEGER NOT
    NULL, turn TEXT NOT NULL, message TEXT NOT NULL, tainted INTEGER NOT NULL, created REAL NOT
    NULL, links TEXT NOT NULL DEFAULT '[]', undone INTEGER NOT NULL DEFAULT 0, silent INTEGER NOT
    NULL DEFAULT 0 );
CREATE INDEX history_of_session ON history (chat, session, id);
CREATE INDEX history_of_chat ON history (chat, id);
CREATE INDEX history_tainted ON history (chat, session) WHERE tainted;
CREATE TABLE sessions ( chat TEXT NOT NULL, number INTEGER NOT NULL, started REAL NOT NULL, due REAL
    NOT NULL, ended REAL, fresh INTEGER NOT NULL DEFAULT 0, learned INTEGER NOT NULL DEFAULT 0,
    asked INTEGER NOT NULL DEFAULT 0, forget INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL
    DEFAULT 0, learn_after REAL NOT NULL DEFAULT 0, short INTEGER NOT NULL DEFAULT 0, tainted
    INTEGER NOT NULL DEFAULT 0, nano INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (chat, number) );
CREATE INDEX sessions_to_learn ON sessions (chat, number) WHERE fresh;
CREATE INDEX sessions_to_forget ON sessions (chat, number) WHERE forget;
CREATE TABLE summaries ( chat TEXT NOT NULL, session INTEGER NOT NULL, turn TEXT NOT NULL, upto
    INTEGER NOT NULL, text TEXT NOT NULL, tainted INTEGER NOT NULL, links TEXT NOT NULL, created
    REAL NOT NULL, told INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (chat, session) );
CREATE TABLE parked ( chat TEXT NOT NULL, number INTEGER NOT NULL, call TEXT NOT NULL, question TEXT
    NOT NULL, state TEXT NOT NULL, asked INTEGER NOT NULL, turn TEXT NOT NULL DEFAULT '', schedule
    INTEGER NOT NULL DEFAULT 0, made REAL NOT NULL DEFAULT 0, offer TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (chat, number) ) WITHOUT ROWID;
CREATE TABLE tainted_files ( chat TEXT PRIMARY KEY, since REAL NOT NULL );
CREATE TABLE moved ( old TEXT NOT NULL, new TEXT NOT NULL UNIQUE );
CREATE TABLE members ( chat TEXT NOT NULL, user INTEGER NOT NULL, name TEXT NOT NULL, since REAL NOT
    NULL, seen REAL NOT NULL, PRIMARY KEY (chat, user) ) WITHOUT ROWID;
CREATE TABLE titles ( chat TEXT PRIMARY KEY, title TEXT NOT NULL );
CREATE TABLE tasks ( id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, owner TEXT NOT NULL,
    chat TEXT NOT NULL, parent INTEGER, message INTEGER UNIQUE, attached INTEGER NOT NULL, question
    TEXT NOT NULL, options TEXT NOT NULL, language TEXT NOT NULL, model TEXT NOT NULL, state TEXT
    NOT NULL, answer TEXT NOT NULL DEFAULT '', report TEXT NOT NULL DEFAULT '{}', spent TEXT NOT
    NULL DEFAULT '{}', tainted INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL, started REAL,
    ended REAL, schedule INTEGER, bot TEXT NOT NULL DEFAULT '', said TEXT NOT NULL DEFAULT '[]',
    wake_at REAL NOT NULL DEFAULT 0, user INTEGER );
CREATE INDEX tasks_open ON tasks (id) WHERE ended IS NULL;
CREATE INDEX tasks_of_owner ON tasks (owner, id);
CREATE INDEX tasks_of_bot ON tasks (bot, id) WHERE bot != '';
CREATE TABLE iterations ( task INTEGER NOT NULL, number INTEGER NOT NULL, reason TEXT NOT NULL,
    summary TEXT NOT NULL, tainted INTEGER NOT NULL, spent TEXT NOT NULL, ended REAL NOT NULL,
    PRIMARY KEY (task, number) ) WITHOUT ROWID;
CREATE TABLE usage ( id INTEGER PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT
    NULL, task INTEGER NOT NULL, bot TEXT NOT NULL, model TEXT NOT NULL, tool TEXT NOT NULL, calls
    INTEGER NOT NULL, tool_calls INTEGER NOT NULL, prompt INTEGER NOT NULL, completion INTEGER NOT
    NULL, cached INTEGER NOT NULL, nano INTEGER NOT NULL, unpriced INTEGER NOT NULL, estimated
    INTEGER NOT NULL, created REAL NOT NULL, person TEXT NOT NULL DEFAULT '', UNIQUE (day, owner,
    chat, task, bot, model, tool, person) );
CREATE INDEX usage_of_task ON usage (task) WHERE task;
CREATE TABLE reservations ( key TEXT PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT
    NOT NULL, task INTEGER NOT NULL, bot TEXT NOT NULL, model TEXT NOT NULL, prompt INTEGER NOT
    NULL, completion INTEGER NOT NULL, nano INTEGER NOT NULL, priced INTEGER NOT NULL, created REAL
    NOT NULL, person TEXT NOT NULL DEFAULT '' );
CREATE TABLE grants ( id INTEGER PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT
    NULL, nano INTEGER NOT NULL, tokens INTEGER NOT NULL, created REAL NOT NULL );
CREATE TABLE budget_notices ( key TEXT PRIMARY KEY, created REAL NOT NULL );
CREATE TABLE schedules ( id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, chat TEXT NOT
    NULL, kind TEXT NOT NULL, text TEXT NOT NULL, options TEXT NOT NULL, cron TEXT NOT NULL, zone
    TEXT NOT NULL, instant REAL NOT NULL, next_at REAL NOT NULL, state TEXT NOT NULL, failures
    INTEGER NOT NULL DEFAULT 0, missed INTEGER NOT NULL DEFAULT 0, missed_at REAL NOT NULL DEFAULT
    0, language TEXT NOT NULL, model TEXT NOT NULL, tainted INTEGER NOT NULL, message INTEGER
    UNIQUE, created REAL NOT NULL, touched REAL NOT NULL, user INTEGER, reason TEXT NOT NULL DEFAULT
    '', checked TEXT NOT NULL DEFAULT '', outcome TEXT NOT NULL DEFAULT '', approval TEXT NOT NULL
    DEFAULT '' );
CREATE INDEX schedules_due ON schedules (next_at) WHERE state = 'active';
CREATE INDEX schedules_failed ON schedules (id) WHERE state = 'active' AND failures >= 3;
CREATE INDEX schedules_missed ON schedules (chat) WHERE missed != 0;
CREATE INDEX schedules_of_owner ON schedules (owner, id);
CREATE INDEX schedules_of_chat ON schedules (chat);
CREATE INDEX schedules_touched ON schedules (touched);
CREATE TABLE fires ( schedule INTEGER NOT NULL, instant REAL NOT NULL, at REAL NOT NULL, message
    INTEGER, task INTEGER, PRIMARY KEY (schedule, instant) ) WITHOUT ROWID;
CREATE TABLE unreachable ( chat TEXT PRIMARY KEY, why TEXT NOT NULL, since REAL NOT NULL, noted
    INTEGER NOT NULL DEFAULT 0, back REAL NOT NULL DEFAULT 0 );
CREATE TABLE episodes ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, session INTEGER
    NOT NULL, text TEXT NOT NULL, began REAL NOT NULL, created REAL NOT NULL, UNIQUE (chat, session)
    );
CREATE TABLE zones ( owner TEXT PRIMARY KEY, zone TEXT NOT NULL );
CREATE TABLE deliveries ( source TEXT NOT NULL, delivery TEXT NOT NULL, received REAL NOT NULL,
    message INTEGER, PRIMARY KEY (source, delivery) ) WITHOUT ROWID;
CREATE INDEX deliveries_by_age ON deliveries (received);
CREATE TABLE list_items ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, list TEXT NOT
    NULL, text TEXT NOT NULL, author TEXT NOT NULL, added REAL NOT NULL, ticked REAL, ticker TEXT
    NOT NULL DEFAULT '', user INTEGER, tainted INTEGER NOT NULL DEFAULT 0 );
CREATE INDEX list_items_of_chat ON list_items (chat, list, id);
CREATE TABLE list_changes ( id INTEGER PRIMARY KEY, turn TEXT NOT NULL, chat TEXT NOT NULL, item
    INTEGER NOT NULL, before TEXT, after TEXT, created REAL NOT NULL );
CREATE INDEX list_changes_of_turn ON list_changes (turn);
CREATE TABLE voices ( chat TEXT PRIMARY KEY, answers TEXT NOT NULL );
CREATE TABLE undos ( message INTEGER PRIMARY KEY, chat TEXT NOT NULL, turn TEXT NOT NULL, undone
    TEXT NOT NULL, done INTEGER NOT NULL, created REAL NOT NULL );
CREATE INDEX undos_of_chat ON undos (chat, turn);
CREATE INDEX undos_begun ON undos (chat) WHERE NOT done;
CREATE TABLE schedule_changes ( id INTEGER PRIMARY KEY, turn TEXT NOT NULL, chat TEXT NOT NULL,
    schedule INTEGER NOT NULL, before TEXT, after TEXT, created REAL NOT NULL );
CREATE INDEX schedule_changes_of_turn ON schedule_changes (turn);
CREATE TABLE workers ( name TEXT PRIMARY KEY, version TEXT NOT NULL, address TEXT NOT NULL, started
    REAL NOT NULL, until REAL NOT NULL, batch INTEGER NOT NULL DEFAULT 0, leaving INTEGER NOT NULL
    DEFAULT 0, status TEXT NOT NULL DEFAULT '{}' );
CREATE TABLE partitions ( number INTEGER PRIMARY KEY, worker TEXT, fence INTEGER NOT NULL DEFAULT 0,
    ready_at REAL NOT NULL DEFAULT 0 );
CREATE TABLE album_parts ( id INTEGER PRIMARY KEY, chat TEXT NOT NULL, album TEXT NOT NULL, part
    TEXT NOT NULL, came REAL NOT NULL );
CREATE INDEX album_parts_of_album ON album_parts (chat, album, came);
CREATE TABLE pieces ( chat TEXT NOT NULL, key TEXT NOT NULL, content BLOB NOT NULL, size BIGINT NOT
    NULL, used INTEGER NOT NULL, PRIMARY KEY (chat, key) );
CREATE INDEX pieces_unused ON pieces (chat) WHERE used = 0;
CREATE TABLE workspaces ( chat TEXT PRIMARY KEY, fence BIGINT NOT NULL, manifest BLOB NOT NULL, size
    BIGINT NOT NULL, changed REAL NOT NULL );
"""
SCHEMAS[20] = """
CREATE TABLE messages ( id INTEGER PRIMARY KEY, chat TEXT NOT NULL, text TEXT NOT NULL, received
    REAL NOT NULL, session INTEGER, turn TEXT, reason TEXT, retried INTEGER, reply INTEGER
    REFERENCES outbox (id), language TEXT NOT NULL DEFAULT '', origin INTEGER, enclosures TEXT NOT
    NULL DEFAULT '[]', preview INTEGER, unattended INTEGER NOT NULL DEFAULT 0, user INTEGER, admin
    INTEGER NOT NULL DEFAULT 0, apart INTEGER NOT NULL DEFAULT 0, channel TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '', task INTEGER, project TEXT NOT NULL DEFAULT '', schedule
    INTEGER, notice INTEGER NOT NULL DEFAULT 0, tainted INTEGER NOT NULL DEFAULT 0, buttons TEXT NOT
    NULL DEFAULT '[]', sent REAL NOT NULL DEFAULT 0, part_of INTEGER, resumed INTEGER NOT NULL
    DEFAULT 0, corrects INTEGER NOT NULL DEFAULT 0, asking TEXT NOT NULL DEFAULT '', event_of TEXT
    NOT NULL DEFAULT '', pressed INTEGER NOT NULL DEFAULT 0, branches INTEGER NOT NULL DEFAULT 0 );
CREATE INDEX messages_open ON messages (chat) WHERE reply IS NULL;
CREATE INDEX messages_of_reply ON messages (reply);
CREATE INDEX messages_of_chat ON messages (chat, id);
CREATE INDEX messages_with_buttons ON messages (chat, id) WHERE buttons != '[]';
CREATE INDEX messages_to_retry ON messages (chat, session, id) WHERE reply IS NOT NULL AND reason IS
    NOT NULL AND reason != 'complete' AND retried IS NULL;
CREATE TABLE updates ( source TEXT NOT NULL, number INTEGER NOT NULL, seen REAL NOT NULL, message
    INTEGER, PRIMARY KEY (source, number) ) WITHOUT ROWID;
CREATE INDEX updates_by_age ON updates (source, seen);
CREATE TABLE outbox ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, text TEXT NOT NULL,
    created REAL NOT NULL, delivered REAL, parts INTEGER NOT NULL DEFAULT 0, failure TEXT, begun
    INTEGER NOT NULL DEFAULT 0, in_place INTEGER NOT NULL DEFAULT 0, note TEXT NOT NULL DEFAULT '',
    questions TEXT NOT NULL DEFAULT '[]', silent INTEGER NOT NULL DEFAULT 0 );
CREATE INDEX outbox_waiting ON outbox (chat, id) WHERE delivered IS NULL;
CREATE TABLE history ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, session INTEGER NOT
    NULL, turn TEXT NOT NULL, message TEXT NOT NULL, tainted INTEGER NOT NULL, created REAL NOT
    NULL, links TEXT NOT NULL DEFAULT '[]', undone INTEGER NOT NULL DEFAULT 0, silent INTEGER NOT
    NULL DEFAULT 0, shown TEXT NOT NULL DEFAULT '' );
CREATE INDEX history_of_session ON history (chat, session, id);
CREATE INDEX history_of_chat ON history (chat, id);
CREATE INDEX history_of_turn ON history (chat, turn, id);
CREATE INDEX history_tainted ON history (chat, session) WHERE tainted;
CREATE TABLE sessions ( chat TEXT NOT NULL, number INTEGER NOT NULL, started REAL NOT NULL, due REAL
    NOT NULL, ended REAL, fresh INTEGER NOT NULL DEFAULT 0, learned INTEGER NOT NULL DEFAULT 0,
    asked INTEGER NOT NULL DEFAULT 0, forget INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL
    DEFAULT 0, learn_after REAL NOT NULL DEFAULT 0, short INTEGER NOT NULL DEFAULT 0, tainted
    INTEGER NOT NULL DEFAULT 0, nano INTEGER NOT NULL DEFAULT 0, forgotten INTEGER NOT NULL DEFAULT
    0, PRIMARY KEY (chat, number) );
CREATE INDEX sessions_to_learn ON sessions (chat, number) WHERE fresh;
CREATE INDEX sessions_to_forget ON sessions (chat, number) WHERE forget;
CREATE INDEX sessions_after_reset ON sessions (chat, number) WHERE forgotten > 0;
CREATE TABLE summaries ( chat TEXT NOT NULL, session INTEGER NOT NULL, turn TEXT NOT NULL, upto
    INTEGER NOT NULL, text TEXT NOT NULL, tainted INTEGER NOT NULL, links TEXT NOT NULL, created
    REAL NOT NULL, told INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (chat, session) );
CREATE TABLE parked ( chat TEXT NOT NULL, number INTEGER NOT NULL, call TEXT NOT NULL, question TEXT
    NOT NULL, state TEXT NOT NULL, asked INTEGER NOT NULL, turn TEXT NOT NULL DEFAULT '', schedule
    INTEGER NOT NULL DEFAULT 0, made REAL NOT NULL DEFAULT 0, offer TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (chat, number) ) WITHOUT ROWID;
CREATE TABLE tainted_files ( chat TEXT PRIMARY KEY, since REAL NOT NULL );
CREATE TABLE moved ( old TEXT NOT NULL, new TEXT NOT NULL UNIQUE );
CREATE TABLE members ( chat TEXT NOT NULL, user INTEGER NOT NULL, name TEXT NOT NULL, since REAL NOT
    NULL, seen REAL NOT NULL, PRIMARY KEY (chat, user) ) WITHOUT ROWID;
CREATE TABLE titles ( chat TEXT PRIMARY KEY, title TEXT NOT NULL, automatic INTEGER NOT NULL DEFAULT
    0, pinned INTEGER NOT NULL DEFAULT 0, archived INTEGER NOT NULL DEFAULT 0 );
CREATE TABLE lineage ( chat TEXT NOT NULL, session INTEGER NOT NULL, base INTEGER NOT NULL, upto
    INTEGER NOT NULL, PRIMARY KEY (chat, session, base) ) WITHOUT ROWID;
CREATE INDEX lineage_of_base ON lineage (chat, base);
CREATE TABLE tasks ( id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, owner TEXT NOT NULL,
    chat TEXT NOT NULL, parent INTEGER, message INTEGER UNIQUE, attached INTEGER NOT NULL, question
    TEXT NOT NULL, options TEXT NOT NULL, language TEXT NOT NULL, model TEXT NOT NULL, state TEXT
    NOT NULL, answer TEXT NOT NULL DEFAULT '', report TEXT NOT NULL DEFAULT '{}', spent TEXT NOT
    NULL DEFAULT '{}', tainted INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL, started REAL,
    ended REAL, schedule INTEGER, bot TEXT NOT NULL DEFAULT '', said TEXT NOT NULL DEFAULT '[]',
    wake_at REAL NOT NULL DEFAULT 0, user INTEGER );
CREATE INDEX tasks_open ON tasks (id) WHERE ended IS NULL;
CREATE INDEX tasks_of_owner ON tasks (owner, id);
CREATE INDEX tasks_of_bot ON tasks (bot, id) WHERE bot != '';
CREATE TABLE iterations ( task INTEGER NOT NULL, number INTEGER NOT NULL, reason TEXT NOT NULL,
    summary TEXT NOT NULL, tainted INTEGER NOT NULL, spent TEXT NOT NULL, ended REAL NOT NULL,
    PRIMARY KEY (task, number) ) WITHOUT ROWID;
CREATE TABLE usage ( id INTEGER PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT
    NULL, task INTEGER NOT NULL, bot TEXT NOT NULL, model TEXT NOT NULL, tool TEXT NOT NULL, calls
    INTEGER NOT NULL, tool_calls INTEGER NOT NULL, prompt INTEGER NOT NULL, completion INTEGER NOT
    NULL, cached INTEGER NOT NULL, nano INTEGER NOT NULL, unpriced INTEGER NOT NULL, estimated
    INTEGER NOT NULL, created REAL NOT NULL, person TEXT NOT NULL DEFAULT '', UNIQUE (day, owner,
    chat, task, bot, model, tool, person) );
CREATE INDEX usage_of_task ON usage (task) WHERE task;
CREATE TABLE reservations ( key TEXT PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT
    NOT NULL, task INTEGER NOT NULL, bot TEXT NOT NULL, model TEXT NOT NULL, prompt INTEGER NOT
    NULL, completion INTEGER NOT NULL, nano INTEGER NOT NULL, priced INTEGER NOT NULL, created REAL
    NOT NULL, person TEXT NOT NULL DEFAULT '' );
CREATE TABLE grants ( id INTEGER PRIMARY KEY, day TEXT NOT NULL, owner TEXT NOT NULL, chat TEXT NOT
    NULL, nano INTEGER NOT NULL, tokens INTEGER NOT NULL, created REAL NOT NULL );
CREATE TABLE budget_notices ( key TEXT PRIMARY KEY, created REAL NOT NULL );
CREATE TABLE schedules ( id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, chat TEXT NOT
    NULL, kind TEXT NOT NULL, text TEXT NOT NULL, options TEXT NOT NULL, cron TEXT NOT NULL, zone
    TEXT NOT NULL, instant REAL NOT NULL, next_at REAL NOT NULL, state TEXT NOT NULL, failures
    INTEGER NOT NULL DEFAULT 0, missed INTEGER NOT NULL DEFAULT 0, missed_at REAL NOT NULL DEFAULT
    0, language TEXT NOT NULL, model TEXT NOT NULL, tainted INTEGER NOT NULL, message INTEGER
    UNIQUE, created REAL NOT NULL, touched REAL NOT NULL, user INTEGER, reason TEXT NOT NULL DEFAULT
    '', checked TEXT NOT NULL DEFAULT '', outcome TEXT NOT NULL DEFAULT '', approval TEXT NOT NULL
    DEFAULT '' );
CREATE INDEX schedules_due ON schedules (next_at) WHERE state = 'active';
CREATE INDEX schedules_failed ON schedules (id) WHERE state = 'active' AND failures >= 3;
CREATE INDEX schedules_missed ON schedules (chat) WHERE missed != 0;
CREATE INDEX schedules_of_owner ON schedules (owner, id);
CREATE INDEX schedules_of_chat ON schedules (chat);
CREATE INDEX schedules_touched ON schedules (touched);
CREATE TABLE fires ( schedule INTEGER NOT NULL, instant REAL NOT NULL, at REAL NOT NULL, message
    INTEGER, task INTEGER, PRIMARY KEY (schedule, instant) ) WITHOUT ROWID;
CREATE TABLE unreachable ( chat TEXT PRIMARY KEY, why TEXT NOT NULL, since REAL NOT NULL, noted
    INTEGER NOT NULL DEFAULT 0, back REAL NOT NULL DEFAULT 0 );
CREATE TABLE episodes ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, session INTEGER
    NOT NULL, text TEXT NOT NULL, began REAL NOT NULL, created REAL NOT NULL, UNIQUE (chat, session)
    );
CREATE TABLE zones ( owner TEXT PRIMARY KEY, zone TEXT NOT NULL );
CREATE TABLE deliveries ( source TEXT NOT NULL, delivery TEXT NOT NULL, received REAL NOT NULL,
    message INTEGER, PRIMARY KEY (source, delivery) ) WITHOUT ROWID;
CREATE INDEX deliveries_by_age ON deliveries (received);
CREATE TABLE list_items ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, list TEXT NOT
    NULL, text TEXT NOT NULL, author TEXT NOT NULL, added REAL NOT NULL, ticked REAL, ticker TEXT
    NOT NULL DEFAULT '', user INTEGER, tainted INTEGER NOT NULL DEFAULT 0 );
CREATE INDEX list_items_of_chat ON list_items (chat, list, id);
CREATE TABLE list_changes ( id INTEGER PRIMARY KEY, turn TEXT NOT NULL, chat TEXT NOT NULL, item
    INTEGER NOT NULL, before TEXT, after TEXT, created REAL NOT NULL );
CREATE INDEX list_changes_of_turn ON list_changes (turn);
CREATE TABLE voices ( chat TEXT PRIMARY KEY, answers TEXT NOT NULL );
CREATE TABLE undos ( message INTEGER PRIMARY KEY, chat TEXT NOT NULL, turn TEXT NOT NULL, undone
    TEXT NOT NULL, done INTEGER NOT NULL, created REAL NOT NULL );
CREATE INDEX undos_of_chat ON undos (chat, turn);
CREATE INDEX undos_begun ON undos (chat) WHERE NOT done;
CREATE TABLE schedule_changes ( id INTEGER PRIMARY KEY, turn TEXT NOT NULL, chat TEXT NOT NULL,
    schedule INTEGER NOT NULL, before TEXT, after TEXT, created REAL NOT NULL );
CREATE INDEX schedule_changes_of_turn ON schedule_changes (turn);
CREATE TABLE workers ( name TEXT PRIMARY KEY, version TEXT NOT NULL, address TEXT NOT NULL, started
    REAL NOT NULL, until REAL NOT NULL, batch INTEGER NOT NULL DEFAULT 0, leaving INTEGER NOT NULL
    DEFAULT 0, status TEXT NOT NULL DEFAULT '{}' );
CREATE TABLE partitions ( number INTEGER PRIMARY KEY, worker TEXT, fence INTEGER NOT NULL DEFAULT 0,
    ready_at REAL NOT NULL DEFAULT 0 );
CREATE TABLE album_parts ( id INTEGER PRIMARY KEY, chat TEXT NOT NULL, album TEXT NOT NULL, part
    TEXT NOT NULL, came REAL NOT NULL );
CREATE INDEX album_parts_of_album ON album_parts (chat, album, came);
CREATE TABLE pieces ( chat TEXT NOT NULL, key TEXT NOT NULL, content BLOB NOT NULL, size BIGINT NOT
    NULL, used INTEGER NOT NULL, PRIMARY KEY (chat, key) );
CREATE INDEX pieces_unused ON pieces (chat) WHERE used = 0;
CREATE TABLE workspaces ( chat TEXT PRIMARY KEY, fence BIGINT NOT NULL, manifest BLOB NOT NULL, size
    BIGINT NOT NULL, changed REAL NOT NULL );
"""

SCHEMAS[21] = (
    SCHEMAS[20]
    + """
CREATE TABLE effects ( id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, turn TEXT NOT NULL,
    key TEXT NOT NULL, kind TEXT NOT NULL, what TEXT NOT NULL, state TEXT NOT NULL, note TEXT NOT
    NULL DEFAULT '', created REAL NOT NULL, changed REAL NOT NULL, UNIQUE (turn, key) );
CREATE INDEX effects_of_chat ON effects (chat, id);
CREATE TABLE mail_positions ( account TEXT NOT NULL, folder TEXT NOT NULL, validity INTEGER NOT
    NULL, upto INTEGER NOT NULL, changed REAL NOT NULL, PRIMARY KEY (account, folder) ) WITHOUT ROWID;
"""
)

CONTENT = """
INSERT INTO messages (id, chat, text, received) VALUES (4, 'cli', 'hello', 1.0);
INSERT INTO outbox (chat, text, created) VALUES ('cli', 'a reply that waits', 2.0);
INSERT INTO history (chat, session, turn, message, tainted, created)
    VALUES ('cli', 1, 't1',
    '{"role":"user","content":"before","tool_calls":[],"tool_call_id":null}', 1, 1.0);
INSERT INTO sessions (chat, number, started, due) VALUES ('cli', 1, 1.0, 2.0);
"""


def make(path: Path, version: int) -> None:
    """A file of that version, as it lies when its program has ended."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript(f"BEGIN; {SCHEMAS[version]} {CONTENT} PRAGMA user_version = {version}; COMMIT;")
    db.close()


def kept(path: Path) -> tuple[int, object]:
    """The file's version, and what it still has of the content."""
    db = sqlite3.connect(path)
    try:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        (version,) = db.execute("PRAGMA user_version").fetchone()
        return version, [
            db.execute("SELECT id, chat, text, received FROM messages").fetchall(),
            db.execute("SELECT chat, text, created, delivered FROM outbox").fetchall(),
            db.execute("SELECT chat, session, turn, message, tainted FROM history").fetchall(),
            db.execute("SELECT chat, number, started, due, ended FROM sessions").fetchall(),
        ]
    finally:
        db.close()


def shape(path: Path) -> object:
    """Tables with their columns, and indexes: what a file of one schema has in common with every other."""
    db = sqlite3.connect(path)
    try:
        things = db.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
        return {
            name: sorted(column[1:] for column in db.execute(f"PRAGMA {kind}_info({name})"))
            if kind == "table"
            else [column[2] for column in db.execute(f"PRAGMA index_info({name})")]
            for kind, name in things
        }
    finally:
        db.close()
