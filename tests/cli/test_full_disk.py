"""Whole programs on a disk that is full, read-only, or whose database is gone or locked."""

import json
import os
import re
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import pytest

from tests.cli.program import BOUND_S, Program

pytestmark = pytest.mark.docker


@pytest.fixture
def disk(small_disk: Path, docker: Program) -> Iterator[Program]:
    """A home on the small disk, made by a first turn, with something large in its workspace."""
    program = Program(small_disk / "home", docker.env)
    program.run("chat", "--model", "offline", "-p", "write big.txt: hello")
    (program.home / "workspace" / "cli" / "big.txt").write_bytes(os.urandom(2_000_000))
    yield program
    program.run("sandbox", "clean", code=None)


def fill(program: Program) -> Path:
    """Fill the disk to the last byte, with what is not Rumi's."""
    filler = program.home.parent / "filler"
    with filler.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return filler


def command_in(text: str) -> str:
    """The command that a message says frees room."""
    found = re.search(r"^    (find .*-delete)$", text, re.MULTILINE)
    assert found, text
    return found[1]


def until(condition: Callable[[], Any], within_s: float = 60) -> Any:
    end = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.1)
    return found


def status(program: Program) -> dict[str, Any]:
    done = program.run("status", "--json", code=None)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def send(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def line_with(stream: IO[str] | None, words: str) -> str:
    assert stream is not None
    for line in stream:
        if words in line:
            return line
    raise AssertionError(f"{words} was not said")


def test_a_start_on_a_full_disk_uses_the_reserve_and_says_what_to_delete(
    disk: Program,
) -> None:
    assert (disk.home / "reserve").stat().st_blocks > 0
    fill(disk)
    said = disk.run("chat", "--model", "offline", "-p", "run echo hi", code=1).stderr
    assert "The disk is full. This start has used the reserve" in said
    assert "no message can be taken until there is room" in said
    assert not (disk.home / "reserve").exists()
    subprocess.run(command_in(said), shell=True, check=True)
    assert "hi" in disk.run("chat", "--model", "offline", "-p", "run echo hi").stdout
    assert (disk.home / "reserve").stat().st_blocks > 0


@pytest.mark.long
def test_a_start_on_a_full_disk_without_a_reserve_is_one_sentence_and_exit_2(disk: Program) -> None:
    (disk.home / "reserve").unlink()
    fill(disk)
    done = disk.run("chat", "--model", "offline", "-p", "hi", code=2)
    assert done.stderr.startswith(f"rumi: The disk of {disk.home} is full.")
    spanish = Program(disk.home, disk.env | {"LANG": "es_AR.UTF-8"})
    assert "está lleno" in spanish.run("chat", "--model", "offline", "-p", "hi", code=2).stderr
    assert "disk is full" in disk.run("memory", "set", "a", "b", code=2).stderr
    subprocess.run(command_in(done.stderr), shell=True, check=True)
    assert "hi" in disk.run("chat", "--model", "offline", "-p", "run echo hi").stdout


@pytest.mark.long
def test_a_running_program_outlasts_a_full_disk_and_comes_back_by_itself(disk: Program) -> None:
    process = disk.start("chat", "--model", "offline")
    try:
        send(process, "run echo one")
        line_with(process.stdout, "one")
        until(lambda: (disk.home / "reserve").exists())
        filler = fill(disk)
        for number in range(100):  # until the last page of the log is full as well
            send(process, f"run echo {number}")
        line_with(process.stderr, "The disk is full: no message can be taken")
        assert until(lambda: status(disk)["storage"]["trouble"]) == "full"
        assert "the disk is full" in disk.run("status").stdout
        assert "cannot store anything: the disk is full" in disk.run("doctor", code=1).stdout
        assert process.poll() is None
        stopped = disk.run("stop", "cli", code=1).stderr
        assert "Stopped." in stopped
        filler.unlink()
        until(lambda: status(disk)["storage"]["trouble"] is None)
        send(process, "run echo back again")
        line_with(process.stdout, "back again")
        process.communicate(timeout=BOUND_S)
        assert process.returncode == 1, "lines were lost, and a program has to learn that"
    finally:
        process.kill()
        process.communicate()
    storage = [line["trouble"] for line in disk.audit() if line["event"] == "storage"]
    assert storage[-1:] == [None]
    assert "stores again" in disk.run("logs").stdout


@pytest.mark.long
def test_a_kill_on_the_full_disk_is_followed_by_a_start_that_says_what_to_do(disk: Program) -> None:
    process = disk.start("chat", "--model", "offline")
    try:
        send(process, "run echo one")
        line_with(process.stdout, "one")
        until(lambda: (disk.home / "reserve").exists())
        fill(disk)
        for number in range(100):
            send(process, f"run echo {number}")
        line_with(process.stderr, "The disk is full")
        disk.kill(process)
    finally:
        process.kill()
        process.communicate()
    fill(disk)
    said = disk.run("chat", "--model", "offline", "-p", "run echo hi", code=2).stderr
    subprocess.run(command_in(said), shell=True, check=True)
    assert "hi" in disk.run("chat", "--model", "offline", "-p", "run echo hi").stdout


def test_a_home_that_is_read_only_is_one_sentence_and_exit_2_in_every_command(disk: Program) -> None:
    mounted = disk.home.parent
    subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)
    try:
        for words in (
            ("chat", "-p", "hi", "--model", "offline"),
            ("memory", "list"),
            ("memory", "set", "a", "b"),
            ("skills", "disable", "explain"),
            ("skills", "create", "mine"),
            ("reset", "cli"),
            ("sandbox", "clean"),
        ):
            said = disk.run(*words, code=2).stderr
            assert "Read-only file system" in said, words
            assert "unexpected" not in said, words
        assert "No Rumi is running" in disk.run("status", code=1).stderr
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(mounted)], check=True)


@pytest.mark.long
def test_a_program_whose_database_is_locked_for_long_goes_on_when_it_is_free(disk: Program) -> None:
    process = disk.start("chat", "--model", "offline")
    try:
        send(process, "run echo one")
        line_with(process.stdout, "one")
        with closing(sqlite3.connect(disk.home / "state.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            send(process, "run echo two")
            time.sleep(7)
            assert status(disk)["storage"]["trouble"] == "locked"
            other.execute("ROLLBACK")
        line_with(process.stdout, "two")
        process.communicate(timeout=BOUND_S)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.long
def test_a_program_whose_database_was_deleted_says_so_and_takes_nothing(disk: Program) -> None:
    process = disk.start("chat", "--model", "offline")
    try:
        send(process, "run echo one")
        line_with(process.stdout, "one")
        (disk.home / "state.db").unlink()
        assert until(lambda: status(disk)["storage"]["trouble"]) == "replaced"
        send(process, "run echo two")
        line_with(process.stderr, "state.db was deleted or replaced")
        process.communicate(timeout=BOUND_S)
        assert process.returncode == 1
    finally:
        process.kill()
        process.communicate()
    assert not (disk.home / "state.db").exists()
