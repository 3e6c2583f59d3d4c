"""`rumi status` on a running Rumi, from outside: as a tree, as JSON, watched, and by a signal."""

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import BOUND_S, RUMI, Program

pytestmark = pytest.mark.bubblewrap


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A chat in the middle of a command."""
    program = Program(tmp_path_factory.mktemp("status") / "home", {"RUMI_SANDBOX__BACKEND": "bubblewrap"})
    chat = program.start("chat", "--json", "-p", "run sleep 600")
    assert chat.stdout is not None
    try:
        while json.loads(chat.stdout.readline())["event"] != "tool_call":
            pass
        yield program
    finally:
        chat.terminate()
        chat.communicate(timeout=BOUND_S)


def node(status: dict[str, object], *path: str) -> dict[str, object]:
    found: dict[str, object] = status["tree"]  # type: ignore[assignment]
    for id in path:
        found = next(child for child in found["children"] if child["id"] == id)  # type: ignore[attr-defined]
    return found


def test_the_dump_names_the_tool_that_runs_its_age_and_the_container(running: Program) -> None:
    status = json.loads(running.run("status", "--json").stdout)
    assert (status["version"], status["sandbox"]["engine"]) == (3, "bubblewrap")
    assert status["databases"]["state.db"] > 0
    assert {child["id"] for child in status["tree"]["children"]} >= {"journal", "memory", "models", "chats"}
    metrics = node(status, "chats", "cli")["figures"]
    assert isinstance(metrics, dict)
    (tool,) = metrics["tools"]
    assert (tool["name"], tool["what"], metrics["question"]) == ("bash", "sleep 600", False)
    assert 0 < tool["age_s"] < 100
    assert metrics["container"] == node(status, "sandboxes", "sandbox:cli")["figures"]["container"]  # type: ignore[index]
    again = json.loads(running.run("status", "--json").stdout)
    assert node(again, "chats", "cli")["figures"]["tools"][0]["age_s"] > tool["age_s"]  # type: ignore[index]


def test_the_tree_fits_and_names_what_hangs(running: Program) -> None:
    shown = running.run("status").stdout
    assert "in bash sleep 600" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_a_signal_writes_status_and_stacks_into_the_log(running: Program) -> None:
    pid = json.loads(running.run("status", "--json").stdout)["pid"]
    os.kill(pid, signal.SIGUSR1)
    log, until = running.home / "logs" / "rumi.jsonl", time.monotonic() + 20
    while not log.exists() or "asked by SIGUSR1" not in log.read_text():
        assert time.monotonic() < until
        time.sleep(0.05)
    line = next(line for line in log.read_text().splitlines() if "asked by SIGUSR1" in line)
    dump = json.loads(json.loads(line)["message"].removeprefix("asked by SIGUSR1: "))
    assert dump["status"]["version"] == 3
    assert any("rumi.chats.chat.Chat._work" in task["task"] for task in dump["tasks"])


def test_watched_on_a_terminal_a_chat_is_selected_and_stopped_with_keys(running: Program) -> None:
    ours, theirs = pty.openpty()
    env = {**running.environment(), "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "40"}
    watch = subprocess.Popen([RUMI, "status", "--watch"], stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    try:
        seen = _read_until(ours, "in bash sleep 600")
        assert "q quit" in seen or _read_until(ours, "q quit")
        os.write(ours, b"x")
        _read_until(ours, "Select a chat first")
        os.write(ours, b"\x1b[B")
        os.write(ours, b"x")
        _read_until(ours, "Stopped.")
        os.write(ours, b"q")
        assert watch.wait(BOUND_S) == 0
    finally:
        watch.kill()
        watch.wait()
        os.close(ours)


def test_without_a_running_rumi_status_is_one_line_and_exit_1(tmp_path: Path) -> None:
    for words in (("status",), ("status", "--json"), ("status", "--watch")):
        done = Program(tmp_path / "home").run(*words, code=1)
        assert done.stderr.startswith("rumi: No Rumi is running on ")
        assert done.stdout == ""


def _read_until(descriptor: int, wanted: str) -> str:
    seen, until = "", time.monotonic() + 30
    while wanted not in seen:
        assert time.monotonic() < until, seen
        seen += os.read(descriptor, 65_536).decode("utf-8", "replace")
    return seen
