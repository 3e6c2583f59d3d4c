BEGIN TRANSACTION;
CREATE TABLE cron_jobs (store_key TEXT NOT NULL, job_id TEXT NOT NULL, display_name TEXT, name TEXT NOT NULL, enabled INTEGER NOT NULL, created_at_ms INTEGER NOT NULL, schedule_kind TEXT NOT NULL, schedule_expr TEXT, schedule_tz TEXT, every_ms INTEGER, at TEXT, payload_kind TEXT NOT NULL, payload_message TEXT, trigger_script TEXT);
INSERT INTO "cron_jobs" VALUES('main','j-9',NULL,'Weekly review',1,1780000000000,'cron','0 18 * * 5','Europe/Madrid',NULL,NULL,'agentTurn','Review the week.',NULL);
COMMIT;
