"""A foreign home may contain anything: no link is followed, all is bounded, and nothing crashes."""

import json
import os
import shutil
import sqlite3
import threading
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from rumi.app.moving import databases, reading, talks
from rumi.app.moving.homes import read_home
from rumi.app.moving.reading import Budget, Stopped, instant, loads
from rumi.app.moving.records import ForeignHome, Kind
from rumi.errors import UsageError
from tests.app.moving.building import BREAD, conversation, export, home_of, node


def read(kind: Kind, path: Path) -> ForeignHome:
    return read_home(kind, path, Budget())


def reasons(moved: ForeignHome) -> set[str]:
    return {str(one.why) for one in moved.left_out}


def test_links_pipes_and_devices_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("- Do not read me\n")
    home = home_of("openclaw", tmp_path)
    for name, make in (
        ("MEMORY.md", lambda path: path.symlink_to(tmp_path / "secret.md")),
        ("USER.md", lambda path: os.mkfifo(path)),
        ("SOUL.md", lambda path: path.symlink_to("/dev/zero")),
    ):
        (home / "workspace" / name).unlink()
        make(home / "workspace" / name)
    shutil.rmtree(home / "workspace/memory")
    (home / "workspace/memory").symlink_to(tmp_path)
    (home / "skills/weather/link.md").symlink_to("/etc/passwd")
    (home / "agents/evil").symlink_to("/")
    moved = read("openclaw", home)
    assert moved.facts == []
    assert {
        "it is a link, or lies behind one, and no link is followed",
        "it is not a regular file",
    } <= reasons(moved)
    assert all("link.md" not in path for one in moved.skills for path, _ in one.files)


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"type": "message", "message": ' + b'{"a":' * 50_000,
        b"\xff\xfe\x00 not text",
        b'{"type": NaN, "message": {"role": "user", "content": 1e999}}',
        b'{"type": "message", "message": {"role": ["user"], "content": {"a": 1}}}',
        b'{"type": "message", "timestamp": "9999999-99-99", "message": {"role": "user", "content": 5}}',
        b'{"type": "message", "timestamp": ' + b"9" * 5_000 + b"}",
        b'{"type": "message", "message": null}',
        b"null",
        b'{"type": "message", "message": {"role": "assistant", "content": [{"type": "toolCall", "id": {}}]}}',
        b'"' + b"x" * 5_000_000 + b'"',
    ],
    ids=range(11),
)
def test_an_odd_line_costs_only_itself(tmp_path: Path, line: bytes) -> None:
    home = home_of("openclaw", tmp_path)
    (path,) = (home / "agents/main/sessions").glob("*1.jsonl")
    path.write_bytes(line + b"\n" + path.read_bytes())
    moved = read("openclaw", home)
    assert "Which files are there?" in [one.turns[0].text for one in moved.sessions]


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b"{", b"\x00" * 1000, b'{"jobs": 5}', b'{"jobs": [1, null, {}]}', b"[]"]
)
def test_damaged_files_cost_only_themselves(tmp_path: Path, content: bytes) -> None:
    for kind, names in (
        ("openclaw", ("openclaw.json", "cron/jobs.json", "agents/main/sessions/sessions.json")),
        ("nanobot", ("config.json", "workspace/cron/jobs.json")),
        ("hermes", ("config.yaml", "cron/jobs.json", "memories/USER.md")),
    ):
        home = home_of(kind, tmp_path)
        for name in names:
            (home / name).write_bytes(content)
        assert len(read(kind, home).sessions) >= 2  # type: ignore[arg-type]
        shutil.rmtree(home)


def test_a_hostile_database_runs_nothing(tmp_path: Path) -> None:
    home = tmp_path / ".hermes"
    home.mkdir()
    with closing(sqlite3.connect(home / "state.db")) as db:
        db.executescript(
            "CREATE TABLE real (id TEXT, source TEXT, started_at REAL);"
            "CREATE VIEW sessions AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
            " SELECT 's' || i AS id, '' AS source, 1.0 AS started_at FROM n;"
            "CREATE VIRTUAL TABLE messages USING fts5(session_id, role, content);"
            "INSERT INTO messages VALUES ('s1', 'user', 'hi');"
        )
    assert read("hermes", home).sessions == []


def test_a_value_beyond_the_limit_and_a_damaged_page_end_only_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "MOST_VALUE_BYTES", 5_000)
    home = home_of("hermes", tmp_path)
    with closing(sqlite3.connect(home / "state.db")) as db, db:
        db.execute("UPDATE messages SET content = ? WHERE id = 20", ("x" * 10_000,))
    moved = read("hermes", home)
    assert "the rest of a damaged database" in reasons(moved)
    assert moved.facts, "other parts are read"
    for content in (b"not a database", b"SQLite format 3\x00" + b"\xff" * 5_000):
        (home / "state.db").write_bytes(content)
        assert "it is not a database that can be read" in reasons(read("hermes", home))


def test_generated_columns_are_not_computed(tmp_path: Path) -> None:
    home = tmp_path / ".hermes"
    home.mkdir()
    with closing(sqlite3.connect(home / "state.db")) as db:
        db.executescript(
            "CREATE TABLE sessions (id TEXT, source TEXT, started_at REAL, title TEXT AS (upper(id)));"
            "CREATE TABLE messages (id INTEGER, session_id TEXT, role TEXT, content TEXT, timestamp REAL);"
            "INSERT INTO sessions (id, started_at) VALUES ('s', 1700000000);"
            "INSERT INTO messages VALUES (1, 's', 'user', 'hi', 1700000000);"
        )
    (session,) = read("hermes", home).sessions
    assert session.title == "hi"


def test_a_tree_of_messages_with_a_circle_ends(tmp_path: Path) -> None:
    nodes = [node(f"n{i}", f"n{(i + 1) % 3}", "user", f"text {i}", 1_700_000_000.0 + i) for i in range(3)]
    lost = conversation("lost", "Lost", *nodes, last="missing")
    alone = {"id": "x", "mapping": {"a": None, "b": {"parent": {}}}, "current_node": "a"}
    moved = read(
        "chatgpt", export(tmp_path / "e.zip", conversation("c", "Circle", *nodes), lost, alone, BREAD)
    )
    assert {one.title: len(one.turns) for one in moved.sessions} == {"Circle": 3, "Lost": 3, "Bread": 2}


def test_a_zip_bomb_and_paths_out_of_a_zip_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rumi.app.moving.chatgpt.MOST_BYTES", 1_000_000)
    packed = tmp_path / "bomb.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations-001.json", b"[" + b" " * 5_000_000 + b"]")
        archive.writestr("conversations-002.json", json.dumps([BREAD]))
        archive.writestr("../../outside.json", "{}")
        archive.writestr("/etc/evil", "{}")
    moved = read("chatgpt", packed)
    assert [one.title for one in moved.sessions] == ["Bread"]
    assert "it is too large" in reasons(moved)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bomb.zip"]


def test_a_damaged_zip_and_one_without_conversations_are_refused(tmp_path: Path) -> None:
    (odd := tmp_path / "odd.zip").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(UsageError, match="not a ZIP file"):
        read("chatgpt", odd)
    with zipfile.ZipFile(odd, "w") as archive:
        archive.writestr("readme.txt", "hi")
    with pytest.raises(UsageError, match=r"no conversations\.json"):
        read("chatgpt", odd)
    whole = export(tmp_path / "whole.zip", BREAD).read_bytes()
    at = whole.rfind(b"PK\x05\x06")
    odd.write_bytes(whole[: at + 12] + b"\xf0\xff\xff\xff" + whole[at + 16 :])
    with pytest.raises(UsageError, match="too many files"):
        read("chatgpt", odd)


def test_limits_end_the_import_with_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = home_of("openclaw", tmp_path)
    monkeypatch.setattr(reading, "MOST_FILES", 4)
    moved = read("openclaw", home)
    assert moved.zone == "Europe/Madrid"
    assert "the rest: the limits of one import are reached" in reasons(moved)
    monkeypatch.undo()
    monkeypatch.setattr(talks, "MOST_TURNS", 1)
    monkeypatch.setattr(talks, "MOST_SESSIONS", 1)
    moved = read("openclaw", home)
    assert [one.turns[0].text for one in moved.sessions] == ["Thanks!"]
    assert {"the beginning of a long session", "there are more than 1 sessions"} <= reasons(moved)


def test_a_stopped_import_ends_while_it_reads(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        read_home("hermes", home_of("hermes", tmp_path), Budget(stop))


def test_keys_in_what_was_said_are_hidden(tmp_path: Path) -> None:
    key = "sk-live-abcdefghijklmnopqrstuvwxyz012345"
    (home := tmp_path / ".nanobot").mkdir()
    (home / "sessions").mkdir()
    lines = [
        {"role": "user", "content": f"use {key}"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "1", "function": {"name": "exec", "arguments": json.dumps({"command": f"curl -H {key}"})}}
        ]},
        {"role": "tool", "tool_call_id": "1", "content": f"ok {key}"},
    ]  # fmt: skip
    (home / "sessions/x.jsonl").write_text("\n".join(map(json.dumps, lines)))
    moved = read("nanobot", home)
    assert len(moved.sessions[0].turns[0].entries) == 3
    assert key not in str(moved)


def test_code_that_rumi_would_run_is_left_out_of_skills(tmp_path: Path) -> None:
    home = home_of("nanobot", tmp_path)
    skill = home / "workspace/skills/tidy-notes"
    (skill / "skill.py").write_text("import os\n")
    (skill / "sub").mkdir()
    (skill / "sub/more.md").write_text("more\n")
    moved = read("nanobot", home)
    assert [path for path, _ in moved.skills[0].files] == ["SKILL.md", "sub/more.md"]
    assert "code that Rumi would run outside of a sandbox" in reasons(moved)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: 1, 'b': \"x\", // note\n c: [1, 2,], }", {"a": 1, "b": "x", "c": [1, 2]}),
        ("{/* , */ a: .5, b: +1, c: 0xff, d: 5.}", {"a": 0.5, "b": 1, "c": 255, "d": 5.0}),
        ("{a: 'it\\'s \\\n fine', u: '\\u0041'}", {"a": "it's  fine", "u": "A"}),
        ('{"url": "http://x/y" // not a comment in it\n}', {"url": "http://x/y"}),
        ("{a: NaN, b: null, a: 2}", {"a": 2, "b": None}),
    ],
)
def test_json5_is_read_as_people_write_it(text: str, value: object) -> None:
    assert loads(text) == value


def test_times_are_read_in_all_forms() -> None:
    assert (
        instant("2026-02-02T02:40:00.000Z") == instant(1770000000000) == instant(1770000000) == 1_770_000_000
    )
    assert [instant(odd) for odd in ("", "x", None, True, float("nan"), -5, 10**400, "1e999", [])] == [
        0.0
    ] * 9
