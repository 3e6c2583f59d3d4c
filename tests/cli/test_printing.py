"""One door to the terminal: no command prints what a terminal would obey, whatever the home has."""

import ast
import json
import logging
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from rumi.channels.attach.status_view import StatusFilter, render
from rumi.cli import printing
from rumi.cli.brief import _safe
from rumi.cli.group import group
from rumi.cli.printing import CleanStream, Styled, console, echo, echo_json
from tests.channels.control.test_view import item
from tests.cli.forks import CLONE, Forked
from tests.cli.hostile_home import EVIL, WRONG, plant
from tests.cli.program import BOUND_S, CORE, RUMI
from tests.conftest import ROOT

OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]"
)

DOORS = {"printing.py", "__init__.py", "brief.py"}
"""The door, the version, and the dump of the status, which is made safe there."""

PRINTS = {"echo", "secho", "echo_via_pager", "style", "prompt", "confirm", "progressbar"}

LEFT_OUT = {
    "serve", "setup", "web serve", "mcp serve", "debug sandbox build", "debug sandbox clean", "data copy",
}  # fmt: skip
"""What serves until a signal, asks a person at a terminal, builds the sandbox, or needs PostgreSQL."""

WALK: dict[str, list[list[str]]] = {
    "chat": [["-p", EVIL], ["-p", EVIL, "--json"], ["-p", "x", "--chat", EVIL], ["-f", EVIL, "-p", "x"],
             ["-t", EVIL], ["-t", "evil", "-v", EVIL, "x"], ["--save", "evil", EVIL], ["--templates"],
             ["--templates", "--json"], ["--save", EVIL, EVIL], ["--resume", EVIL, "x"], ["-x", EVIL]],
    "status": [[], ["--json"], ["--all"], ["--watch"]],
    "debug logs": [[], ["--json"], ["--summary"], ["--summary", "--json"], ["--event", EVIL],
             ["--chat", EVIL], ["--since", EVIL]],
    "chats stop": [["cli"], [EVIL], ["--all"]],
    "chats reset": [[EVIL]],
    "chats undo": [[EVIL]],
    "debug replay": [["t1"], ["t1", "--from", "3", "--model", "offline"], [EVIL],
               ["t1", "--from", "1", "--model", EVIL]],
    "debug report": [["t1", "-o", "{out}/report-1.zip", "-y"], ["t1", "-o", "{out}/" + EVIL, "-y"], [EVIL]],
    "chats delete": [[EVIL, "--yes"]],
    "chats diff": [["cli"], ["cli", "--json"], ["cli", EVIL], [EVIL, "--stat"]],
    "chats export": [["cli"], ["cli", "--json"], [EVIL]],
    "chats list": [[], ["--json"]],
    "chats sessions": [["cli"], ["cli", "--json"], [EVIL]],
    "chats search": [["xanadu"], ["xanadu", "--json"], [EVIL], ["x", "--chat", EVIL],
                     ["x", "--since", EVIL], ["xanadu", "--about"], ["x", "--owner", EVIL]],
    "chats show": [["cli"], ["cli", "--json"], [EVIL], ["cli", "--turn", EVIL]],
    "debug fetch": [["http://127.0.0.1/" + EVIL], [EVIL], ["--check"]],
    "tasks research repo": [["why?", "-u", EVIL], ["why?", "-u", EVIL, "--json"]],
    "tasks research web": [[EVIL, "-u", EVIL], [EVIL, "-u", EVIL, "--json"]],
    "tasks delete": [["99"], [EVIL]],
    "tasks list": [[], ["--json"]],
    "tasks show": [["1"], ["1", "--json"], ["2"], ["1", "--source", "1"], [EVIL]],
    "tasks stop": [["1"], [EVIL]],
    "bot diff": [["tidy"], ["tidy", "--stat"], [EVIL]],
    "bot apply": [["tidy"], ["tidy", "--yes"], [EVIL]],
    "bot create": [[EVIL], ["fresh", "-d", EVIL]],
    "bot delete": [[EVIL]],
    "bot history": [["tidy"], ["tidy", "--json"], [EVIL]],
    "bot import": [["{out}/foreign"], ["{out}/foreign", "--json"], [EVIL]],
    "bot list": [[], ["--json"]],
    "bot memory": [["tidy", "show"], ["tidy", "show", "--json"], ["tidy", "set", EVIL, EVIL],
                   ["tidy", "remove", EVIL],
                   ["tidy", "clear"], [EVIL, "show"]],
    "bot run": [[EVIL, "-p", EVIL], ["tidy", "-p", EVIL, "-m", EVIL], ["wrong", "-p", "x", "--json"]],
    "bot show": [["tidy"], ["tidy", "--json"], ["wrong"], [EVIL]],
    "bot skills": [["tidy", "list"], ["tidy", "list", "--json"], ["tidy", "search", "{home}/skills"],
                   ["tidy", "install", "{home}/skills", "--yes"], ["tidy", "remove", EVIL],
                   ["tidy", "search", EVIL], [EVIL, "list"]],
    "bot stop": [["tidy"], [EVIL]],
    "bot wake": [["tidy", EVIL], [EVIL]],
    "models list": [[], ["--json"]],
    "plugins disable": [["rumi-any"], [EVIL]],
    "plugins enable": [["rumi-any"], [EVIL]],
    "plugins list": [[], ["--json"]],
    "models test": [["offline"], [EVIL], [EVIL, "--json"]],
    "models usage": [[], ["--json"], ["--owner", EVIL], ["--from", EVIL], ["--by", EVIL], ["--by", "tool"]],
    "schedule add": [[EVIL, EVIL], ["in 20 minutes", EVIL], ["in 20 minutes", EVIL, "--json"],
                     ["in 1 hour", "x", "--bot", EVIL]],
    "schedule approve": [["1"], ["1", "--json"], ["1", "--host", EVIL], ["1", "--tool", EVIL], ["99"]],
    "schedule delete": [["99"], [EVIL]],
    "schedule edit": [["1", EVIL], ["1", EVIL, "--json"], ["99", EVIL]],
    "schedule list": [[], ["--json"]],
    "schedule pause": [["1"], [EVIL]],
    "schedule resume": [["1"]],
    "schedule run": [["1"]],
    "schedule show": [["1"], ["1", "--json"]],
    "schedule trigger fire": [["evil", EVIL, "--id", EVIL, "--wait"], ["evil", EVIL, "--json"], [EVIL]],
    "schedule trigger list": [[], ["--json"]],
    "schedule trigger test": [["evil", "--curl"], [EVIL]],
    "memory extract": [["--owner", EVIL]],
    "memory forget": [[EVIL], [EVIL, "--json"]],
    "memory forget-everything": [["--owner", EVIL, "--yes"]],
    "memory history": [[EVIL], ["city", "--json"], ["city" + EVIL]],
    "memory list": [[], ["--json"], ["--sources"], ["--owner", EVIL]],
    "memory set": [[EVIL, EVIL], ["a", EVIL, "--json"]],
    "config people add": [[EVIL, "--telegram", "1"], ["bob", "--telegram", "12", "--role", EVIL]],
    "config people list": [[], ["--json"]],
    "config people remove": [[EVIL]],
    "web link": [[], ["--json"]],
    "web revoke": [["all"], [EVIL]],
    "web sessions": [[], ["--json"]],
    "skills create": [[EVIL], ["neat", "-d", EVIL]],
    "skills disable": [[EVIL], ["evil"]],
    "skills enable": [[EVIL], ["evil"]],
    "skills info": [["evil"], ["broken"], [EVIL]],
    "skills list": [[], ["-a"]],
    "skills trust": [["evil"], [EVIL]],
    "mcp add": [[EVIL, "echo"], ["more", "--no-sandbox", "-y", "--", "echo", EVIL], ["two", "--url", EVIL],
                ["three", "--env", EVIL, "--", "x"]],
    "mcp allow": [[EVIL, EVIL], ["own", EVIL], ["own", "api.example.org:443"]],
    "mcp list": [[], ["--json"]],
    "mcp login": [["own"], ["gone", "--no-browser"], [EVIL]],
    "mcp logout": [["own"], [EVIL]],
    "mcp remove": [[EVIL]],
    "mcp test": [["own"], ["own", "--json"], ["own", "--accept"], ["gone"], [EVIL]],
    "debug sandbox status": [[]],
    "doctor": [[], ["--json"], ["--online"]],
    "data backup": [["{out}/backup"], ["{out}/" + EVIL]],
    "data show": [[], ["--json"]],
    "data restore": [[EVIL], ["{out}/backup", "-y"]],
    "import": [["hermes", "{out}/hermes", "-y"], ["hermes", "{out}/hermes", "--json", "--dry-run"], [EVIL],
               ["nanobot", EVIL], ["hermes", "{out}/hermes", "--only", EVIL]],
    "config get": [[EVIL], ["model"], ["model.default", "--json"]],
    "config path": [[]],
    "config set": [[EVIL, EVIL], ["model.default", EVIL], ["log.keep", EVIL]],
    "config show": [[], ["--json"]],
    "config unset": [[EVIL], ["log.keep"]],
}  # fmt: skip


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The commands, by their words; `bot memory` and `bot skills` take a name before their own commands."""
    if isinstance(command, click.Group) and path not in (("bot", "memory"), ("bot", "skills")):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from leaves(inner, (*path, name))
    else:
        yield " ".join(path)


def test_the_walk_knows_every_command() -> None:
    assert set(leaves(group)) == WALK.keys() | LEFT_OUT


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    ours = {"RUMI_HOME": str(home), "RUMI_SESSION__LINGER_S": "0", "RUMI_SANDBOX__BACKEND": "bubblewrap"}
    return {**kept, "LANG": "C.UTF-8", **ours, **CORE, **more}


def run(home: Path, *words: str, **more: str) -> bytes:
    """Return what a command prints, to both streams."""
    with open(home.parent / "printed", "wb") as printed:  # as bytes: a text would lose carriage returns
        process = (Forked if CLONE else subprocess.Popen[str])(
            [RUMI, *words],
            stdin=subprocess.PIPE,
            stdout=printed,
            stderr=printed,
            text=True,
            env=environment(home, **more),
        )
        process.communicate(f"{EVIL}\n", BOUND_S)
    return Path(printed.name).read_bytes()


def obeyed(printed: bytes) -> list[str]:
    """What a terminal would obey in it, each with what stands beside it."""
    text = printed.decode("utf-8", "backslashreplace")
    return [text[max(0, found.start() - 40) : found.end() + 20] for found in OBEYED.finditer(text)]


SHOWS = {
    *(
        "debug logs",
        "debug replay",
        "chats export",
        "chats list",
        "chats search",
        "chats show",
        "debug fetch",
        "tasks list",
    ),
    *(
        "tasks show",
        "bot apply",
        "bot diff",
        "bot history",
        "bot import",
        "bot list",
        "bot memory",
        "bot run",
    ),
    *(
        "bot show",
        "bot skills",
        "models usage",
        "schedule list",
        "schedule resume",
        "schedule show",
        "memory list",
    ),
    *("skills info", "skills list", "mcp list", "mcp test", "config show", "import"),
}
"""Commands that print what the home has, also if none of their own words are hostile."""


@pytest.mark.long
@pytest.mark.bubblewrap
def test_no_command_prints_what_a_terminal_would_obey(tmp_path: Path) -> None:
    home = tmp_path / "home"
    plant(home)
    found: dict[str, list[str]] = {}
    shows, told = set(), list[str]()

    def walk(command: str, words: list[str]) -> None:
        places = {"home": home, "out": tmp_path}
        asked = [*command.split(), *(word.format(**places) if word[0] == "{" else word for word in words)]
        printed = run(home, *asked)
        if wrong := obeyed(printed):
            found[json.dumps(asked)] = wrong
        if b"mcp.gone.url" in printed and b"evil" in printed:
            told.append(command)
        if b"gnp.exe" in printed and not any(EVIL in word for word in words):
            shows.add(command)

    for command, variants in WALK.items():
        for words in variants:
            walk(command, words)
    assert found == {}
    assert SHOWS - shows == set()
    assert b"plain  (" in run(home, "mcp", "test", "own"), "a server outside of the sandbox ends in order"
    told.clear()
    (home / "config.toml").write_text(WRONG)  # which each command says, and ends
    for command in (
        "chats list",
        "config show",
        "doctor",
        "memory list",
        "mcp list",
        "chats stop",
        "models usage",
    ):
        walk(command, WALK[command][0])
    assert found == {}
    assert len(told) == 7, "each says what is wrong with the settings"


ON_A_TERMINAL = [
    *(["logs"], ["logs", "--summary"], ["config", "show"], ["memory", "list"], ["chats", "show", "cli"]),
    *(["chats", "list"], ["skills", "list", "-a"], ["tasks", "list"], ["bot", "diff", "tidy"], ["doctor"]),
]

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.long
@pytest.mark.bubblewrap
def test_on_a_terminal_there_are_no_sequences_but_our_colours(tmp_path: Path) -> None:
    home = tmp_path / "home"
    plant(home)
    for words in ON_A_TERMINAL:
        ours, theirs = pty.openpty()
        with open(ours, "rb", buffering=0) as terminal:
            process = subprocess.Popen(
                [RUMI, *words], stdin=theirs, stdout=theirs, stderr=theirs,
                env=environment(home, TERM="xterm-256color", COLUMNS="300"),
            )  # fmt: skip
            os.close(theirs)
            printed = b""
            try:
                while part := terminal.read(65536):
                    printed += part
            except OSError:  # the other end is closed
                pass
            process.wait(BOUND_S)
        text = printed.replace(b"\r\n", b"\n").decode()
        assert "evil" in text or words == ["doctor"], words
        assert obeyed(COLOURS.sub("", text).encode()) == [], words
        assert "\x1b[31mred" not in text, words


def status_of(said: str) -> dict[str, Any]:
    """A dump of the status in which everything that is a text says that."""
    tool = {"name": said, "what": said, "age_s": 3.0}
    turn = {"job": "turn", "turn": said, "phase": said, "question": False, "tools": [tool], "age_s": 5.0}
    chat = item(said, figures={"history": 3, "session": 1, "tainted": False, "container": said, **turn})
    tree = item("rumi", item(said, doing=said, state=said, last_error=said), item("chats", chat))
    return {
        "program": said, "pid": 7, "uptime_s": 61, "model": said,
        "sandbox": {"engine": said, "degraded": [said]}, "tree": tree,
        "databases": {said: 152_448}, "outbox": 2, "failed": {said: {"time": 1.0, "error": said}},
    }  # fmt: skip


def test_the_door_cleans_text_parts_json_tables_and_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    echo(EVIL)
    echo(Styled(EVIL, "red", bold=True), EVIL, err=True)
    echo_json({EVIL: [EVIL]}, indent=2)
    echo_json(EVIL, ascii=True)
    console().print(render(status_of(EVIL), StatusFilter(most=1000, many=1000)))
    monkeypatch.setattr(sys, "stderr", CleanStream(sys.stderr))
    logging.getLogger("somewhere").warning("%s", EVIL)
    sys.excepthook(ValueError, ValueError(EVIL), None)
    printed = capsys.readouterr()
    assert obeyed((printed.out + printed.err).encode()) == []
    assert (printed.out + printed.err).count("gnp.exe") >= 8
    lines = printed.out.splitlines()
    assert json.loads(next(line for line in lines if line.startswith('"'))) == EVIL


def test_the_dump_of_the_status_is_the_same_json_without_what_a_terminal_obeys() -> None:
    dump = json.dumps({"x": EVIL}, ensure_ascii=False).encode()
    assert obeyed(_safe(dump)) == []
    assert json.loads(_safe(dump)) == {"x": EVIL}
    assert _safe(b'{"x": 1}') == b'{"x": 1}'


def test_the_check_finds_what_was_printed_past_the_door(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printing, "clean", str)
    echo(EVIL)
    assert len(obeyed(capsys.readouterr().out.encode())) > 10


def past_the_door(source: str) -> list[str]:
    """Calls in a module that print by themselves."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(ast.Name("click"), name) if name in PRINTS:
                found.append(f"click.{name}")
            case ast.Call(ast.Name("print" | "Console")):
                found.append("print")
            case ast.Attribute(
                ast.Attribute(ast.Name("sys"), "stdout" | "stderr"), "write" | "buffer" | "writelines"
            ):
                found.append("sys.write")
            case ast.Attribute(ast.Name("os"), "write"):
                found.append("os.write")
    return found


def test_no_command_prints_but_through_the_door() -> None:
    modules = sorted((ROOT / "rumi" / "cli").glob("*.py"))
    wrong = {module.name: past_the_door(module.read_text()) for module in modules if module.name not in DOORS}
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize(
    "line",
    [
        *("click.echo(x)", "click.secho(x)", "print(x)", "sys.stdout.write(x)", "sys.stderr.write(x)"),
        *("sys.stdout.buffer.write(x)", "os.write(1, x)", "Console().print(x)", "say = click.echo"),
        *("click.confirm(x)", "click.prompt(x)"),
    ],
)
def test_a_print_past_the_door_is_found(line: str) -> None:
    assert past_the_door(f"def f(x):\n    {line}\n")
