"""Homes that the programs have made, or that their documentation describes, are read as they are."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rumi.app.moving.finding import found_homes
from rumi.app.moving.homes import READERS, read_home, usual_home
from rumi.app.moving.reading import Budget
from rumi.app.moving.records import ForeignHome, Kind
from rumi.errors import UsageError
from rumi.platform.chat_ids import BUILT_IN, LOCAL
from tests.app.moving.building import BREAD, SUM, export, home_of


def read(kind: Kind, path: Path) -> ForeignHome:
    return read_home(kind, path, Budget())


def said(moved: ForeignHome, words: str) -> list[tuple[str, str]]:
    """The messages of the session whose first message contains the words."""
    (turns,) = [one.turns for one in moved.sessions if words in one.turns[0].text]
    return [(message.role, message.content) for turn in turns for message, _ in turn.entries]


def why(moved: ForeignHome) -> dict[str, str]:
    return {one.what: one.why for one in moved.left_out}


def test_a_home_of_nanobot_is_read(tmp_path: Path) -> None:
    moved = read("nanobot", home_of("nanobot", tmp_path))
    assert {one.id: len(one.turns) for one in moved.sessions} == {"cli:direct": 2, "cli:plans": 5}
    assert said(moved, "hello")[:2] == [("user", "hello"), ("assistant", "Hello! How can I help?")]
    turn = moved.sessions[0].turns[1]
    assert [message.role for message, _ in turn.entries] == ["user", "assistant", "tool", "assistant"]
    (call,) = turn.entries[1][0].tool_calls
    assert (call.name, json.loads(call.arguments)["path"]) == ("write_file", "notes.md")
    assert turn.entries[2][0].tool_call_id == call.id
    assert turn.reply.startswith("Done.")
    assert turn.at > 1_700_000_000
    assert [(one.key, one.value) for one in moved.facts][:2] == [
        ("User Information", "Lives in Madrid"),
        ("User Information", "Has a dog called Toby"),
    ]
    assert all("(" not in one.value for one in moved.facts), "lines of templates are no facts"
    assert [one.name for one in moved.skills] == ["tidy-notes"]
    jobs = {one.name: (one.cron, one.zone, bool(one.instant)) for one in moved.schedules}
    assert jobs["weather"] == ("0 8 * * *", "Europe/Madrid", False)
    assert jobs["water"][0].endswith(" */2 * * *")
    assert [(one.name, one.telegram) for one in moved.people] == [
        ("user22222222", 22222222),
        ("ana", 33333333),
    ]
    assert moved.zone == "Europe/Madrid"
    assert (
        "keys are not copied: channels.telegram.token, providers.custom.apiKey" in why(moved)["config.json"]
    )
    assert "sk-" not in str(moved.left_out)
    assert [one.name for one in moved.texts] == ["SOUL.md", "AGENTS.md"]


def test_a_home_of_hermes_is_read(tmp_path: Path) -> None:
    moved = read("hermes", home_of("hermes", tmp_path))
    assert len(moved.sessions) == 6
    assert said(moved, "Run it.")[1:3] == [
        ("assistant", ""),
        ("tool", '{"output": "hi", "exit_code": 0, "error": null}'),
    ]
    assert [(one.key, one.value) for one in moved.facts] == [
        ("about the user", "The user lives in Madrid and prefers short answers"),
        ("memory", "The project builds with make check"),
        ("memory", "Backups run on Sunday nights"),
    ]
    assert {one.name for one in moved.schedules} <= {"weather", "water", "dentist"}
    assert why(moved)["watchdog"] == "it runs a script of the other program"
    assert [one.telegram for one in moved.people] == [22222222, 33333333]
    assert "OPENAI_API_KEY, TELEGRAM_BOT_TOKEN" in why(moved)[".env"]


def test_a_home_of_openclaw_is_read_in_both_formats(tmp_path: Path) -> None:
    moved = read("openclaw", home_of("openclaw", tmp_path))
    assert [len(one.turns) for one in moved.sessions] == [2, 1, 1]
    assert said(moved, "Which files")[:4] == [
        ("user", "Which files are there?"),
        ("assistant", "I look."),
        ("tool", "notes.md"),
        ("assistant", "There is notes.md."),
    ]
    assert said(moved, "How long is the wall?")[-1] == ("assistant", "12 m."), "from SQLite"
    facts = {(one.key, one.value, one.source) for one in moved.facts}
    assert ("Name", "Ana", "USER.md") in facts
    assert ("2026-02-01", "Moved the notes to notes.md", "memory/2026-02-01.md") in facts
    assert [one.name for one in moved.skills] == ["tidy-notes", "weather"]
    jobs = {one.name: (one.cron, one.action) for one in moved.schedules}
    assert jobs == {
        "Morning brief": ("0 7 * * 1-5", "turn"),
        "Stretch": ("*/30 * * * *", "text"),
        "Weekly review": ("0 18 * * 5", "turn"),
    }
    assert why(moved)["Once"] == "it fires once, and its time has passed"
    assert why(moved)["Deploy check"] == "no schedule of Rumi has its interval"
    assert [one.telegram for one in moved.people] == [22222222, 33333333, 44444444]
    assert moved.settings == {"model.default": "anthropic:claude-opus-4-6"}


def test_an_export_of_chatgpt_is_read_as_a_zip_and_as_a_folder(tmp_path: Path) -> None:
    packed = export(tmp_path / "export.zip", BREAD, SUM, **{"file-1.png": b"x"})
    folder = tmp_path / "export"
    shutil.unpack_archive(packed, folder)
    (folder / "conversations.json").rename(folder / "conversations-000.json")
    for moved in (read("chatgpt", packed), read("chatgpt", folder)):
        assert [one.title for one in moved.sessions] == ["Bread", "Sum"]
        assert [text for _, text in said(moved, "How long")] == [
            "How long does bread rise?",
            "About one hour.",
            "Remember that I bake on Sundays",
            "I will remember that.",
        ], "of the branch that was shown last"
        assert said(moved, "Add one")[2] == ("tool", "3")
        assert [(one.value, one.source) for one in moved.facts] == [
            ("User bakes bread on Sundays.", "to=bio")
        ]
        reasons = [one.why for one in moved.left_out]
        assert reasons == [
            "other versions of messages and answers",
            "pictures and files that belong to conversations",
        ]


def test_a_foreign_home_is_only_read(tmp_path: Path) -> None:
    for kind in ("openclaw", "nanobot", "hermes"):
        home = home_of(kind, tmp_path)
        before = {path: (path.lstat().st_mtime_ns, path.lstat().st_size) for path in home.rglob("*")}
        read(kind, home)
        assert {path: (path.lstat().st_mtime_ns, path.lstat().st_size) for path in home.rglob("*")} == before


def test_a_database_in_use_is_read_with_its_log_and_is_not_locked(tmp_path: Path) -> None:
    home = home_of("hermes", tmp_path)
    with closing(sqlite3.connect(home / "state.db", isolation_level=None, timeout=0)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("UPDATE messages SET content = 'only in the log' WHERE content = 'hello'")
        db.execute("BEGIN IMMEDIATE")
        assert said(read("hermes", home), "only in the log")
        db.execute("UPDATE messages SET content = 'x'")  # which a lock of the reader would refuse
        db.execute("ROLLBACK")


def test_a_database_of_an_older_version_without_some_columns_is_read(tmp_path: Path) -> None:
    home = tmp_path / ".hermes"
    home.mkdir()
    with closing(sqlite3.connect(home / "state.db")) as db:
        db.executescript(
            "CREATE TABLE sessions (id TEXT, source TEXT, started_at REAL);"
            "CREATE TABLE messages (id INTEGER, session_id TEXT, role TEXT, content TEXT, timestamp REAL);"
            "INSERT INTO sessions VALUES ('s', 'cli', 1700000000);"
            "INSERT INTO messages VALUES (1, 's', 'user', 'old', 1700000000);"
            "INSERT INTO messages VALUES (2, 's', 'assistant', 'yes', 1700000001);"
        )
    assert said(read("hermes", home), "old") == [("user", "old"), ("assistant", "yes")]


def test_sessions_of_earlier_versions_are_found_where_they_were(tmp_path: Path) -> None:
    line = json.dumps({"role": "user", "content": "early", "timestamp": "2025-01-01T10:00:00"})
    for kind, path, settings in (
        ("nanobot", "workspace/sessions/cli_direct.jsonl", "config.json"),
        ("hermes", "sessions/20250101_1.jsonl", "config.yaml"),
    ):
        (home := tmp_path / kind / path).parent.mkdir(parents=True)
        home.write_text(f"{line}\n")
        (tmp_path / kind / settings).touch()
        assert said(read(kind, tmp_path / kind), "early") == [("user", "early")]  # type: ignore[arg-type]


def test_jobs_that_the_gateway_has_not_seen_are_taken_too(tmp_path: Path) -> None:
    home = home_of("nanobot", tmp_path)
    jobs = home / "workspace/cron/jobs.json"
    (found := json.loads(jobs.read_text()))["jobs"] = []
    jobs.write_text(json.dumps(found))
    job = {
        "id": "a", "name": "tea", "schedule": {"kind": "cron", "expr": "0 17 * * *"},
        "payload": {"kind": "agent_turn", "message": "Make tea"},
    }  # fmt: skip
    lines = [{"action": "add", "params": job}, {"action": "add", "params": {**job, "id": "b"}}]
    lines.append({"action": "del", "params": {"job_id": "b"}})
    (home / "workspace/cron/action.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert [(one.id, one.text) for one in read("nanobot", home).schedules] == [("a", "Make tea")]


def test_chats_keep_their_ids_and_belong_to_the_owner_of_the_home(tmp_path: Path) -> None:
    for kind in ("openclaw", "nanobot", "hermes"):
        home = home_of(kind, tmp_path)
        first, second = read(kind, home), read(kind, home)
        assert [one.chat for one in first.sessions] == [one.chat for one in second.sessions]
        keys = [[turn.key for turn in one.turns] for one in first.sessions]
        assert keys == [[turn.key for turn in one.turns] for one in second.sessions]
        assert all(BUILT_IN.owner_of(one.chat) == LOCAL for one in first.sessions)
        assert len({key for session in keys for key in session}) == sum(map(len, keys))


def test_usual_homes_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert found_homes(tmp_path) == []
    with pytest.raises(UsageError, match="no home of Hermes"):
        usual_home("hermes")
    home_of("hermes", tmp_path)
    home_of("openclaw", tmp_path).rename(tmp_path / ".clawdbot")
    assert found_homes(tmp_path) == [("openclaw", tmp_path / ".clawdbot"), ("hermes", tmp_path / ".hermes")]
    assert usual_home("openclaw") == tmp_path / ".clawdbot"


def test_a_folder_that_is_no_home_is_refused(tmp_path: Path) -> None:
    for kind in READERS:
        with pytest.raises(UsageError):
            read(kind, tmp_path)
        with pytest.raises(UsageError):
            read(kind, tmp_path / "missing")
