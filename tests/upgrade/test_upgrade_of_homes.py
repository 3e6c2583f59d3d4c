"""Homes that earlier versions made: the current program upgrades them and works with what is in them.

`filling.py` made them with the code of these states, on 2026-11-29. The names have the version that
`rumi --version` showed then, and the schema of `state.db`:

- 0.1.0, schema 4 (8806088c): the end of the first bot for Telegram;
- 0.1.0, schema 14 (a875394b): tasks, schedules and bots;
- 0.1.0, schema 16 (26b22725): several workers on one database;
- 0.2.0, schema 16 (f04748f7): the commit of the version;
- 0.2.0, schema 17 (940793d0): the agent's tools and limits;
- 0.2.0, schema 19 (cf6184fa): the terminal and sessions;
- 0.2.0, schema 21 (01f5d7e7): the last state before 0.3.0.
"""

import json
import re
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rumi.store.journal.schema import SCHEMA_VERSION
from tests.cli.program import Program

OLDEST = 4


def schema_of(path: Path) -> int:
    return int(path.name.removesuffix(".tar.xz").rpartition("-")[2])


HOMES = sorted((Path(__file__).parent / "homes").glob("*.tar.xz"), key=schema_of)


def user_version(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def test_there_is_a_home_of_each_version_before_this_one() -> None:
    changelog = (Path(__file__).parents[2] / "CHANGELOG.md").read_text("utf-8")
    released = re.findall(r"^## (\d\S+) \(", changelog, re.MULTILINE)[1:]
    assert released == ["0.2.0", "0.1.0"]
    assert {path.name.split("-")[0] for path in HOMES} == set(released)
    assert max(map(schema_of, HOMES)) <= SCHEMA_VERSION
    assert all(path.stat().st_size < 200_000 for path in HOMES)


MORE = ("0.1.0-schema-16", "0.2.0-schema-17")
"""Homes whose neighbours have about the same."""


def marks_of(path: Path) -> list[pytest.MarkDecorator]:
    marks = [pytest.mark.long] * (schema_of(path) > OLDEST)
    return [*marks, pytest.mark.more] if path.name.startswith(MORE) else marks


@pytest.fixture(
    params=[pytest.param(path, id=path.name.removesuffix(".tar.xz"), marks=marks_of(path)) for path in HOMES]
)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Program, int]]:
    """The program on an unpacked home, and the schema of the home's `state.db`."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="tar")
    program = Program(tmp_path / "home", {"RUMI_SANDBOX__BACKEND": "bubblewrap"})
    yield program, schema_of(request.param)
    program.end()


@pytest.mark.bubblewrap
def test_a_home_of_an_earlier_version_works(home: tuple[Program, int]) -> None:
    program, schema = home
    state = program.home / "state.db"
    assert user_version(state) == schema

    if schema == OLDEST:  # the doctor looks, and changes nothing
        assert not failures(program)
        assert user_version(state) == schema

    # A further turn of the terminal's chat, in its own sandbox, with the files of before.
    turn = program.run("chat", "--continue", "-p", "$ cat notes.txt")
    assert "hello" in turn.stdout
    assert user_version(state) == SCHEMA_VERSION
    if schema < SCHEMA_VERSION:
        copy = program.home / f"state.db.before-{SCHEMA_VERSION}"
        assert user_version(copy) == schema

    chats = {chat["chat"] for chat in printed(program, "chats", "list")}
    assert {"cli", "work", "tg1001"} <= chats
    shown = program.run("chats", "show", "work").stdout
    assert "write plan.md: # Plan" in shown
    assert "favourite_colour: blue" in shown
    assert "remember pet = a cat" in program.run("chats", "show", "tg1001").stdout
    assert "notes.txt" in program.run("chats", "search", "notes.txt").stdout
    facts = program.run("memory", "list").stdout
    assert "Lisbon" in facts
    assert "blue" in facts
    assert "tea" in program.run("skills", "list").stdout

    if schema >= 14:  # the first of them had no such commands
        assert (program.home / "workspace/tg1001/today.txt").exists()
        schedules = program.run("schedule", "list").stdout
        assert "water the plants" in schedules
        assert "every day, 07:00" in schedules
        assert "garden" in program.run("bot", "list").stdout
        assert "write diary.md: tomatoes" in program.run("bot", "history", "garden").stdout
        assert program.run("config", "get", "agent.max_turns").stdout.strip() == "12"
    program.run("schedule", "add", "every tuesday 08:00", "feed the fish")
    assert "feed the fish" in program.run("schedule", "list").stdout
    assert not failures(program)


def printed(program: Program, *words: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(program.run(*words, "--json").stdout)
    return found


def failures(program: Program) -> list[str]:
    """What the doctor calls a failure; warnings name what this machine lacks."""
    checks = json.loads(program.run("doctor", "--json", code=None).stdout)
    return [f"{check['name']}: {check['found']}" for check in checks if check["verdict"] == "failure"]
