"""`rumi` in the folder of a project: asked once, shown, applied, dropped, after a kill, in two windows."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.program import RUMI, Program
from tests.cli.test_attach import Person, on_a_terminal
from tests.cli.test_chat import wait_for

pytestmark = [pytest.mark.bubblewrap, pytest.mark.long]

WAITS = "1 file changed: /diff shows it"


def project(folder: Path) -> Path:
    """A git work tree with a file."""
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    (folder / "old.txt").write_text("one\n")
    return folder


async def say(person: Person, text: str, *seen: str) -> None:
    await person.pty.type(f"{text}\r")
    for one in seen:
        await person.pty.see(one)


async def test_a_person_is_asked_once_and_nothing_changes_before_apply(
    bubblewrap: Program, tmp_path: Path
) -> None:
    garden = project(tmp_path / "my garden")
    async with on_a_terminal(bubblewrap, folder=garden) as person:
        await person.pty.see("What shall I work on, here and in other projects?")
        await say(person, "3", "Please answer with 1 or 2.")
        await say(person, "1", f"Working on {garden}:"[:90])
        await person.pty.see("Ctrl-D leaves")
        await say(person, "write new.txt: hello", WAITS)
        assert not (garden / "new.txt").exists()
        await person.pty.type("/diff n")
        await person.pty.until(lambda: any(line.strip() == "new.txt" for line in person.pty.shown))
        await person.pty.type("\t")
        await person.pty.see("› /diff new.txt")
        await say(person, "", "+hello")
        await say(person, "/apply", "Apply this change to", "(yes/no) ›")
        await say(person, "yes", "✅ 1 file changed in ")
        assert (garden / "new.txt").read_text() == "hello"
        await say(person, "write old.txt: two")
        await person.pty.until(lambda: WAITS in "".join(person.pty.shown).partition("› write old.txt")[2])
        await say(person, "/discard", "Drop this change?", "(yes/no) ›")
        await say(person, "yes", "🗑 Dropped 1 change")
        assert (garden / "old.txt").read_text() == "one\n"
    assert 'workspace = "here"' in (bubblewrap.home / "config.toml").read_text()
    bubblewrap.env["LANG"] = "es_ES.UTF-8"
    async with on_a_terminal(bubblewrap, folder=garden) as person:
        await person.pty.see(f"Trabajo en {garden}:"[:90])
        assert not any("1 o 2" in line for line in person.pty.shown)
        await person.pty.see("my-garden-")


def test_without_a_person_nothing_is_asked_and_the_flags_decide(bubblewrap: Program, tmp_path: Path) -> None:
    garden = project(tmp_path / "garden")
    assert "hi" in bubblewrap.run("chat", "-p", "write a.txt: hi", folder=garden).stdout
    assert (bubblewrap.home / "workspace" / "cli" / "a.txt").exists()
    done = bubblewrap.run("--here", "-p", "write a.txt: hi", folder=garden)
    assert f"{WAITS}, /apply brings it into {garden}" in done.stderr
    assert not (garden / "a.txt").exists()
    unasked = bubblewrap.run("--here", "-p", "/apply", folder=garden, code=5)
    assert "Nothing was applied; the changes wait." in unasked.stdout
    events = [
        json.loads(line)
        for line in bubblewrap.run(
            "--here", "--json", "--yes", "-p", "/apply", folder=garden
        ).stdout.splitlines()
    ]
    assert [event["event"] for event in events] == ["turn_started", "confirm", "turn_finished"]
    assert (garden / "a.txt").read_text() == "hi"
    assert "exclude each other" in bubblewrap.run("--here", "--own", folder=garden, code=2).stderr
    for text in ("first", "second"):
        bubblewrap.run("--here", "--new", "-p", text, folder=garden)
    chats = json.loads(bubblewrap.run("chats", "list", "--json").stdout)
    of_folder = next(one["chat"] for one in chats if one["chat"] != "cli")
    sessions = json.loads(bubblewrap.run("chats", "sessions", of_folder, "--json").stdout)
    first = next(str(one["number"]) for one in sessions if one["text"] == "first")
    bubblewrap.run("--here", "--resume", first, "-p", "again", folder=garden)
    assert f"{first}* " in bubblewrap.run("chats", "sessions", of_folder).stdout
    (bubblewrap.home / "config.toml").write_text('[terminal]\nworkspace = "here"\napply = "auto"\n')
    done = bubblewrap.run("-p", "write b.txt: hi", folder=garden)
    assert f"1 file changed in {garden}: b.txt" in done.stderr
    assert (garden / "b.txt").read_text() == "hi"
    assert "Files: " in bubblewrap.run("--own", "-p", "/status", folder=garden).stdout


def test_changes_survive_a_kill_of_the_daemon_and_are_shown_without_one(
    bubblewrap: Program, tmp_path: Path
) -> None:
    garden = project(tmp_path / "garden")
    bubblewrap.run("--here", "--chat", "work", "-p", f"write a.txt: {'x ' * 50}", folder=garden)
    window = bubblewrap.start("chat", "--chat", "work")
    wait_for(lambda: bubblewrap.run("status", code=None).returncode == 0)
    shown = bubblewrap.run("chats", "diff", "work").stdout
    bubblewrap.kill(window)
    assert bubblewrap.run("chats", "diff", "work").stdout == shown
    assert "+x x x" in shown
    assert bubblewrap.run("chats", "diff", "work", "a.txt", "--stat").stdout == "A a.txt\n"
    bubblewrap.run("--chat", "work", "--yes", "-p", "/apply")
    assert (garden / "a.txt").exists()


async def test_two_windows_see_the_same_changes_and_a_conflict_overwrites_nothing(
    bubblewrap: Program, tmp_path: Path
) -> None:
    garden, other = project(tmp_path / "garden"), project(tmp_path / "other")
    here = (RUMI, "--here")
    async with (
        on_a_terminal(bubblewrap, here, garden) as one,
        on_a_terminal(bubblewrap, here, garden) as two,
        on_a_terminal(bubblewrap, here, other) as third,
    ):
        for person in (one, two, third):
            await person.pty.see("Ctrl-D leaves")
        await say(one, "write old.txt: mine", WAITS)
        await two.pty.see(WAITS)
        await say(third, "/diff", "No changes wait")
        (garden / "old.txt").write_text("yours\n")
        await say(two, "/apply", "Nothing was applied.", "old.txt")
        assert (garden / "old.txt").read_text() == "yours\n"
        await say(two, "/discard old.txt", "(yes/no) ›")
        await say(two, "yes", "Dropped 1 change")
        await say(one, "/diff", "No changes wait")


def test_folders_with_odd_names_and_folders_that_are_gone(bubblewrap: Program, tmp_path: Path) -> None:
    odd = project(Path(os.fsdecode(os.fsencode(tmp_path) + b"/tg \xff\n\x1b[2J")))
    done = bubblewrap.run("--here", "-p", "write a.txt: hi", folder=odd)
    assert "\x1b" not in done.stdout + done.stderr
    assert r"/tg \udcff\n\x1b[2J" in done.stderr
    (tmp_path / "link").symlink_to(odd)
    bubblewrap.run("--here", "--yes", "-p", "/apply", folder=tmp_path / "link")
    assert (odd / "a.txt").read_text() == "hi"
    chats = bubblewrap.run("chats", "list").stdout
    assert re.search(r"^in-tg-2j-[0-9a-f]{8} ", chats, re.MULTILINE)
    gone = tmp_path / "gone"
    for words, code, said in ((["--here"], 2, "does not exist any more"), ([], 0, "")):
        gone.mkdir()
        run = subprocess.run(
            ["sh", "-c", f'rmdir {gone}; exec {RUMI} "$@" -p hi', "sh", *words],
            cwd=gone,
            env=bubblewrap.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (run.returncode, said in run.stderr) == (code, True)


def test_a_chat_keeps_its_folder_and_its_own_files(bubblewrap: Program, tmp_path: Path) -> None:
    garden, other = project(tmp_path / "garden"), project(tmp_path / "other")
    bubblewrap.run("--here", "--chat", "work", "-p", "hello", folder=garden)
    refused = bubblewrap.run("--here", "--chat", "work", "-p", "hello", folder=other, code=None)
    assert refused.returncode in (1, 2)
    assert str(garden) in refused.stderr
    refused = bubblewrap.run("--here", "--chat", "cli", "-p", "hello", folder=other, code=2)
    assert "keeps its own files" in refused.stderr
    bubblewrap.run("--own", "--chat", "mine", "-p", "write a: b", folder=other)
    assert (
        "files of its own"
        in bubblewrap.run("--here", "--chat", "mine", "-p", "x", folder=other, code=None).stderr
    )
    for wrong in (Path("/"), bubblewrap.home):
        assert bubblewrap.run("--here", "-p", "hello", folder=wrong, code=None).returncode in (1, 2)
