"""The names of the commands: few at the top, in groups; old names work as before and say their new name."""

import re
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from rumi.cli.group import COMMANDS, OLD_NAMES, SECTIONS, UNLISTED, group
from rumi.texts import languages
from tests.cli.program import Program
from tests.conftest import ROOT

BOTH: dict[str, tuple[list[str], list[str]]] = {
    "backup": (["backup", "state.db/no"], ["data", "backup", "state.db/no"]),
    "fetch": (["fetch", "--check"], ["debug", "fetch", "--check"]),
    "logs": (["logs", "--json"], ["debug", "logs", "--json"]),
    "people": (["people", "list", "--json"], ["config", "people", "list", "--json"]),
    "replay": (["replay", "t99"], ["debug", "replay", "t99"]),
    "report": (["report", "t99", "-y"], ["debug", "report", "t99", "-y"]),
    "research": (["research", "web"], ["tasks", "research", "web"]),
    "reset": (["reset", "nobody"], ["chats", "reset", "nobody"]),
    "restore": (["restore", "nowhere"], ["data", "restore", "nowhere"]),
    "sandbox": (["sandbox", "status"], ["debug", "sandbox", "status"]),
    "stop": (["stop", "cli"], ["chats", "stop", "cli"]),
    "store": (["store", "show", "--json"], ["data", "show", "--json"]),
    "telegram": (["telegram"], ["serve", "--telegram"]),
    "trigger": (["trigger", "list", "--json"], ["schedule", "trigger", "list", "--json"]),
    "undo": (["undo", "nobody"], ["chats", "undo", "nobody"]),
    "usage": (["usage", "--json"], ["models", "usage", "--json"]),
}
"""Each old name in a call that ends soon, and the same call with the new name."""

TEXT = "https://127.0.0.1/\nftp://x/\n"

OLD_CALL = re.compile(rf"(?<![\w./@-])rumi ({'|'.join(OLD_NAMES)})\b(?! webhook)")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    program = Program(tmp_path_factory.mktemp("names") / "home", {"RUMI_SANDBOX__BACKEND": "bubblewrap"})
    program.run("memory", "set", "boiler", "broken")
    return program


def test_at_most_sixteen_commands_are_at_the_top() -> None:
    assert len(COMMANDS.keys() - UNLISTED) <= 16
    assert [*COMMANDS] == group.list_commands(click.Context(group))


@pytest.mark.parametrize("language", languages())
def test_the_help_shows_the_commands_in_groups(program: Program, language: str) -> None:
    spoken = Program(program.home, {**program.env, "RUMI_LANGUAGE": language})
    shown = spoken.run("--help").stdout
    assert len(re.findall(r"(?m)^  \w.*:$", shown)) == len(SECTIONS)
    assert re.findall(r"(?m)^    ([a-z]+)  ", shown) == [name for name in COMMANDS if name not in UNLISTED]


def test_each_old_name_is_tried_here() -> None:
    assert {*BOTH, "recall"} == {*OLD_NAMES}


@pytest.mark.long
@pytest.mark.parametrize("name", BOTH)
def test_an_old_name_does_the_same_and_says_its_new_one(program: Program, name: str) -> None:
    old, new = (program.run(*words, text=TEXT, code=None) for words in BOTH[name])
    note = f"rumi {name} is now: rumi {OLD_NAMES[name].now}. The old name works until version 1.0.\n"
    first, second = (re.sub(r"\d+\.\d GB free", "", done.stdout) for done in (old, new))
    assert (old.returncode, first) == (new.returncode, second)
    # The usage line of an error has the name that was typed.
    typed = old.stderr.replace(f"rumi {name}", f"rumi {' '.join(BOTH[name][1][:2])}")
    assert (old.stderr == new.stderr + note) if old.returncode == 0 else (typed == new.stderr)


def test_the_old_recall_prints_what_it_always_did(program: Program) -> None:
    program.run("chat", "-p", "remember cellar = damp in March")
    old = program.run("recall", "cellar")
    assert "Assistant: 📝 Saved: cellar: damp in March." in old.stdout
    assert "rumi chats search" in old.stderr
    assert "rumi chats search" not in old.stdout


def test_a_misspelled_old_name_leads_to_the_new_one(program: Program) -> None:
    assert "Did you mean 'data restore'?" in program.run("restor", code=2).stderr


def test_completion_offers_new_names_only() -> None:
    offered = {
        item.value for item in ShellComplete(group, {}, "rumi", "_RUMI_COMPLETE").get_completions([], "")
    }
    assert offered == {*COMMANDS}


BARE = {
    "chats": "cli ",
    "memory": "boiler",
    "models": "offline",
    "tasks": "",
    "bot": "",
    "schedule": "",
    "skills": "explain",
    "mcp": "",
    "config": "language",
    "data": "Schema of state",
    "config people": "",
    "schedule trigger": "",
    "debug sandbox": "engine",
}


@pytest.mark.long
@pytest.mark.parametrize("name", BARE)
def test_a_group_without_a_command_lists(program: Program, name: str) -> None:
    if name == "chats":
        program.run("chat", "-p", "hello")
    done = program.run(*name.split())
    assert BARE[name] in done.stdout
    assert "Usage" not in done.stdout


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (["help"], ["--help"]),
        (["help", "chats"], ["chats", "--help"]),
        (["help", "config", "people", "add"], ["config", "people", "add", "--help"]),
        (["--help", "chats", "list"], ["chats", "list", "--help"]),
        (["help", "recall"], ["recall", "--help"]),
    ],
)
def test_help_with_a_command_behind_it_shows_its_help(
    program: Program, words: list[str], same: list[str]
) -> None:
    assert program.run(*words).stdout == program.run(*same).stdout


def test_help_with_other_words_is_a_prompt(program: Program) -> None:
    assert "demo" in program.run("help", "me", "please").stdout


def test_a_group_without_a_list_shows_its_help(program: Program) -> None:
    done = program.run("debug", code=2)
    assert done.stderr.startswith("Usage: rumi debug")
    assert "Error" not in done.stderr


def test_texts_and_documents_use_the_new_names() -> None:
    documents = [*ROOT.glob("docs/*.md"), *ROOT.glob("deploy/*"), *ROOT.glob("rumi/**/*.po")]
    for path in documents:
        if path.name == "commands.md":  # it has the table of old names
            continue
        found = {" ".join(match.split()) for match in _old_calls(path)}
        assert found == set(), path
    for path in ROOT.glob("rumi/**/*.py"):
        lines = [line for line in path.read_text().splitlines() if OLD_CALL.search(line)]
        assert [line for line in lines if not _names_the_holder(line)] == [], path


def _old_calls(path: Path) -> list[str]:
    text = path.read_text().replace('"\n"', "") if path.suffix == ".po" else path.read_text()
    return [match[0] for match in OLD_CALL.finditer(text)]


def _names_the_holder(line: str) -> bool:
    """What an old command is called in its own module, and in the lock of the home."""
    return '"rumi telegram"' in line or '"rumi web"' in line or "old" in line or '"rumi trigger")' in line
