"""`rumi chats`: in a home that nobody holds, and in one that a running Rumi holds."""

import json
import subprocess

import pytest

from tests.cli.program import BOUND_S, RUMI, Program

pytestmark = pytest.mark.bubblewrap


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A home in which two chats have talked; the tests of this module only read it."""
    rumi = Program(tmp_path_factory.mktemp("used") / "home", {"RUMI_SANDBOX__BACKEND": "bubblewrap"})
    rumi.run("chat", "-p", "run echo hola")
    rumi.run("chat", "--chat", "work", "-p", "write notes.txt: Café con leche")
    return rumi


@pytest.mark.long
def test_chats_are_listed_the_latest_first(used: Program) -> None:
    lines = used.run("chats", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["work", "cli"]
    assert lines[1].endswith("  hola")
    assert [chat["chat"] for chat in json.loads(used.run("chats", "list", "--json").stdout)] == [
        "work",
        "cli",
    ]


def test_a_chat_is_shown_with_its_tools(used: Program) -> None:
    said = used.run("chats", "show", "work").stdout
    assert "  you\n  write notes.txt: Café con leche\n" in said
    assert '  → bash {"command": "tee notes.txt"' in said
    assert used.run("chats", "show", "work", "-n", "1").stdout.count("Rumi") == 1
    entries = json.loads(used.run("chats", "show", "work", "--json").stdout)
    assert {entry["role"] for entry in entries} >= {"user", "assistant", "tool"}


def test_words_are_found_without_accents_in_one_chat_or_all(used: Program) -> None:
    lines = used.run("chats", "search", "cafe", "LECHE").stdout.splitlines()
    assert lines
    assert all(line.startswith("work  ") and "Café" in line for line in lines)
    assert "Nothing was found" in used.run("chats", "search", "leche", "--chat", "cli", code=1).stderr


def test_a_chat_is_exported_as_markdown_or_json_lines(used: Program) -> None:
    used.run("chat", "-p", "/list shopping milk, bread")
    used.run("chat", "-p", "/list shopping done 1")
    said = used.run("chats", "export", "cli").stdout
    assert said.startswith("# cli\n\n## Session 2\n\n**you** · ")
    assert "\n**result** · " in said
    assert "**system**" not in said
    assert said.endswith("\n\n## List shopping\n\n- [x] milk\n- [ ] bread\n")
    *entries, shopping = (
        json.loads(line) for line in used.run("chats", "export", "cli", "--json").stdout.splitlines()
    )
    assert [(item["text"], item["ticked"]) for item in shopping["items"]] == [
        ("milk", True),
        ("bread", False),
    ]
    assert [entry["id"] for entry in entries] == sorted(entry["id"] for entry in entries)


@pytest.mark.parametrize("words", [("show",), ("export",), ("delete", "--yes"), ("search", "x", "--chat")])
def test_an_unknown_chat_is_exit_2(used: Program, words: tuple[str, ...]) -> None:
    assert "Unknown chat nope" in used.run("chats", *words, "nope", code=2).stderr


def test_a_chat_is_deleted_with_its_files_and_facts_stay(bubblewrap: Program) -> None:
    bubblewrap.run("chat", "-p", "write a.txt: secret; then remember city = Salta", "--yes")
    refused = bubblewrap.run("chats", "delete", "cli", code=2).stderr
    assert "--yes" in refused
    bubblewrap.run("chats", "delete", "cli", "--yes")
    assert bubblewrap.run("chats", "list").stderr == "There are no chats yet.\n"
    assert list((bubblewrap.home / "workspace").iterdir()) == []
    assert "Salta" in bubblewrap.run("memory", "list").stdout
    assert "hola" in bubblewrap.run("chat", "-p", "run echo hola").stdout


def test_a_chat_is_deleted_while_rumi_runs_and_goes_on_empty(bubblewrap: Program) -> None:
    process = bubblewrap.start("chat")
    assert process.stdin is not None
    assert process.stdout is not None

    def say(text: str, answer: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{text}\n")
        process.stdin.flush()
        assert any(answer in line for line in process.stdout)

    try:
        say("write a.txt: mate", "mate")
        assert bubblewrap.run("chats", "list").stdout.startswith("cli ")
        bubblewrap.run("chats", "delete", "cli", "--yes")
        assert bubblewrap.run("chats", "list").stdout == ""
        say("list files; then run echo gone", "gone")
        assert bubblewrap.run("chats", "search", "mate", code=1).stdout == ""
    finally:
        process.stdin.close()
        assert process.wait(timeout=BOUND_S) == 0
        process.stdout.close()
        assert process.stderr is not None
        process.stderr.close()


def test_a_pipe_that_closes_early_is_no_error(used: Program) -> None:
    done = subprocess.run(
        f"{RUMI} chats export cli | head -1", shell=True, capture_output=True, text=True,
        env=used.environment(), check=True,
    )  # fmt: skip
    assert done.stdout == "# cli\n"
