"""Messages that wait in the whole program: windows, status, signals, and an end by kill -9."""

import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import BOUND_S, Program
from tests.cli.test_attach import running_chat
from tests.cli.test_chat import processes, wait_for

pytestmark = pytest.mark.bubblewrap


@pytest.fixture
def home(tmp_path: Path) -> Program:
    env = {
        "RUMI_SANDBOX__BACKEND": "bubblewrap",
        "RUMI_CHAT__WHEN_BUSY": "queue",
        "RUMI_CHAT__MAX_QUEUED": "2",
    }
    return Program(tmp_path / "home", env)


@pytest.fixture
def chat_process(home: Program) -> Iterator["subprocess.Popen[str]"]:
    with running_chat(home) as process:
        yield process


def queued(home: Program, chat: str) -> int:
    tree = json.loads(home.run("status", "--json").stdout)["tree"]
    chats = next(child for child in tree["children"] if child["id"] == "chats")
    return next((child["figures"].get("queued", 0) for child in chats["children"] if child["id"] == chat), 0)


def replies(home: Program) -> list[tuple[str, str]]:
    """Each message with its one reply."""
    database = sqlite3.connect(home.home / "state.db")
    rows = database.execute(
        "SELECT messages.text, coalesce(outbox.text, '') FROM messages LEFT JOIN outbox ON reply = outbox.id"
        " ORDER BY messages.id"
    ).fetchall()
    database.close()
    return rows


@pytest.mark.long
def test_windows_wait_for_each_other_and_a_signal_takes_only_its_own_message_back(
    home: Program, chat_process: "subprocess.Popen[str]"
) -> None:
    one = home.start("chat", "--chat", "one", "-p", "run sleep 6.31; then run echo first")
    wait_for(lambda: processes("sleep 6.31"))
    two = home.start("chat", "--chat", "one", "--json", "-p", "run echo second")
    wait_for(lambda: queued(home, "one") == 1)
    three = home.start("chat", "--chat", "one", "-p", "run echo third")
    wait_for(lambda: queued(home, "one") == 2)
    assert "2 queued" in home.run("status").stdout
    busy = home.run("chat", "--chat", "one", "-p", "run echo fourth", code=1)
    assert "The queue is full (2)" in busy.stdout
    three.send_signal(signal.SIGINT)
    assert three.communicate(timeout=BOUND_S)[0] == ""
    assert three.returncode == 130
    assert processes("sleep 6.31"), "another window's turn goes on"
    assert "first" in one.communicate(timeout=BOUND_S)[0]
    events = [json.loads(line) for line in two.communicate(timeout=BOUND_S)[0].splitlines()]
    assert (one.returncode, two.returncode) == (0, 0)
    assert events[0] | {"time": ""} == {
        "event": "queued", "chat": "one", "turn": events[1]["turn"], "time": "", "place": 1,
        "text": "⏳ Queued (1 of 2). It comes after this turn; /queue shows and drops what waits.",
    }  # fmt: skip
    assert [event["event"] for event in events[1:]][:1] == ["turn_started"]
    wait_for(lambda: all(text for _, text in replies(home)))
    assert dict(replies(home))["run echo third"] == "⏹ Stopped."


def test_stop_from_outside_says_what_comes_next(home: Program, chat_process: "subprocess.Popen[str]") -> None:
    one = home.start("chat", "--chat", "one", "-p", "run sleep 632")
    wait_for(lambda: processes("sleep 632"))
    two = home.start("chat", "--chat", "one", "-p", "run echo second")
    wait_for(lambda: queued(home, "one") == 1)
    said = home.run("stop", "one").stdout
    assert said.startswith("⏹ Stopped.\n\n1 message waits and comes next: “run echo second”.")
    one.communicate(timeout=BOUND_S)
    assert "second" in two.communicate(timeout=BOUND_S)[0]
    assert (one.returncode, two.returncode) == (130, 0)


def test_stop_all_from_outside_stops_every_chat_and_leaves_no_process(home: Program) -> None:
    assert home.run("stop", "--all").stdout == "Nothing is running.\n"
    with running_chat(home):
        chats = [home.start("chat", "--chat", f"c{number}", "-p", "run sleep 635") for number in range(4)]
        wait_for(lambda: len(processes("sleep 635")) == 4)
        said = home.run("stop", "--all").stdout
        assert said == "⏹ Stopped 4 turns and 0 tasks. No process is left.\n"
        assert not processes("sleep 635")
        for chat in chats:
            chat.communicate(timeout=BOUND_S)
            assert chat.returncode == 130
        assert home.run("stop", "--all").stdout == "⏹ Stopped 0 turns and 0 tasks. No process is left.\n"


@pytest.mark.long
def test_after_kill_9_the_turn_asks_and_what_waited_runs(home: Program) -> None:
    with running_chat(home):
        one = home.start("chat", "--chat", "one", "-p", "run sleep 633")
        wait_for(lambda: processes("sleep 633"))
        two = home.start("chat", "--chat", "one", "-p", "run echo second")
        wait_for(lambda: queued(home, "one") == 1)
        os.kill(home.serving(), signal.SIGKILL)
        for window, code in ((one, 130), (two, 0)):
            window.communicate(timeout=BOUND_S)
            assert window.returncode == code
    (first, asked), (second, answer) = replies(home)
    assert first == "run sleep 633"
    assert asked.startswith("⚠️ I was restarted while working on: “run sleep 633”")
    assert "bash: sleep 633" in asked
    assert second == "run echo second"
    assert "second" in answer
