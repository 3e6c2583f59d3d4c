"""Files and typed commands in the whole program: what gets into the sandbox, exit codes, and a kill."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.cli.test_chat import processes, wait_for

pytestmark = pytest.mark.bubblewrap


@pytest.mark.long
def test_a_file_is_in_the_sandbox_and_a_command_has_its_own_exit_code(
    bubblewrap: Program, tmp_path: Path
) -> None:
    data = tmp_path / "data.csv"
    data.write_text("a\n" * 30)
    done = bubblewrap.run("chat", "-f", str(data), "-p", "run wc -l data.csv")
    assert "30 data.csv" in done.stdout
    assert "📎 data.csv, 60 B" in done.stderr
    data.write_text("b\n" * 40)
    done = bubblewrap.run("chat", "-f", str(data), "-f", str(data), "-p", "run wc -l data.csv data-2.csv")
    assert "stored as /workspace/data-2.csv" in done.stderr
    assert "70 total" in done.stdout
    ran = bubblewrap.run("chat", "-p", "!wc -l data.csv; exit 7", code=7)
    assert ran.stdout == "30 data.csv\n"
    bubblewrap.run("chat", "-p", "!reboot", code=126)
    lines = bubblewrap.run("chat", "--json", "-p", "!ls").stdout.splitlines()
    events = {one["event"]: one for one in map(json.loads, lines)}
    assert (events["tool_result"]["exit_code"], events["turn_finished"]["reason"]) == (0, "complete")
    audit = (bubblewrap.home / "logs" / "audit.jsonl").read_text().splitlines()
    commands = [one["command"] for one in map(json.loads, audit) if one["event"] == "command"]
    assert commands[-2:] == ["wc -l data.csv; exit 7", "ls"]
    missing = bubblewrap.run("chat", "-p", f"see @{tmp_path}/dta.csv", code=2)
    assert "data.csv?" in missing.stderr


@pytest.mark.long
def test_a_killed_command_is_not_repeated_and_has_one_reply_and_its_file_stays(
    bubblewrap: Program, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("uno")
    bubblewrap.run("chat", "-c", "-f", str(tmp_path / "a.txt"), "-p", "hello")
    killed = bubblewrap.start("chat", "-c", "-p", "!echo x >> seen; sleep 617")
    wait_for(lambda: processes("sleep 617"))
    bubblewrap.kill(killed)
    wait_for(lambda: not processes("sleep 617"))
    done = bubblewrap.run("chat", text="!cat seen a.txt\n")
    assert "I was restarted while working on: “!echo x >> seen; sleep 617”" in done.stdout + done.stderr
    assert done.stdout.endswith("x\nuno\n")
    with sqlite3.connect(bubblewrap.home / "state.db") as db:
        replies = db.execute("SELECT reply FROM messages ORDER BY id").fetchall()
    assert all(reply for (reply,) in replies)
    assert len(replies) == 3
