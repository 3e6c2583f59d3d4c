BEGIN TRANSACTION;
CREATE TABLE async_delegations (
            delegation_id TEXT PRIMARY KEY,
            origin_session TEXT NOT NULL,
            origin_ui_session_id TEXT NOT NULL DEFAULT '',
            parent_session_id TEXT,
            state TEXT NOT NULL,
            dispatched_at REAL NOT NULL,
            completed_at REAL,
            updated_at REAL NOT NULL,
            event_json TEXT,
            result_json TEXT,
            delivery_state TEXT NOT NULL DEFAULT 'pending',
            delivery_attempts INTEGER NOT NULL DEFAULT 0,
            delivered_at REAL,
            owner_pid INTEGER,
            owner_started_at INTEGER,
            task_json TEXT,
            delivery_claim TEXT,
            delivery_claimed_at REAL
        );
CREATE TABLE compression_locks (
    session_id TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    acquired_at REAL NOT NULL,
    expires_at REAL NOT NULL
);
CREATE TABLE gateway_routing (
    scope TEXT NOT NULL DEFAULT '',
    session_key TEXT NOT NULL,
    entry_json TEXT NOT NULL,
    updated_at REAL NOT NULL,
    PRIMARY KEY (scope, session_key)
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL REFERENCES sessions(id),
    role TEXT NOT NULL,
    content TEXT,
    tool_call_id TEXT,
    tool_calls TEXT,
    tool_name TEXT,
    effect_disposition TEXT,
    timestamp REAL NOT NULL,
    token_count INTEGER,
    finish_reason TEXT,
    reasoning TEXT,
    reasoning_content TEXT,
    reasoning_details TEXT,
    codex_reasoning_items TEXT,
    codex_message_items TEXT,
    platform_message_id TEXT,
    observed INTEGER DEFAULT 0,
    active INTEGER NOT NULL DEFAULT 1,
    compacted INTEGER NOT NULL DEFAULT 0,
    api_content TEXT
);
INSERT INTO "messages" VALUES(1,'20261129_140146_7e053e','user','hello',NULL,NULL,NULL,NULL,1.79596090871026229859e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(2,'20261129_140146_7e053e','assistant','Hello! How can I help?',NULL,NULL,NULL,NULL,1.79596090910439610483e+09,NULL,'stop',NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(3,'20261129_140229_76ccfd','user','Run it. CALL terminal {"command": "echo hi"} END',NULL,NULL,NULL,NULL,1.79596095661354327203e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(4,'20261129_140229_76ccfd','assistant','',NULL,'[{"id": "call_1795960957405", "call_id": "call_1795960957405", "response_item_id": "fc_1795960957405", "type": "function", "function": {"name": "terminal", "arguments": "{\"command\": \"echo hi\"}"}}]',NULL,NULL,1.79596095744157576564e+09,NULL,'tool_calls',NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(5,'20261129_140229_76ccfd','tool','{"output": "hi", "exit_code": 0, "error": null}','call_1795960957405',NULL,'terminal',NULL,1.79596095753255796429e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(6,'20261129_140229_76ccfd','assistant','Done. The tool said: {"output": "hi", "exit_code": 0, "error": null}',NULL,NULL,NULL,NULL,1.79596095766305732721e+09,NULL,'stop',NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(7,'20261129_140240_e02373','user','Remember. CALL memory {"action": "add", "target": "user", "content": "The user lives in Madrid and prefers short answers"} END',NULL,NULL,NULL,NULL,1.79596096838893508913e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(8,'20261129_140240_e02373','assistant','',NULL,'[{"id": "call_1795960969194", "call_id": "call_1795960969194", "response_item_id": "fc_1795960969194", "type": "function", "function": {"name": "memory", "arguments": "{\"action\": \"add\", \"target\": \"user\", \"content\": \"The user lives in Madrid and prefers short answers\"}"}}]',NULL,NULL,1.79596096922982096668e+09,NULL,'tool_calls',NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(9,'20261129_140240_e02373','tool','{"success": true, "done": true, "target": "user", "usage": "3% — 50/1,375 chars", "entry_count": 1, "message": "Entry added.", "note": "Write saved. This update is complete — do not repeat it."}','call_1795960969194',NULL,'memory',NULL,1.79596096924894690514e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(10,'20261129_140240_e02373','assistant','Done. The tool said: {"success": true, "done": true, "target": "user", "usage": "3% — 50/1,375 chars", "entry_count": 1, "message": "Entry added.", "note": "Write saved. This update is complete — do not repeat it."}',NULL,NULL,NULL,NULL,1.79596096943565464026e+09,NULL,'stop',NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(11,'20261129_140251_2039ea','user','Remember. CALL memory {"action": "add", "target": "memory", "content": "The project builds with make check"} END',NULL,NULL,NULL,NULL,1.79596097741382503508e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(12,'20261129_140251_2039ea','assistant','',NULL,'[{"id": "call_1795960977828", "call_id": "call_1795960977828", "response_item_id": "fc_1795960977828", "type": "function", "function": {"name": "memory", "arguments": "{\"action\": \"add\", \"target\": \"memory\", \"content\": \"The project builds with make check\"}"}}]',NULL,NULL,1.795960977852077961e+09,NULL,'tool_calls',NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(13,'20261129_140251_2039ea','tool','{"success": true, "done": true, "target": "memory", "usage": "1% — 34/2,200 chars", "entry_count": 1, "message": "Entry added.", "note": "Write saved. This update is complete — do not repeat it."}','call_1795960977828',NULL,'memory',NULL,1.79596097786151480671e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(14,'20261129_140251_2039ea','assistant','Done. The tool said: {"success": true, "done": true, "target": "memory", "usage": "1% — 34/2,200 chars", "entry_count": 1, "message": "Entry added.", "note": "Write saved. This update is complete — do not repeat it."}',NULL,NULL,NULL,NULL,1.79596097793210172652e+09,NULL,'stop',NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(15,'20261129_140300_629060','user','Remember. CALL memory {"action": "add", "target": "memory", "content": "Backups run on Sunday nights"} END',NULL,NULL,NULL,NULL,1.79596098726497459415e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(16,'20261129_140300_629060','assistant','',NULL,'[{"id": "call_1795960988237", "call_id": "call_1795960988237", "response_item_id": "fc_1795960988237", "type": "function", "function": {"name": "memory", "arguments": "{\"action\": \"add\", \"target\": \"memory\", \"content\": \"Backups run on Sunday nights\"}"}}]',NULL,NULL,1.79596098830003046992e+09,NULL,'tool_calls',NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(17,'20261129_140300_629060','tool','{"success": true, "done": true, "target": "memory", "usage": "2% — 65/2,200 chars", "entry_count": 2, "message": "Entry added.", "note": "Write saved. This update is complete — do not repeat it."}','call_1795960988237',NULL,'memory',NULL,1.7959609883399467468e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(18,'20261129_140300_629060','assistant','Done. The tool said: {"success": true, "done": true, "target": "memory", "usage": "2% — 65/2,200 chars", "entry_count": 2, "message": "Entry added.", "note": "Write saved. This update is complete — do not repeat it."}',NULL,NULL,NULL,NULL,1.79596098856288099296e+09,NULL,'stop',NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(19,'20261129_140310_70afad','user','Skill. CALL skill_manage {"action": "create", "name": "tidy-notes", "category": "notes", "content": "---\nname: tidy-notes\ndescription: Tidy the notes in notes.md\n---\n\n# Tidy notes\n\n1. Read notes.md.\n2. Sort its lines.\n"} END',NULL,NULL,NULL,NULL,1.7959609967110021114e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(20,'20261129_140310_70afad','assistant','',NULL,'[{"id": "call_1795960997376", "call_id": "call_1795960997376", "response_item_id": "fc_1795960997376", "type": "function", "function": {"name": "skill_manage", "arguments": "{\"action\": \"create\", \"name\": \"tidy-notes\", \"category\": \"notes\", \"content\": \"---\\nname: tidy-notes\\ndescription: Tidy the notes in notes.md\\n---\\n\\n# Tidy notes\\n\\n1. Read notes.md.\\n2. Sort its lines.\\n\"}"}}]',NULL,NULL,1.79596099739749407763e+09,NULL,'tool_calls',NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(21,'20261129_140310_70afad','tool','{"success": true, "message": "Skill ''tidy-notes'' created.", "path": "notes/tidy-notes", "skill_md": "/home/user/.hermes/skills/notes/tidy-notes/SKILL.md", "_change": {"description": "Tidy the notes in notes.md"}, "category": "notes", "hint": "To add reference files, templates, or scripts, use skill_manage(action=''write_file'', name=''tidy-notes'', file_path=''references/example.md'', file_content=''...'')"}','call_1795960997376',NULL,'skill_manage',NULL,1.79596099745236253736e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(22,'20261129_140310_70afad','assistant','Done. The tool said: {"success": true, "message": "Skill ''tidy-notes'' created.", "path": "notes/tidy-notes", "skill_md": "/home/user/.hermes/skills/notes/tidy-notes/SKILL.md", "_change": {"description": "Tidy the',NULL,NULL,NULL,NULL,1.79596099754314613341e+09,NULL,'stop',NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
CREATE TABLE schema_version (
    version INTEGER NOT NULL
);
INSERT INTO "schema_version" VALUES(22);
CREATE TABLE session_model_usage (
    session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    billing_provider TEXT NOT NULL DEFAULT '',
    billing_base_url TEXT NOT NULL DEFAULT '',
    billing_mode TEXT NOT NULL DEFAULT '',
    task TEXT NOT NULL DEFAULT '',
    api_call_count INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cache_read_tokens INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens INTEGER NOT NULL DEFAULT 0,
    estimated_cost_usd REAL NOT NULL DEFAULT 0,
    actual_cost_usd REAL NOT NULL DEFAULT 0,
    cost_status TEXT,
    cost_source TEXT,
    first_seen REAL,
    last_seen REAL,
    PRIMARY KEY (session_id, model, billing_provider, billing_base_url, billing_mode, task)
);
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    user_id TEXT,
    session_key TEXT,
    chat_id TEXT,
    chat_type TEXT,
    thread_id TEXT,
    display_name TEXT,
    origin_json TEXT,
    expiry_finalized INTEGER DEFAULT 0,
    model TEXT,
    model_config TEXT,
    system_prompt TEXT,
    parent_session_id TEXT,
    started_at REAL NOT NULL,
    ended_at REAL,
    end_reason TEXT,
    message_count INTEGER DEFAULT 0,
    tool_call_count INTEGER DEFAULT 0,
    input_tokens INTEGER DEFAULT 0,
    output_tokens INTEGER DEFAULT 0,
    cache_read_tokens INTEGER DEFAULT 0,
    cache_write_tokens INTEGER DEFAULT 0,
    reasoning_tokens INTEGER DEFAULT 0,
    cwd TEXT,
    git_branch TEXT,
    git_repo_root TEXT,
    billing_provider TEXT,
    billing_base_url TEXT,
    billing_mode TEXT,
    estimated_cost_usd REAL,
    actual_cost_usd REAL,
    cost_status TEXT,
    cost_source TEXT,
    pricing_version TEXT,
    title TEXT,
    api_call_count INTEGER DEFAULT 0,
    handoff_state TEXT,
    handoff_platform TEXT,
    handoff_error TEXT,
    compression_failure_cooldown_until REAL,
    compression_failure_error TEXT,
    compression_fallback_streak INTEGER NOT NULL DEFAULT 0,
    profile_name TEXT,
    rewind_count INTEGER NOT NULL DEFAULT 0,
    archived INTEGER NOT NULL DEFAULT 0,
    FOREIGN KEY (parent_session_id) REFERENCES sessions(id)
);
INSERT INTO "sessions" VALUES('20261129_140146_7e053e','cli',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'offline-model',NULL,NULL,NULL,1.79596090870827293397e+09,1.79596090910882687568e+09,'agent_close',2,0,100,20,0,0,0,'/home/user',NULL,NULL,'custom','http://127.0.0.1:18099/v1',NULL,0.0,NULL,'unknown','none',NULL,NULL,1,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "sessions" VALUES('20261129_140229_76ccfd','cli',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'offline-model',NULL,NULL,NULL,1.79596095661012077329e+09,NULL,NULL,4,1,200,40,0,0,0,'/home/user',NULL,NULL,'custom','http://127.0.0.1:18099/v1',NULL,0.0,NULL,'unknown','none',NULL,NULL,2,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "sessions" VALUES('20261129_140240_e02373','cli',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'offline-model',NULL,NULL,NULL,1.79596096837946820256e+09,NULL,NULL,4,1,200,40,0,0,0,'/home/user',NULL,NULL,'custom','http://127.0.0.1:18099/v1',NULL,0.0,NULL,'unknown','none',NULL,NULL,2,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "sessions" VALUES('20261129_140251_2039ea','cli',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'offline-model',NULL,NULL,NULL,1.79596097741063499449e+09,NULL,NULL,4,1,200,40,0,0,0,'/home/user',NULL,NULL,'custom','http://127.0.0.1:18099/v1',NULL,0.0,NULL,'unknown','none',NULL,NULL,2,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "sessions" VALUES('20261129_140300_629060','cli',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'offline-model',NULL,NULL,NULL,1.79596098725652050971e+09,NULL,NULL,4,1,200,40,0,0,0,'/home/user',NULL,NULL,'custom','http://127.0.0.1:18099/v1',NULL,0.0,NULL,'unknown','none',NULL,NULL,2,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "sessions" VALUES('20261129_140310_70afad','cli',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'offline-model',NULL,NULL,NULL,1.79596099670586514468e+09,NULL,NULL,4,1,200,40,0,0,0,'/home/user',NULL,NULL,'custom','http://127.0.0.1:18099/v1',NULL,0.0,NULL,'unknown','none',NULL,NULL,2,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
CREATE TABLE state_meta (
    key TEXT PRIMARY KEY,
    value TEXT
);
CREATE INDEX idx_sessions_source ON sessions(source);
CREATE INDEX idx_sessions_source_id ON sessions(source, id);
CREATE INDEX idx_sessions_parent ON sessions(parent_session_id);
CREATE INDEX idx_sessions_started ON sessions(started_at DESC);
CREATE INDEX idx_messages_session ON messages(session_id, timestamp);
CREATE INDEX idx_compression_locks_expires ON compression_locks(expires_at);
CREATE INDEX idx_session_model_usage_session ON session_model_usage(session_id);
CREATE INDEX idx_session_model_usage_model ON session_model_usage(model);
CREATE INDEX idx_async_delegations_delivery
    ON async_delegations(delivery_state, completed_at);
CREATE INDEX idx_messages_platform_msg_id ON messages(session_id, platform_message_id) WHERE platform_message_id IS NOT NULL;
CREATE INDEX idx_messages_session_active
    ON messages(session_id, active, timestamp);
CREATE INDEX idx_messages_active_null
    ON messages(active) WHERE active IS NULL;
CREATE INDEX idx_sessions_session_key
    ON sessions(session_key, started_at DESC);
CREATE INDEX idx_sessions_gateway_peer
    ON sessions(source, user_id, chat_id, chat_type, thread_id, started_at DESC);
CREATE INDEX idx_sessions_handoff_state
    ON sessions(handoff_state, started_at);
CREATE UNIQUE INDEX idx_sessions_title_unique ON sessions(title) WHERE title IS NOT NULL;
COMMIT;
