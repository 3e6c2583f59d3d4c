"""`rumi import`: a preview, a question, a report."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from rumi.platform.home import Home
from tests.app.moving.building import BREAD, SUM, conversation, export, home_of, node
from tests.cli.program import Program


@pytest.fixture
def rumi(tmp_path: Path) -> Program:
    return Program(tmp_path / "home", {"RUMI_MODEL__DEFAULT": "offline", "RUMI_MODEL__FALLBACKS": "[]"})


def test_a_preview_shows_what_will_and_what_will_not_be_taken(rumi: Program, tmp_path: Path) -> None:
    foreign = home_of("nanobot", tmp_path)
    shown = rumi.run("import", "nanobot", str(foreign), "--dry-run").stdout
    assert shown.startswith(f"From nanobot, {foreign}:\n")
    assert "  sessions     2 new (7 turns)" in shown
    assert "  skills       1 new (off)" in shown
    assert "Not taken over:\n" in shown
    assert (
        "  settings: MCP time: you add servers of tools yourself: rumi mcp add time -- uvx mcp-server-time"
        in shown
    )
    assert rumi.run("chats", "list").stdout == ""
    done = rumi.run("import", "nanobot", str(foreign), code=2)
    assert done.stderr.endswith("Nothing was imported. Use --yes to import without a question.\n")


def test_what_was_imported_is_listed_and_found(rumi: Program, tmp_path: Path) -> None:
    found = json.loads(
        rumi.run("import", "chatgpt", str(export(tmp_path / "e.zip", BREAD, SUM)), "-y", "--json").stdout
    )
    assert (found["parts"]["sessions"]["new"], found["parts"]["memory"]["new"]) == (2, 1)
    bread, total = found["chats"]
    listed = rumi.run("chats", "list").stdout
    assert f"{bread} " in listed
    assert "2023-11-14" in listed
    assert "Bread" in listed
    shown = rumi.run("chats", "show", total).stdout
    assert '→ python {"text": "print(1+2)"}' in shown
    assert bread in rumi.run("chats", "search", "bread rise").stdout
    assert "taken over from chatgpt, to=bio" in rumi.run("memory", "list", "--sources").stdout
    again = rumi.run("import", "chatgpt", str(tmp_path / "e.zip"), "-y").stdout
    assert "  sessions  2 here already\n" in again
    assert again.endswith("There is nothing new to take over.\n")


@pytest.mark.long
@pytest.mark.bubblewrap
def test_an_imported_session_goes_on(bubblewrap: Program, tmp_path: Path) -> None:
    bubblewrap.env |= {"RUMI_MODEL__DEFAULT": "offline", "RUMI_MODEL__FALLBACKS": "[]"}
    done = bubblewrap.run("import", "chatgpt", str(export(tmp_path / "e.zip", BREAD)), "-y", "--json")
    (bread,) = json.loads(done.stdout)["chats"]
    bubblewrap.run("-p", "2+2", "--chat", bread)
    (session,) = bubblewrap.run("chats", "sessions", bread).stdout.splitlines()
    assert session.startswith("1*")
    assert "3 messages" in session


def test_a_locked_home_is_left_alone_but_a_preview_is_shown(rumi: Program, tmp_path: Path) -> None:
    foreign = home_of("hermes", tmp_path)
    with Home(rumi.home).make().lock("rumi serve"):
        refused = rumi.run("import", "hermes", str(foreign), "-y", code=2).stderr
        assert "rumi serve" in refused
        preview = rumi.run("import", "hermes", str(foreign), "--dry-run")
        assert "6 new (6 turns)" in preview.stdout
        assert "does not tell what is here already" in preview.stderr
    assert not (rumi.home / "state.db").exists()


def test_bots_of_openbot_come_by_their_importer(rumi: Program, tmp_path: Path) -> None:
    bot = tmp_path / ".openbot/bots/tidy"
    bot.mkdir(parents=True)
    (bot / "config.md").write_text("---\ngoal: tidy the folder\n---\nTidy up.\n")
    assert (
        "  bots  1 new  tidy\n"
        in rumi.run("import", "openbot", str(tmp_path / ".openbot"), "--dry-run").stdout
    )
    rumi.run("import", "openbot", str(tmp_path / ".openbot"), "-y")
    assert "tidy" in rumi.run("bot", "list").stdout
    assert "1 here already" in rumi.run("import", "openbot", str(tmp_path / ".openbot"), "-y").stdout


def test_odd_words_get_a_clear_answer(rumi: Program, tmp_path: Path) -> None:
    assert (
        "is not a part"
        in rumi.run("import", "hermes", str(home_of("hermes", tmp_path)), "--only", "x", code=2).stderr
    )
    rumi.env["HOME"] = str(tmp_path / "nobody")
    assert "There is no home of nanobot here." in rumi.run("import", "nanobot", code=2).stderr
    assert "is not a home of OpenClaw" in rumi.run("import", "openclaw", str(tmp_path), code=2).stderr
    rumi.run("import", "other", code=2)


def test_people_get_rights_with_only_and_yes(rumi: Program, tmp_path: Path) -> None:
    foreign = str(home_of("hermes", tmp_path))
    rumi.run("import", "hermes", foreign, "--yes")
    assert "people" not in (rumi.home / "config.toml").read_text()
    rumi.run("import", "hermes", foreign, "--only", "people", "--yes")
    assert (
        '[people.user22222222]\ntelegram = [22222222]\nrole = "guest"'
        in (rumi.home / "config.toml").read_text()
    )


@pytest.mark.long
def test_ctrl_c_ends_the_reading_of_a_huge_export(rumi: Program, tmp_path: Path) -> None:
    nodes = [
        node(f"n{i}", f"n{i - 1}" if i else None, "user", "long words " * 50, 1.7e9 + i) for i in range(1000)
    ]
    packed = export(tmp_path / "e.zip", *(conversation(f"c{i}", f"Talk {i}", *nodes) for i in range(150)))
    process = rumi.start("import", "chatgpt", str(packed), "-y")
    time.sleep(2.5)
    began = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130
    assert time.monotonic() - began < 5


def test_setup_names_the_command_on_a_fresh_home(rumi: Program, tmp_path: Path) -> None:
    home_of("nanobot", tmp_path)
    rumi.env["HOME"] = str(tmp_path)
    hint = "You also have nanobot. Their conversations and notes can move in: rumi import nanobot"
    assert hint in rumi.run("setup", code=None).stdout
    rumi.run("import", "nanobot", "--yes")
    assert "rumi import" not in rumi.run("setup", code=None).stdout


@pytest.mark.parametrize("only", ["", ",", "people,nobody"])
def test_only_must_name_parts_so_that_nobody_gets_rights_by_chance(
    rumi: Program, tmp_path: Path, only: str
) -> None:
    refused = rumi.run("import", "nanobot", str(home_of("nanobot", tmp_path)), "--only", only, "-y", code=2)
    assert "is not a part. The parts are sessions, memory" in refused.stderr
    assert not (tmp_path / "home" / "config.toml").exists()


def test_the_home_of_an_unknown_user_is_no_home(rumi: Program) -> None:
    refused = rumi.run("import", "nanobot", "~nobody-has-this-name/.nanobot", code=2)
    assert "is not a home of nanobot. Name its folder." in refused.stderr
