"""Every command refuses a home that others may have changed, in one sentence, and touches nothing in it."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from rumi.cli.group import COMMANDS, LazyGroup, group
from rumi.platform.home import Home, UnsafeHome
from tests.cli.program import Program

WORDS = {
    "chat": ["-p", "hi"],
    "serve": [],
    "status": [],
    "debug logs": [],
    "chats stop": ["cli"],
    "chats reset": ["cli"],
    "chats undo": ["cli"],
    "debug replay": ["t1"],
    "debug report": ["t1"],
    "debug fetch": ["http://127.0.0.1/"],
    "chats list": [],
    "chats show": ["cli"],
    "chats sessions": ["cli"],
    "chats export": ["cli"],
    "chats delete": ["cli", "--yes"],
    "chats diff": ["cli"],
    "tasks research web": ["why"],
    "tasks research repo": ["-u", "https://127.0.0.1/r", "why"],
    "schedule add": ["tomorrow 09:00", "x"],
    "schedule list": [],
    "schedule show": ["1"],
    "schedule pause": ["1"],
    "schedule resume": ["1"],
    "schedule run": ["1"],
    "schedule delete": ["1"],
    "schedule edit": ["1", "x"],
    "schedule approve": ["1"],
    "schedule trigger fire": ["alarm", "x"],
    "schedule trigger list": [],
    "schedule trigger test": ["alarm"],
    "mcp serve": [],
    "mcp list": [],
    "mcp allow": ["time", "api.example.org:443"],
    "mcp add": ["time", "--url", "http://127.0.0.1/mcp"],
    "mcp test": ["time"],
    "mcp remove": ["time"],
    "mcp login": ["time"],
    "mcp logout": ["time"],
    "config people list": [],
    "config people add": ["ann", "--telegram", "11"],
    "config people remove": ["ann"],
    "tasks list": [],
    "tasks show": ["1"],
    "tasks stop": ["1"],
    "tasks delete": ["1"],
    "models list": [],
    "plugins disable": ["rumi-any"],
    "plugins enable": ["rumi-any"],
    "plugins list": [],
    "models test": ["offline"],
    "models usage": [],
    "bot create": ["garden"],
    "bot run": ["garden"],
    "bot list": [],
    "bot diff": ["garden"],
    "bot apply": ["garden"],
    "bot show": ["garden"],
    "bot stop": ["garden"],
    "bot wake": ["garden"],
    "bot history": ["garden"],
    "bot memory garden show": [],
    "bot memory garden set": ["soil", "clay"],
    "bot memory garden remove": ["soil"],
    "bot memory garden clear": [],
    "bot skills garden list": [],
    "bot skills garden remove": ["sow"],
    "bot skills garden search": ["outside"],
    "bot skills garden install": ["outside", "--yes"],
    "bot import": ["outside"],
    "bot delete": ["garden"],
    "memory list": [],
    "memory set": ["colour", "blue"],
    "memory forget": ["colour"],
    "memory history": ["city"],
    "memory forget-everything": ["--yes"],
    "chats search": ["word"],
    "memory extract": [],
    "skills list": [],
    "skills info": ["explain"],
    "skills enable": ["explain"],
    "skills disable": ["explain"],
    "skills create": ["mine"],
    "skills trust": ["mine"],
    "debug sandbox build": [],
    "debug sandbox status": [],
    "debug sandbox clean": [],
    "data backup": ["elsewhere"],
    "data restore": ["elsewhere"],
    "import": ["openbot", "outside"],
    "data show": [],
    "data copy": ["--to", "postgresql://rumi@127.0.0.1:1/rumi"],
    "config show": [],
    "config path": [],
    "config get": ["language"],
    "config unset": ["language"],
    "config set": ["agent.max_turns", "5"],
    "setup": [],
    "web serve": [],
    "web link": [],
    "web sessions": [],
    "web revoke": ["all"],
}
"""Each command that uses the home, with words that it takes. `doctor` uses none that is refused."""


def commands(within: click.Group, context: click.Context, before: str = "") -> Iterator[str]:
    for name in within.list_commands(context):
        found = within.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, context, f"{before}{name} ")
        else:
            yield f"{before}{name}"


def open_to_all(home: Home, outside: Path) -> str:
    home.root.chmod(0o777)
    return f"{home.root} can be written by others (mode 777)."


def of_another_user(home: Home, outside: Path) -> str:
    if os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(home.root, 1234, 1234)
    return f"{home.root} belongs to user 1234, and this is user 0; nothing in it was looked at."


def link_in_logs(home: Home, outside: Path) -> str:
    (home.logs / "audit.jsonl").symlink_to(outside)
    return f"{home.logs}/audit.jsonl is a link: what Rumi writes there would go to {outside}."


UNSAFE = [open_to_all, of_another_user, link_in_logs]
Spoil = Callable[[Home, Path], str]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home").make()
    home.installation()
    return home


def test_every_command_is_among_those_that_are_tried_here() -> None:
    assert isinstance(group, LazyGroup)
    assert {*commands(group, click.Context(group))} - {"doctor"} == {
        command.replace(" garden", "") for command in WORDS
    }
    assert set(COMMANDS) == {words.split()[0] for words in (*WORDS, "doctor")}


@pytest.mark.parametrize("command", WORDS)
@pytest.mark.parametrize("spoil", UNSAFE, ids=lambda spoil: spoil.__name__)
def test_every_command_refuses_it_and_changes_nothing(
    home: Home, tmp_path: Path, command: str, spoil: Spoil, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = spoil(home, tmp_path / "outside")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUMI_HOME", str(home.root))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UnsafeHome) as refused:
        group.main([*command.split(), *WORDS[command]], standalone_mode=False)
    assert (refused.value.message, refused.value.exit_code) == (said, 2)
    assert refused.value.advice
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("spoil", UNSAFE, ids=lambda spoil: spoil.__name__)
def test_the_program_ends_with_2_and_the_doctor_says_the_same_with_1(
    home: Home, tmp_path: Path, spoil: Spoil
) -> None:
    said = spoil(home, tmp_path / "outside")
    program = Program(home.root)
    for words in (["chat", "-p", "run id"], ["status", "--json"]):
        done = program.run(*words, code=2)
        assert done.stdout == ""
        assert done.stderr.startswith(f"rumi: {said} ")
    examined = program.run("doctor", code=1).stdout
    assert f"✗ home            {said.rstrip('.')}\n" in examined
    assert done.stderr.removeprefix(f"rumi: {said} ").strip() in examined
    assert "now only its owner" not in examined


@pytest.mark.bubblewrap
def test_a_home_that_others_could_only_read_is_closed_with_a_word(bubblewrap: Program) -> None:
    bubblewrap.home.mkdir(mode=0o755)
    bubblewrap.home.chmod(0o755)
    (bubblewrap.home / "config.toml").write_text('[model]\ndefault = "offline"\n')
    done = bubblewrap.run("chat", "-p", "run echo hello")
    assert "hello" in done.stdout
    said = f"Others could read {bubblewrap.home}: now only its owner can use it (mode 700).\n"
    assert done.stderr.startswith(said)
    assert stat.S_IMODE(bubblewrap.home.stat().st_mode) == 0o700
    assert said not in bubblewrap.run("chat", "-p", "run echo hello").stderr
