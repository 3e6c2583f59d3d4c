"""What commands print with --json: real output against the published schemas, and nothing cut in pipes."""

import json
import re
from collections.abc import Iterator
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator

from docs.making.schemas import TARGET, rendered, schemas
from rumi.cli.group import group
from tests.app.moving.building import home_of
from tests.cli.program import Program

CALLS: dict[str, list[str]] = {
    "bot history": ["bot", "history", "tidy"],
    "bot memory show": ["bot", "memory", "tidy", "show"],
    "bot run": ["bot", "run", "tidy", "-n", "1", "-p", "look"],
    "bot show": ["bot", "show", "tidy"],
    "bot skills list": ["bot", "skills", "tidy", "list"],
    "bot skills search": ["bot", "skills", "tidy", "search", "skill.md"],
    "chats diff": ["chats", "diff", "linked"],
    "chats export": ["chats", "export", "cli"],
    "chats sessions": ["chats", "sessions", "cli"],
    "data backup": ["data", "backup", "copies"],
    "data restore": ["data", "restore", "--yes", "copy"],
    "debug replay": ["debug", "replay", "t1"],
    "import": ["import", "openclaw", "claw", "--yes"],
    "memory forget": ["memory", "forget", "nothing"],
    "memory forget-everything": ["memory", "forget-everything", "--yes", "--owner", "tg11111111"],
    "memory set": ["memory", "set", "pet", "cat"],
    "schedule approve": ["schedule", "approve", "2", "--host", "example.com"],
    "schedule edit": ["schedule", "edit", "2", "other"],
    "schedule trigger fire": ["schedule", "trigger", "fire", "door", "hello"],
    "tasks show": ["tasks", "show", "1"],
    "chats search": ["chats", "search", "lighthouse"],
    "chats show": ["chats", "show", "cli"],
    "config get": ["config", "get", "log.keep"],
    "debug fetch --check": ["debug", "fetch", "--check"],
    "debug logs --summary": ["debug", "logs", "--summary"],
    "memory history": ["memory", "history", "city"],
    "models test": ["models", "test", "offline"],
    "schedule add": ["schedule", "add", "in 20 minutes", "x"],
    "schedule show": ["schedule", "show", "1"],
    "skills info": ["skills", "info", "explain"],
    "chat": ["chat", "-p", "remember lighthouse = tall"],
}
"""The words of those commands that need more than their name."""

CONFIG = """[triggers.door]
[people.ann]
telegram = [11]
role = "admin"
[mcp.own]
command = "true"
[bots]
"""

FORMS = schemas()
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
LONG = "x" * 300


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    home = tmp_path_factory.mktemp("json") / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(CONFIG)
    program = Program(home, {"RUMI_SANDBOX__BACKEND": "bubblewrap", "COLUMNS": "40"})
    program.run("memory", "set", "city", LONG)
    program.run("memory", "set", "city", f"{LONG}y")
    program.run("schedule", "add", "in 20 minutes", f"{LONG}s")
    program.run("bot", "create", "tidy", "-d", LONG)
    program.run("schedule", "add", "every monday 08:00", "look", "--turn")
    program.run("bot", "memory", "tidy", "set", "key", "value")
    program.run("bot", "run", "tidy", "-n", "1", "-p", "look", code=None)
    program.run("chat", "-p", f"remember lighthouse = {LONG}")
    folder = tmp_path_factory.mktemp("folder")
    (folder / "notes.txt").write_text("one")
    program.run("chat", "--chat", "linked", "--here", "-p", "write notes.txt: two", folder=folder)
    home_of("openclaw", home.parent).rename(home.parent / "claw")
    (home.parent / "skill.md").write_text("---\nname: tea\ndescription: makes tea\n---\nBoil it.\n")
    program.run("data", "backup", str(home.parent / "copy"))
    return program


def printed(program: Program, name: str, *, as_json: bool = True) -> str:
    words = CALLS.get(name, name.split())
    flag = ["--json"] if as_json and "--check" not in words else []
    text, folder = "https://127.0.0.1/\nx\n", program.home.parent
    return program.run(*words, *flag, text=text, code=None, folder=folder).stdout


def test_the_published_schemas_are_those_of_the_code() -> None:
    assert TARGET.read_text() == rendered(), "make docs"


ELSEWHERE = {
    *(
        "bot diff",
        "bot import",
        "data copy",
        "debug fetch",
        "debug replay",
        "mcp test",
        "schedule trigger test",
        "status",
        "tasks stop",
    ),
    *("tasks research repo", "tasks research web"),
    *("web link", "web sessions"),
}
"""Commands that need a project, a server, a process that runs, or the network; some are tested below."""
EMPTY = {"bot skills list", "plugins list"}
"""Lists that are empty here."""


def test_each_command_with_json_has_a_schema() -> None:
    found = {" ".join(path) for path, command in _commands(group, []) if {"--json"} & _flags(command)}
    assert found == ({*FORMS["documents"], *FORMS["lines"]} - {"debug fetch --check", "debug logs --summary"})


def _commands(command: click.Command, path: list[str]) -> Iterator[tuple[list[str], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from _commands(inner, [*path, name])


def _flags(command: click.Command) -> set[str]:
    return {name for option in command.params if getattr(option, "is_flag", False) for name in option.opts}


@pytest.mark.long
@pytest.mark.parametrize("name", sorted({*FORMS["documents"]} - ELSEWHERE))
def test_a_document_fits_its_schema(program: Program, name: str) -> None:
    found = json.loads(printed(program, name))
    assert found != [] or name in EMPTY, "there is something to check"
    _check(found, FORMS["documents"][name])


def test_a_running_rumi_and_a_stopped_task_fit_their_schemas(program: Program) -> None:
    begun = json.loads(program.run("bot", "run", "tidy", "-p", "wait", "--background", "--json").stdout)
    _check(begun, FORMS["documents"]["bot run"])
    try:
        status = json.loads(program.run("status", "--json").stdout)
        Draft202012Validator(FORMS["documents"]["status"]).validate(status)
        assert TIME.fullmatch(status["time"])
    finally:
        stopped = json.loads(program.run("tasks", "stop", str(begun["id"]), "--json").stdout)
    _check(stopped, FORMS["documents"]["tasks stop"])


@pytest.mark.parametrize("name", FORMS["lines"])
def test_each_line_fits_its_schema(program: Program, name: str) -> None:
    lines = [json.loads(line) for line in printed(program, name).splitlines()]
    assert lines
    for line in lines:
        _check(line, FORMS["lines"][name])


def _check(found: Any, schema: dict[str, Any]) -> None:
    Draft202012Validator(schema).validate(found)
    for key, value in _fields(found):
        assert key == key.lower(), "in snake case"
        if key in (
            "time",
            "at",
            "created",
            "updated",
            "ended",
            "started",
            "next_at",
            "until",
            "wake_at",
        ) and isinstance(value, str):
            assert TIME.fullmatch(value), (key, value)


def _fields(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [pair for key, item in value.items() for pair in ((key, item), *_fields(item))]
    return [pair for item in value for pair in _fields(item)] if isinstance(value, list) else []


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("memory list", "y"),
        ("memory history", "y"),
        ("schedule list", "s"),
        ("chats show", ""),
        ("bot list", ""),
    ],
)
def test_nothing_is_cut_or_wrapped_in_a_pipe(program: Program, name: str, end: str) -> None:
    assert f"{LONG}{end}" in printed(program, name, as_json=False)
