"""A forged or damaged file costs only itself: no crash, no hang, no endless memory, no key in the report."""

import json
import sqlite3
import time
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

from rumi.app.moving import chatgpt
from rumi.app.moving.databases import ForeignDatabase
from rumi.app.moving.homes import read_home
from rumi.app.moving.notes import add_notes
from rumi.app.moving.reading import Budget, loads
from rumi.app.moving.records import ForeignHome
from rumi.app.moving.settings import add_model, keep_text, keys_in, leave_servers
from rumi.errors import UsageError
from rumi.tasks.bots.foreign import ForeignFolder
from tests.app.moving.building import BREAD, SUM, conversation, export, home_of, move_in, node

KEY = "sk-live-abcdefghijklmnopqrstuvwxyz012345"


def reasons(moved: ForeignHome) -> set[str]:
    return {str(one.why) for one in moved.left_out}


@pytest.mark.parametrize("offset", [50, 60, 80, 100])
def test_a_damaged_file_in_a_zip_costs_only_itself(tmp_path: Path, offset: int) -> None:
    path = export(tmp_path / "e.zip", BREAD, SUM, **{"conversations-001.json": json.dumps([SUM]).encode()})
    content = bytearray(path.read_bytes())
    content[offset : offset + 8] = b"\xff" * 8
    path.write_bytes(content)
    moved = read_home("chatgpt", path, Budget())
    assert [one.title for one in moved.sessions] == ["Sum"]
    assert "it cannot be unpacked" in reasons(moved)


def test_methods_of_zip_that_take_memory_are_not_used(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "e.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("conversations.json", json.dumps([BREAD]))
    moved = read_home("chatgpt", tmp_path / "e.zip", Budget())
    assert (moved.sessions, reasons(moved)) == ([], {"it cannot be unpacked"})


def test_a_conversation_beyond_its_limit_is_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chatgpt, "MOST_CONVERSATION_CHARS", 5_000)
    export(tmp_path / "e.zip", *[BREAD, SUM] * 10, {"id": "x", "mapping": [[]] * 5_000})
    moved = read_home("chatgpt", tmp_path / "e.zip", Budget())
    assert [one.title for one in moved.sessions] == ["Bread", "Sum"] * 10
    assert "the rest of a damaged file" in reasons(moved)


def test_results_of_tools_without_a_call_take_no_time(tmp_path: Path) -> None:
    nodes = [node("n0", None, "user", "x")]
    nodes += [node(f"n{i}", f"n{i - 1}", "tool", "x") for i in range(1, 20_000)]
    began = time.process_time()
    assert read_home("chatgpt", export(tmp_path / "e.zip", conversation("c", "t", *nodes)), Budget()).sessions
    assert time.process_time() - began < 5


def heading(size: int) -> None:
    add_notes(ForeignHome("hermes", "/"), f"# {'#' * size}x\n# x{' ' * size}x", "n", "n")


def json5(text: str) -> Callable[[int], None]:
    def read(size: int) -> None:
        with pytest.raises(ValueError, match=r"."):
            loads(text * (size // len(text)))

    return read


@pytest.mark.parametrize("read", [heading, json5('\\"'), json5("\\'"), json5("/*"), json5("1")], ids=range(5))
def test_texts_are_searched_once(read: Callable[[int], None]) -> None:
    began = time.process_time()
    read(200_000)
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: 1.5, b: 20.25,}", {"a": 1.5, "b": 20.25}),
        ("{a: 1e3, b: -.5E-1, c: 5.e1, d: -0X1f}", {"a": 1000.0, "b": -0.05, "c": 50.0, "d": -31}),
    ],
)
def test_numbers_of_json5_keep_their_values(text: str, value: object) -> None:
    assert loads(text) == value


@pytest.mark.parametrize("settings", ["a: !!bool x", "a: !!int ''", "a: !!timestamp x", "a: &a\n  b: *a"])
def test_odd_values_of_yaml_cost_nothing(tmp_path: Path, settings: str) -> None:
    home = home_of("hermes", tmp_path)
    (home / "config.yaml").write_text(f"timezone: Europe/Madrid\n{settings}\n")
    moved = read_home("hermes", home, Budget())
    assert moved.zone == "Europe/Madrid"
    assert moved.sessions


def test_aliases_and_merges_of_yaml_do_not_multiply(tmp_path: Path) -> None:
    home = home_of("hermes", tmp_path)
    of_one = "\n".join(
        f"a{level}: &a{level} {{{', '.join(f'k{i}: *a{level - 1}' for i in range(30))}, token: x}}"
        for level in range(1, 9)
    )
    merged = "\n".join(
        f"m{level}: &m{level} {{<<: [{', '.join([f'*m{level - 1}'] * 30)}]}}" for level in range(1, 9)
    )
    (home / "config.yaml").write_text(f"a0: &a0 {{}}\n{of_one}\nm0: &m0 {{k: v}}\n{merged}\n")
    began = time.process_time()
    moved = read_home("hermes", home, Budget())
    assert time.process_time() - began < 5
    assert any("a1.token" in reason for reason in reasons(moved))


def test_keys_in_settings_are_found_at_each_depth() -> None:
    settings: dict[str, Any] = {"a": {"token": "x", "b": {"apiKey": "y", "c": "z"}}, "password": "$SECRET"}
    assert keys_in(settings) == {"a.token", "a.b.apiKey"}


def test_what_is_left_out_is_named_without_keys() -> None:
    moved = ForeignHome("hermes", "/")
    add_model(moved, "own", "m", f"https://someone:hunter2hunter2@host.example/v1?api_key={KEY}")
    add_model(moved, "own", KEY)
    leave_servers(moved, {KEY: {"command": "run", "args": ["--api-key", "hunter2hunter2"]}})
    moved.leave("schedules", f"use {KEY}", reason := next(one.why for one in moved.left_out))
    moved.leave("schedules", f"use {KEY}", reason)
    keep_text(moved, "TOOLS.md", f"The key is {KEY}.".encode())
    keep_text(moved, "SOUL.md", b"Be \xff kind.")
    assert KEY not in str(moved)
    assert "hunter2" not in str(moved)
    assert moved.left_out[-1].count == 2
    assert [text.content for text in moved.texts] == [b"The key is [hidden].", b"Be \xff kind."]


def test_a_report_shows_no_keys(tmp_path: Path) -> None:
    home = home_of("nanobot", tmp_path)
    jobs = json.loads((home / "workspace/cron/jobs.json").read_text())
    jobs["jobs"][0]["name"] = f"use {KEY}"
    (home / "workspace/cron/jobs.json").write_text(json.dumps(jobs))
    report = trio.run(lambda: move_in(tmp_path / "rumi", "nanobot", home))
    assert report.file is not None
    assert "use [hidden]" in report.file.read_text()
    assert KEY not in report.file.read_text()


def test_a_file_that_cannot_be_kept_costs_only_itself(tmp_path: Path) -> None:
    home = home_of("openclaw", tmp_path)
    (odd := home / f"workspace-{'x' * 240}").mkdir()
    (odd / "SOUL.md").write_text("Be kind.\n")
    report = trio.run(lambda: move_in(tmp_path / "rumi", "openclaw", home))
    assert [Path(kept).name for kept in report.kept] == ["SOUL.md", "AGENTS.md"]
    assert "File name too long" in {str(one.why) for one in report.left_out}


def test_a_database_that_is_written_meanwhile_is_copied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = home_of("hermes", tmp_path)
    copy, found = ForeignFolder.copy, len(read_home("hermes", home, Budget()).sessions)
    with closing(sqlite3.connect(home / "state.db", isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("INSERT INTO sessions (id, source, started_at) VALUES ('one', 'cli', 1)")
        db.execute(
            "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('one', 'user', 'a', 1)"
        )

        def copied(self: ForeignFolder, path: str, *words: Any) -> int:
            size = copy(self, path, *words)
            if path == "state.db" and not db.in_transaction:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return size

        monkeypatch.setattr(ForeignFolder, "copy", copied)
        moved = read_home("hermes", home, Budget())
    assert len(moved.sessions) == found + 1


def test_rows_that_are_larger_than_their_database_end_it() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE t (a TEXT)")
        db.executemany("INSERT INTO t VALUES (?)", [("x" * 1000,)] * 10)
        rows = ForeignDatabase(db, 2_000).rows("t", ("a",))
        with pytest.raises(sqlite3.DatabaseError, match="larger than the file"):
            list(rows)


@pytest.mark.parametrize(
    ("kind", "other"), [("nanobot", "openclaw"), ("openclaw", "nanobot"), ("openbot", "hermes")]
)
def test_the_home_of_another_program_is_named(tmp_path: Path, kind: Any, other: str) -> None:
    home = home_of(other, tmp_path)
    with pytest.raises(UsageError, match=f"is a home of .*rumi import {other} {home}"):
        read_home(kind, home, Budget())


@pytest.mark.parametrize("kind", ["nanobot", "openclaw"])
def test_jobs_without_an_id_do_not_replace_each_other(tmp_path: Path, kind: Any) -> None:
    (home := tmp_path / "home").mkdir()
    (home / "config.json" if kind == "nanobot" else home / "openclaw.json").write_text("{}")
    (home / "cron").mkdir()
    payload = {"kind": "agentTurn"}
    jobs = [
        {"id": id, "schedule": {"kind": "cron", "expr": "0 3 * * *"}, "payload": payload | {"message": text}}
        for id, text in ((None, "one"), ("", "two"), ({}, "three"), ("x", "four"))
    ]  # fmt: skip
    (home / "cron/jobs.json").write_text(json.dumps({"jobs": jobs}))
    first, second = (read_home(kind, home, Budget()).schedules for _ in range(2))
    assert [one.text for one in first] == ["one", "two", "three", "four"]
    assert len({one.id for one in first}) == 4
    assert first == second


def test_a_preview_counts_skills_of_one_name_as_the_import_does(tmp_path: Path) -> None:
    home = home_of("nanobot", tmp_path)
    for folder, name, words in (("a", "same", "hi"), ("b", "same", "hi"), ("c", "Same", "other")):
        (skill := home / "workspace/skills" / folder).mkdir()
        (skill / "SKILL.md").write_text(f"---\nname: {name}\ndescription: x\n---\n{words}\n")
    found = [
        trio.run(lambda dry=dry: move_in(tmp_path / "rumi", "nanobot", home, dry=dry))
        for dry in (True, False)
    ]
    assert [(one.parts["skills"].new, one.parts["skills"].here) for one in found] == [(2, 1), (2, 1)]
    assert all("another skill has its name" in {str(left.why) for left in one.left_out} for one in found)
