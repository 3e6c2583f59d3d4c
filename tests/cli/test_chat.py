"""`rumi chat` from outside: one turn, lines from a pipe, JSON, exit codes, kills."""

import json
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import containers
from tests.cli.program import BOUND_S, Program


def wait_for(what: Callable[[], object], bound_s: float = BOUND_S) -> None:
    """Real processes need real time: look until it is so."""
    until = time.monotonic() + bound_s
    while not what():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_pipe_gets_the_answers_line_by_line(program: Program) -> None:
    done = program.run("chat", text="run echo hola\n/exit\n")
    assert "hola" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert "No GROQ_API_KEY" in done.stderr


def test_one_turn_with_three_steps_and_a_second_that_sees_the_file(program: Program) -> None:
    events = program.events("-p", "write a.txt: one; then run wc -c a.txt; then read a.txt")
    calls = [e["arguments"]["command"] for e in events if e["event"] == "tool_call"]
    assert calls == ["tee a.txt", "wc -c a.txt", "cat a.txt"]
    assert [e["exit_code"] for e in events if e["event"] == "tool_result"] == [0, 0, 0]
    assert events[-1]["event"] == "turn_finished"
    assert events[-1]["reason"] == "complete"
    again = program.events("-p", "read a.txt")
    assert "one" in again[-1]["answer"]
    with sqlite3.connect(program.home / "state.db") as db:
        turns = db.execute("SELECT count(DISTINCT turn), count(DISTINCT session) FROM history").fetchone()
    assert turns == (2, 2)


def test_a_file_is_edited_and_the_diff_is_told_but_not_logged(program: Program) -> None:
    words = "write a.txt: one\ntwo\n; then edit a.txt: two => dos; then edita a.txt: three => tres"
    events = program.events("-p", words)
    tee, edited, missed = (e for e in events if e["event"] == "tool_result")
    assert "diff" not in tee
    assert edited["content"] == "edited a.txt: +1 −1, line 2"
    assert edited["diff"] == "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+dos"
    assert (missed["ok"], missed["exit_code"]) == (True, 1)
    assert "old_text is not there" in missed["content"]
    assert program.events("-p", "read a.txt")[-1]["answer"].count("dos") == 1
    line = next(line for line in program.audit() if line.get("tool") == "edit_file")
    assert line["event"] == "tool"
    assert (line["command"], line["argv"]) == ("a.txt", ["edit_file", "/workspace/a.txt"])
    assert "dos" not in (program.home / "logs/audit.jsonl").read_text()


@pytest.mark.long
@pytest.mark.bubblewrap
def test_one_turn_has_a_history_of_its_own_unless_a_chat_is_named_or_gone_on_with(
    bubblewrap: Program,
) -> None:
    for words in ((), ("-c",), (), ("--chat", "cli"), ("--chat", "work"), ("--continue",)):
        bubblewrap.run("chat", *words, "-p", "hello")
    bubblewrap.run("chat", text="hello\n")
    with sqlite3.connect(bubblewrap.home / "state.db") as db:
        rows = db.execute("SELECT chat, session FROM history GROUP BY turn ORDER BY min(id)").fetchall()
    cli = [session for chat, session in rows if chat == "cli"]
    assert cli == [2, 1, 3, 1, 1, 1]


def test_a_failing_command_gives_its_code_and_its_error_output(program: Program) -> None:
    (result,) = [e for e in program.events("-p", "run ls /nonexistent") if e["event"] == "tool_result"]
    assert result["ok"]
    assert result["exit_code"] == 2
    assert "No such file" in result["content"]


def test_a_command_over_time_is_ended_and_keeps_its_output(program: Program) -> None:
    program.env["RUMI_SANDBOX__TIMEOUT_S"] = "1"
    events = program.events("-p", 'run sh -c "echo begun; sleep 600"')
    (result,) = [e for e in events if e["event"] == "tool_result"]
    assert not result["ok"]
    assert "timed out" in result["content"]
    assert "begun" in result["content"]


@pytest.mark.bubblewrap
def test_with_the_open_policy_every_line_runs(bubblewrap: Program) -> None:
    loop = "run for i in {1..3}; do eval echo $i; done | wc -l"
    refused = bubblewrap.run("chat", "-p", loop).stdout
    assert "what `eval $i` starts" in refused
    bubblewrap.env["RUMI_SANDBOX__POLICY"] = "open"
    (result,) = [e for e in bubblewrap.events("-p", loop) if e["event"] == "tool_result"]
    assert (result["exit_code"], result["content"].split()[-1]) == (0, "3")
    ran = [line["argv"] for line in bubblewrap.audit() if line.get("argv")]
    assert ran == [["bash", "-c", loop.removeprefix("run ")]]


@pytest.mark.bubblewrap
@pytest.mark.parametrize(
    ("command", "ok"),
    [
        ("run cat a | wc -l", True),
        ("run cat a |& wc -l", True),
        ("run x=a; $x b", False),
        ("run curl x", False),
        ('run sh -c "cat a.txt | wc -l"', True),
        ('run echo "a | b"', True),
    ],
)
def test_the_policy_judges_commands(bubblewrap: Program, command: str, ok: bool) -> None:
    (result,) = [e for e in bubblewrap.events("-p", command) if e["event"] == "tool_result"]
    assert result["ok"] is ok


@pytest.mark.bubblewrap
def test_exit_codes_tell_how_it_ended(bubblewrap: Program, tmp_path: Path) -> None:
    bubblewrap.run("chat", "-p", "run echo 1; then run echo 1; then run echo 1", code=3)
    assert bubblewrap.audit()[-1]["stopped_reason"] == "repeated_call"
    bubblewrap.run("chat", "--chat", "tg1", "-p", "hi", code=2)
    bubblewrap.run("chat", "--chat", "no spaces", "-p", "hi", code=2)
    bubblewrap.run("chat", "--model", "nobody:nothing", "-p", "hi", code=2)
    bubblewrap.run("chat", "--nonsense", code=2)
    bubblewrap.run("frobnicate", code=2)
    (bubblewrap.home / "config.toml").write_text("[agent]\nmax_turn = 3\n")
    done = bubblewrap.run("chat", "-p", "hi", code=2)
    assert "max_turn" in done.stderr


@pytest.mark.bubblewrap
def test_an_interrupted_turn_exits_130_and_leaves_nothing(bubblewrap: Program) -> None:
    chat = bubblewrap.start("chat", "-p", "run sleep 612")
    wait_for(lambda: "sleep 612" in (bubblewrap.run("status", code=None).stdout))
    chat.send_signal(signal.SIGINT)
    out, err = chat.communicate(timeout=BOUND_S)
    assert chat.returncode == 130, out + err
    assert "Stopped" in out + err
    assert not processes("sleep 612")
    last = bubblewrap.audit()
    assert [line["argv"] for line in last if line["event"] == "command"] == [["sleep", "612"]]
    assert last[-1]["stopped_reason"] == "stopped"


def processes(words: str) -> list[str]:
    found = subprocess.run(["pgrep", "-f", f"^{words}"], capture_output=True, text=True, check=False)
    return found.stdout.split()


@pytest.mark.bubblewrap
def test_a_home_that_is_held_is_asked_through_its_holder(bubblewrap: Program) -> None:
    first = bubblewrap.start("chat")
    try:
        wait_for(lambda: bubblewrap.run("status", code=None).returncode == 0)
        bubblewrap.run("chat", "-p", "run date")
        held = f"{bubblewrap.home} is held by rumi chat (process {bubblewrap.serving()})."
        assert held in bubblewrap.run("sandbox", "clean", code=2).stderr
        status = json.loads(bubblewrap.run("status", "--json").stdout)
        assert next(child["id"] for child in status["tree"]["children"]) == "journal"
        assert bubblewrap.run("stop", "cli").stdout == "Nothing is running.\n"
    finally:
        first.communicate("/exit\n", timeout=BOUND_S)
    assert first.returncode == 0
    assert "No Rumi is running" in bubblewrap.run("status", code=1).stderr


@pytest.mark.bubblewrap
def test_stop_in_a_pipe_goes_out_at_once_and_other_lines_wait(bubblewrap: Program) -> None:
    done = bubblewrap.run("chat", text="run sleep 600\n/stop\nrun echo later\n")
    assert done.stdout.index("Stopped") < done.stdout.index("later")


@pytest.mark.docker
def test_containers_end_with_the_program_and_by_themselves_after_a_kill(
    docker: Program, tmp_path: Path
) -> None:
    other = Program(tmp_path / "other", docker.env)
    neighbour = other.start("chat")
    assert neighbour.stdin is not None
    try:
        neighbour.stdin.write("run sleep 600\n")
        neighbour.stdin.flush()
        docker.run("chat", "-p", "run echo hi")
        ours = (docker.home / "installation").read_text().strip()
        assert containers(ours) == []
        killed = docker.start("chat", "-p", "run sleep 600")
        wait_for(lambda: "running sleep" in docker.run("status", code=None).stdout)
        wait_for(lambda: (other.home / "installation").exists())
        theirs = (other.home / "installation").read_text().strip()
        wait_for(lambda: containers(theirs))
        docker.kill(killed)
        wait_for(lambda: not containers(ours))
        done = docker.run("chat", "-p", "hello")
        assert "I was restarted while working on: “run sleep 600”" in done.stderr + done.stdout
        assert containers(ours) == []
        assert containers(theirs) != []
    finally:
        neighbour.send_signal(signal.SIGTERM)
        neighbour.communicate(timeout=BOUND_S)
    assert containers(theirs) == []


@pytest.mark.long
@pytest.mark.bubblewrap
def test_a_kill_leaves_no_process_and_the_turn_is_reported_and_retried(bubblewrap: Program) -> None:
    killed = bubblewrap.start("chat", "-p", "run sleep 613")
    wait_for(lambda: processes("sleep 613"))
    bubblewrap.kill(killed)
    wait_for(lambda: not processes("sleep 613"))
    bubblewrap.env["RUMI_SANDBOX__TIMEOUT_S"] = "1"
    done = bubblewrap.run("chat", text="/retry\n")
    assert "I was restarted while working on: “run sleep 613”" in done.stdout + done.stderr
    assert "took too long" in done.stdout
    again = bubblewrap.run("chat", text="/help\n")
    assert "restarted" not in again.stdout + again.stderr


@pytest.mark.bubblewrap
def test_new_begins_a_session_and_keeps_the_old_history_stored(bubblewrap: Program) -> None:
    bubblewrap.run("chat", "-c", "-p", "hello there")
    bubblewrap.run("chat", "--new", "-p", "hello again")
    with sqlite3.connect(bubblewrap.home / "state.db") as db:
        sessions = db.execute("SELECT DISTINCT session FROM history ORDER BY session").fetchall()
    assert sessions == [(1,), (2,)]


@pytest.mark.long
@pytest.mark.bubblewrap
def test_what_is_spoken_is_the_languages(bubblewrap: Program) -> None:
    bubblewrap.env["LANG"] = "es_AR.UTF-8"
    assert bubblewrap.run("chat", text="/stop\n").stdout.strip() == "No hay ninguna operación en curso."


@pytest.mark.long
@pytest.mark.bubblewrap
def test_output_without_end_keeps_head_and_tail(bubblewrap: Program) -> None:
    bubblewrap.env["RUMI_SANDBOX__TIMEOUT_S"] = "2"
    (result,) = [e for e in bubblewrap.events("-p", "run yes") if e["event"] == "tool_result"]
    assert result["truncated"]
    assert len(result["content"]) <= 12_000
    assert "bytes came, the first and the last part are kept" in result["content"]
