"""`rumi debug logs` on logs as the program writes them, put aside and torn ones too."""

import json
import os
import pty
import subprocess
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from rumi.platform.logs.audit import AuditLog
from rumi.platform.logs.entries import Wanted, follow
from rumi.platform.logs.lines import line_of
from rumi.platform.redact import Redactor
from tests.cli.program import RUMI, Program

DAY = 86_400.0
NOON = 1_790_164_800.0
"""2026-09-23, 12:00 in UTC."""


class Log:
    """An audit log whose clock is moved by hand."""

    def __init__(self, home: Path, max_mb: float = 10) -> None:
        self.now = NOON
        self.path = home / "logs" / "audit.jsonl"
        self._log = AuditLog(self.path, max_mb, 9, Redactor(()), now=lambda: self.now)

    def write(self, event: str, **fields: Any) -> None:
        self._log.write(event, **fields)

    def turn(self, chat: str, number: int, *, took_s: float = 2.0, reason: str = "complete") -> None:
        turn = f"t{number}"
        self._log.write("turn_started", chat_id=chat, turn=turn)
        self.command(chat, turn, f"echo {number}")
        self.now += took_s
        self._log.write("turn_finished", chat_id=chat, turn=turn, stopped_reason=reason, prompt_tokens=90,
                        completion_tokens=10, cached_tokens=64)  # fmt: skip

    def command(self, chat: str, turn: str, command: str, ok: bool = True) -> None:
        self._log.write("command", chat_id=chat, turn=turn, command=command, exit_code=0 if ok else None,
                        duration_ms=500, tool="bash", ok=ok)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Program:
    return Program(tmp_path / "home", {"TZ": "UTC"})


def test_entries_are_read_a_line_each_through_put_aside_files_and_torn_lines(home: Program) -> None:
    log = Log(home.home, max_mb=0.002)
    for number in range(1, 21):
        log.turn("tg1" if number % 2 else "cli", number)
    with log.path.open("ab") as file:
        file.write(b'{"time":"2026-09-23T13:00:00.000Z","event":"command","chat_id":"cli","comm')
    assert log.path.with_name("audit.jsonl.3").exists()
    lines = home.run("logs", "--event", "command").stdout.splitlines()
    assert [line.split("$ echo ")[1].split()[0] for line in lines] == [str(n) for n in range(1, 21)]
    assert lines[0] == "09-23 12:00:00 tg1            · $ echo 1 [exit 0 · 500 ms]"
    one = home.run("logs", "--chat", "cli", "--since", "2026-09-23T12:00:36").stdout.splitlines()
    assert [line.split(maxsplit=3)[3] for line in one] == [
        "■ turn t18: complete, 100 tokens (64 cached)", "▶ turn t20 begins", "· $ echo 20 [exit 0 · 500 ms]",
        "■ turn t20: complete, 100 tokens (64 cached)",
    ]  # fmt: skip
    entries = [json.loads(line) for line in home.run("logs", "--json", "-n", "2").stdout.splitlines()]
    assert [entry["event"] for entry in entries] == ["command", "turn_finished"]


def test_waits_crashes_restarts_and_giving_up_are_lines_too(home: Program) -> None:
    log = Log(home.home)
    log.write("waiting", chat_id="cli", turn="t1", seconds=12.4, why="rate limit")
    log.write("queued", chat_id="cli", turn="t2", message=2, place=1)
    for event, error in (("crashed", "ValueError: no"), ("restarted", ""), ("failed", "ValueError: no")):
        log.write(event, chat_id="cli", actor="rumi/chats/cli", incarnation=1, error=error)
    log.write("crashed", chat_id="", actor="rumi/models", incarnation=1, error="OSError")
    log.turn("cli", 1, reason="crashed")
    lines = home.run("logs", "-n", "9").stdout.splitlines()
    assert [line[15:].strip() for line in lines[:6]] == [
        "cli            ⏳ waits 12 s: rate limit",
        "cli            ⏳ a message waits, place 1",
        "cli            ✗ rumi/chats/cli crashed: ValueError: no",
        "cli            ↻ rumi/chats/cli was restarted",
        "cli            ✗ rumi/chats/cli gave up: ValueError: no",
        "–              ✗ rumi/models crashed: OSError",
    ]
    summary = [json.loads(line) for line in home.run("logs", "--summary", "--json").stdout.splitlines()]
    assert [(day["chat"], day["turns"], day["failures"]) for day in summary] == [("", 0, 1), ("cli", 1, 1)]


def test_a_line_in_a_pipe_is_whole_and_obeys_no_escape(home: Program) -> None:
    Log(home.home).command("c" * 64, "t1", "printf '\x1b[31m" + "宽" * 90 + "'", ok=False)
    (line,) = home.run("logs").stdout.splitlines()
    assert "\x1b" not in line
    assert line.startswith(f"09-23 12:00:00 {'c' * 64} ✗ 500 ms · $ printf")
    assert "宽" * 90 in line
    assert "c" * 64 in home.run("logs", "--summary").stdout


def test_a_line_on_a_terminal_has_its_width() -> None:
    entry = {"event": "command", "time": "2026-09-23T12:00:00Z", "chat_id": "c" * 64, "command": "宽" * 90}
    line = line_of(entry, "en", width=80)
    assert cell_len(line) <= 80
    assert line.endswith("…")


def test_the_summary_counts_by_chat_and_day(home: Program) -> None:
    log = Log(home.home)
    log.turn("cli", 1, took_s=2)
    log.turn("cli", 2, took_s=60, reason="model_error")
    log.command("tg1", "t3", "false", ok=False)
    log.now += DAY
    log.turn("cli", 4)
    days = [json.loads(line) for line in home.run("logs", "--summary", "--json").stdout.splitlines()]
    assert days[0] == {"day": "2026-09-23", "chat": "cli", "turns": 2, "tools": 2, "failures": 1,
                       "tokens": 200, "cached_tokens": 128, "turns_s": 62.0, "tools_s": 1.0,
                       "longest_s": 60.0}  # fmt: skip
    assert [(day["day"], day["chat"], day["failures"]) for day in days[1:]] == [
        ("2026-09-23", "tg1", 1), ("2026-09-24", "cli", 0),
    ]  # fmt: skip
    home.env["LANG"] = "es_AR.UTF-8"
    head, first, *_ = home.run("logs", "--summary").stdout.splitlines()
    assert head.split() == ["día", "chat", "turnos", "herr.", "falló", "tokens", "tiempo", "el", "mayor"]
    assert first.split(maxsplit=6)[:6] == ["2026-09-23", "cli", "2", "2", "1", "200"]
    assert first.endswith("1 min 02 s 1 min 00 s")
    assert max(len(head), len(first)) <= 80


def test_what_comes_is_followed_through_a_rotation_with_colours_on_a_terminal(home: Program) -> None:
    log = Log(home.home, max_mb=0.002)
    log.turn("cli", 1)
    ours, theirs = pty.openpty()
    follow = subprocess.Popen([RUMI, "logs", "-f", "--event", "command"], stdout=theirs, stderr=theirs,
                              stdin=theirs, env={**home.environment(), "TERM": "xterm"})  # fmt: skip
    os.close(theirs)
    try:
        seen = _read_until(ours, "echo 1 ")
        assert "\x1b[" in seen
        time.sleep(0.3)  # it has opened the file before it read it; then it looks for more
        for number in range(2, 14):
            log.turn("cli", number)
            time.sleep(0.05)
        seen += _read_until(ours, "echo 13 ")
        assert log.path.with_name("audit.jsonl.2").exists()
        told = [line.split("$ echo ")[1].split()[0] for line in seen.splitlines() if "$ echo" in line]
        assert told == [str(number) for number in range(1, 14)]
    finally:
        follow.kill()
        follow.wait()
        os.close(ours)


async def test_what_is_written_between_the_last_lines_and_the_next_comes_once(tmp_path: Path) -> None:
    log = Log(tmp_path, max_mb=0.001)
    log.turn("cli", 1)
    there, coming = follow(log.path, Wanted(events=frozenset({"command"})))
    for number in range(2, 8):
        log.turn("cli", number)
    assert log.path.with_name("audit.jsonl.2").exists()
    assert [entry["turn"] for entry in there] == ["t1"]
    async with aclosing(coming):
        assert [(await anext(coming))["turn"] for _ in range(6)] == [f"t{number}" for number in range(2, 8)]


def test_lines_that_are_none_of_ours_stop_nobody_from_reading_the_others(home: Program) -> None:
    log = Log(home.home)
    log.turn("cli", 1)
    strange = (
        *({"event": "turn_finished", "time": when} for when in (5, "0001-01-01T00:00:00+14:00", None)),
        {"event": "command", "time": "9999-12-31T23:59:59-14:00", "chat_id": ["x"], "duration_ms": "12"},
        {"event": "turn_finished", "prompt_tokens": 10**400, "completion_tokens": float("nan")},
        *({"event": "waiting", "seconds": "soon"}, {"event": ["x"]}, ["event"]),
    )
    with log.path.open("a", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in strange)
    log.turn("cli", 2)
    for zone in ("America/Lima", "Asia/Tokyo"):
        home.env["TZ"] = zone
        assert "turn t2: complete" in home.run("logs").stdout.splitlines()[-1]
        assert "turn t2: complete" in home.run("logs", "--chat", "cli", "--since", "2026-01-01").stdout
        assert '"turns": 2' in home.run("logs", "--summary", "--json").stdout


def test_wrong_options_and_an_empty_log_are_told_in_a_line(home: Program) -> None:
    assert "has no such entries" in home.run("logs").stderr
    for moment in ("yesterday", "999999w", "²d", "0001-01-01"):
        assert "is not a time" in home.run("logs", "--since", moment, code=2).stderr
    assert "goes with neither" in home.run("logs", "--summary", "-f", code=2).stderr


def _read_until(descriptor: int, wanted: str) -> str:
    seen, until = "", time.monotonic() + 30
    while wanted not in seen:
        assert time.monotonic() < until, seen
        seen += os.read(descriptor, 65_536).decode("utf-8", "replace")
    return seen
