BEGIN TRANSACTION;
CREATE TABLE session_windows (session_id TEXT NOT NULL PRIMARY KEY, session_key TEXT NOT NULL, previous_session_id TEXT, reason TEXT, session_scope TEXT NOT NULL DEFAULT 'conversation', created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL) STRICT;
INSERT INTO "session_windows" VALUES('5f1c0f0e-0000-4000-8000-000000000003','agent:work:main',NULL,'initial','conversation',1780000000000,1780000003000);
CREATE TABLE transcript_events (session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT NOT NULL, created_at INTEGER NOT NULL, PRIMARY KEY (session_id, seq)) STRICT;
INSERT INTO "transcript_events" VALUES('5f1c0f0e-0000-4000-8000-000000000003',0,'{"type": "session", "version": 3, "id": "5f1c0f0e-0000-4000-8000-000000000003", "timestamp": "2026-05-28T20:26:40.000Z"}',1780000000000);
INSERT INTO "transcript_events" VALUES('5f1c0f0e-0000-4000-8000-000000000003',1,'{"type": "message", "id": "1", "timestamp": "2026-05-28T20:26:41.000Z", "message": {"role": "user", "content": "How long is the wall?"}}',1780000000001);
INSERT INTO "transcript_events" VALUES('5f1c0f0e-0000-4000-8000-000000000003',2,'{"type": "message", "id": "2", "timestamp": "2026-05-28T20:26:42.000Z", "message": {"role": "assistant", "content": [{"type": "text", "text": "12 m."}]}}',1780000000002);
COMMIT;
