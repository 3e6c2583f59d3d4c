"""`rumi memory`: in a home that nobody holds, and in one that a running Rumi holds."""

import json
import re
import sqlite3
from pathlib import Path

import pytest
import trio

from tests.channels.terminal.ptys import terminal
from tests.cli.program import BOUND_S, RUMI, Program
from tests.memory.files import EXPECTED, original


@pytest.fixture
def rumi(tmp_path: Path) -> Program:
    return Program(tmp_path / "home")


def test_facts_are_set_listed_exported_and_forgotten(rumi: Program) -> None:
    assert rumi.run("memory", "list").stdout == "I know nothing about you yet.\n"
    assert json.loads(rumi.run("memory", "list", "--json").stdout) == []
    assert rumi.run("memory", "set", "city", "Rosario").stdout == "📝 Saved: city: Rosario.\n"
    said = rumi.run("memory", "set", "City", "Salta", "--also", "--json").stdout
    assert json.loads(said) == {"key": "City", "value": "Salta", "others": ["Rosario"]}
    rumi.run("memory", "set", "city", "Córdoba", "--owner", "tg1")
    facts = json.loads(rumi.run("memory", "list", "--json").stdout)
    assert [(fact["key"], fact["value"], fact["owner"], fact["source"]) for fact in facts] == [
        ("City", "Salta", "local", "explicit"),
        ("city", "Rosario", "local", "explicit"),
    ]
    assert set(facts[0]) == {
        "owner",
        "key",
        "value",
        "source",
        "chat",
        "tainted",
        "created",
        "updated",
        "turn",
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", facts[0]["updated"])
    assert rumi.run("memory", "forget", "CITY").stdout == "🗑 Forgot 2 facts: CITY.\n"
    assert json.loads(rumi.run("memory", "forget", "city", "--json").stdout) == {
        "key": "city",
        "forgotten": 0,
    }
    assert len(json.loads(rumi.run("memory", "list", "--json", "--owner", "tg1").stdout)) == 1


def test_what_cannot_be_done_is_one_sentence(rumi: Program) -> None:
    refused = rumi.run("memory", "set", "password", "hunter2", code=1).stderr
    assert refused.count("\n") == 1
    assert "hunter2" not in refused
    assert "key cannot be empty" in rumi.run("memory", "set", " ", "x", code=2).stderr
    assert "owner" in rumi.run("memory", "list", "--owner", "a b", code=2).stderr
    (rumi.home / "memory.db").unlink()
    with sqlite3.connect(rumi.home / "memory.db") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    assert "newer Rumi" in rumi.run("memory", "list", code=1).stderr


def test_a_pipe_gets_a_line_a_fact_in_the_users_language(rumi: Program) -> None:
    rumi.env["RUMI_LANGUAGE"] = "es"
    rumi.run("memory", "set", "equipo", "Central")
    rumi.run("memory", "set", "notas", "palabra " * 40)
    lines = rumi.run("memory", "list").stdout.splitlines()
    assert len(lines) == 2
    assert re.fullmatch(r"\d{4}-\d\d-\d\d  pedido  notas   palabra .* palabra", lines[0])
    assert lines[1].endswith("  equipo  Central")


async def test_a_terminal_of_80_columns_gets_a_table(rumi: Program) -> None:
    await trio.to_thread.run_sync(rumi.run, "memory", "set", "a key that is long for one", "word " * 40)
    await trio.to_thread.run_sync(rumi.run, "memory", "set", "team", "Central [bold]x")
    environment = {**rumi.environment(), "TERM": "xterm"}
    async with terminal(80, 40) as window:
        await trio.run_process([RUMI, "memory", "list"], env=environment, stdout=window.slave)
        await window.see("word")
        assert "\x1b[" in window.raw.decode()
        assert re.fullmatch(r"key +value +how +when", window.shown[0])
        assert re.fullmatch(r"team +Central \[bold\]x +asked +\d{4}-\d\d-\d\d", window.shown[1])
        assert sum(line.count("word") for line in window.shown) == 40


def test_commands_at_the_same_moment_wait_for_each_other(rumi: Program) -> None:
    started = [rumi.start("memory", "set", f"key {number}", "value") for number in range(4)]
    assert [process.communicate(timeout=BOUND_S)[1] for process in started] == [""] * 4
    assert len(json.loads(rumi.run("memory", "list", "--json").stdout)) == 4


def test_a_file_without_owners_is_the_terminals_from_the_first_command_on(rumi: Program) -> None:
    rumi.home.mkdir()
    original(rumi.home / "memory.db")
    facts = json.loads(rumi.run("memory", "list", "--json").stdout)
    assert [(fact["key"], fact["value"]) for fact in facts] == [(fact.key, fact.value) for fact in EXPECTED]


@pytest.mark.long
@pytest.mark.bubblewrap
def test_a_new_process_knows_what_was_remembered_and_a_running_one_is_asked(bubblewrap: Program) -> None:
    bubblewrap.env["RUMI_MODEL__DEFAULT"] = "offline"
    bubblewrap.run("chat", "-p", "remember city = Rosario")
    known = bubblewrap.run("chat", "--new", "-p", "what do you know about me").stdout
    assert "- city: Rosario" in known
    running = bubblewrap.start("chat")
    assert running.stdin is not None
    assert running.stdout is not None
    try:
        running.stdin.write("remember dog = Toto\n")
        running.stdin.flush()
        while "Toto" not in running.stdout.readline():
            pass
        facts = json.loads(bubblewrap.run("memory", "list", "--json").stdout)
        assert [fact["value"] for fact in facts] == ["Toto", "Rosario"]
        bubblewrap.run("memory", "forget", "city")
        assert json.loads(bubblewrap.run("memory", "extract", "--json").stdout) == {"learned": 0}
        assert "hunter2" not in bubblewrap.run("memory", "set", "password", "hunter2", code=1).stderr
        rest, _ = running.communicate("what do you know about me\n", timeout=BOUND_S)
    finally:
        running.kill()
        running.wait()
    assert "- dog: Toto" in rest
    assert "Rosario" not in rest
    assert json.loads(bubblewrap.run("memory", "extract", "--json").stdout) == {"learned": 0}
