"""What commands print with --json: real output against the published schemas, and nothing cut in pipes."""

import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from docs.making.schemas import TARGET, rendered, schemas
from tests.cli.program import Program

CALLS: dict[str, list[str]] = {
    "bot show": ["bot", "show", "tidy"],
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
    program.run("chat", "-p", f"remember lighthouse = {LONG}")
    return program


def printed(program: Program, name: str, *, as_json: bool = True) -> str:
    words = CALLS.get(name, name.split())
    return program.run(*words, *(["--json"] if as_json and "--check" not in words else []),
                       text="https://127.0.0.1/\nx\n", code=None).stdout  # fmt: skip


def test_the_published_schemas_are_those_of_the_code() -> None:
    assert TARGET.read_text() == rendered(), "make docs"


@pytest.mark.long
@pytest.mark.parametrize("name", FORMS["documents"])
def test_a_document_fits_its_schema(program: Program, name: str) -> None:
    found = json.loads(printed(program, name))
    assert found != [] or name == "tasks list", "there is something to check"
    _check(found, FORMS["documents"][name])


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
        if key in ("time", "at", "created", "updated", "ended", "next_at") and value is not None:
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
