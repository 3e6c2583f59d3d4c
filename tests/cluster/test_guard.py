"""The program that ends a worker whose lease has ended while it was paused."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.conftest import ROOT

PROGRAM = """
import sys, time
sys.path.insert(0, "rumi/cluster")  # alone: the package takes long to load
from guard import Guard
guard = Guard()
guard(float(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    time.sleep(0.2)
    guard(float(sys.argv[1]))
print(guard._popen.pid, flush=True)
sys.stdin.read()
guard(float("inf"))
if len(sys.argv) > 3:
    time.sleep(float(sys.argv[3]))
guard.close()
"""


def guarded(*words: str) -> "subprocess.Popen[bytes]":
    """Start a process that has a guard."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    )


def until_gone(pid: int) -> None:
    end = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < end, "the guard is left"
        time.sleep(0.01)


def test_a_paused_process_is_killed_when_its_time_is_over() -> None:
    with guarded("0.5", "0") as process:
        assert process.stdout is not None
        guard = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGSTOP)
        assert process.wait(10) == -signal.SIGKILL
        until_gone(guard)


def test_a_process_that_renews_lives_and_one_that_ends_leaves_no_guard() -> None:
    with guarded("0.5", "5", "0.7") as process:  # it renews for a second, and then needs no guard for a while
        assert process.stdout is not None
        assert process.stdin is not None
        guard = int(process.stdout.readline())
        process.stdin.close()
        assert process.wait(10) == 0
        until_gone(guard)


def test_a_killed_process_leaves_no_guard() -> None:
    with guarded("60", "0") as process:
        assert process.stdout is not None
        guard = int(process.stdout.readline())
        process.kill()
        until_gone(guard)
