"""Signals to all of a box: also to what it starts meanwhile, and to no stranger."""

import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from rumi.sandbox.use import ROUNDS, signal_all


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    made = [subprocess.Popen(["sleep", "60"]) for _ in range(3)]
    yield made
    for process in made:
        process.kill()
        process.wait()


def state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def until(pid: int, wanted: str) -> None:
    for _ in range(500):
        if state(pid) in wanted:
            return
        time.sleep(0.01)
    raise AssertionError(f"{state(pid)} instead of {wanted}")


def test_all_are_paused_and_go_on(sleepers: list[subprocess.Popen[bytes]]) -> None:
    pids = [sleeper.pid for sleeper in sleepers]
    assert signal_all(lambda: pids, signal.SIGSTOP)
    for pid in pids:
        until(pid, "T")
    assert signal_all(lambda: pids, signal.SIGCONT)
    for pid in pids:
        until(pid, "SR")


def test_what_comes_meanwhile_is_met_too(sleepers: list[subprocess.Popen[bytes]]) -> None:
    pids = [sleeper.pid for sleeper in sleepers]
    looks = iter([pids[:1], pids[:2], pids[:2], pids])
    assert signal_all(lambda: next(looks, pids), signal.SIGSTOP)
    for pid in pids:
        until(pid, "T")


def test_a_number_that_a_stranger_has_by_now_is_left_alone(sleepers: list[subprocess.Popen[bytes]]) -> None:
    ours, stranger = sleepers[0].pid, sleepers[1].pid
    looks = iter([[ours, stranger], [ours]])  # the one in the box ended, and its number went to another
    assert signal_all(lambda: next(looks, [ours]), signal.SIGKILL)
    assert sleepers[0].wait() == -signal.SIGKILL
    assert sleepers[1].poll() is None


def test_an_endless_chain_of_new_processes_is_given_up() -> None:
    gone = iter(range(2**22 + 1, 2**22 + 10 * ROUNDS))  # above any pid, so nothing is met
    assert not signal_all(lambda: [next(gone)], signal.SIGSTOP)


def test_processes_that_have_ended_are_no_error() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert signal_all(lambda: [ended.pid], signal.SIGKILL)
