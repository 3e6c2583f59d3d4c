"""The audit log: its lines, its rotation, and what happens when the disk or another process interferes."""

import json
import logging
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rumi.platform.logs.audit import FIELDS, AuditLog, read_audit
from rumi.platform.redact import HIDDEN, Redactor

SECRET = 'sesame"open\\now'
NOTHING = Redactor([])


def log(path: Path, *, max_mb: float = 10, backup_count: int = 5, redact: Redactor = NOTHING) -> AuditLog:
    return AuditLog(
        path / "logs" / "audit.jsonl", max_mb, backup_count, redact, now=lambda: 1_785_585_600.0564
    )


def lines(path: Path, *, old: bool = False) -> list[dict[str, object]]:
    return list(read_audit(path / "logs" / "audit.jsonl", old=old))


def numbers(path: Path) -> list[object]:
    return [line["exit_code"] for line in lines(path, old=True)]


def test_a_line_has_every_field_in_order_and_null_where_it_does_not_apply(tmp_path: Path) -> None:
    log(tmp_path).write("turn_started", chat_id="cli", turn="t1")
    raw = (tmp_path / "logs" / "audit.jsonl").read_text()
    assert raw.endswith("\n")
    [line] = lines(tmp_path)
    assert tuple(line) == FIELDS
    assert line == dict.fromkeys(FIELDS) | {
        "time": "2026-08-01T12:00:00.056Z",
        "event": "turn_started",
        "chat_id": "cli",
        "turn": "t1",
    }


def test_a_command_is_told_in_full(tmp_path: Path) -> None:
    log(tmp_path).write(
        "command",
        chat_id="tg1",
        turn="t",
        container_id="c",
        argv=("echo", "ñ\n\u2028", "\udcff"),
        command="echo",
        exit_code=1,
        duration_ms=5,
        truncated=True,
        stopped_reason="stopped",
        tool="bash",
        odd={"x": [Path("/a"), float("nan"), 1.5, None, True]},
    )
    raw = (tmp_path / "logs" / "audit.jsonl").read_bytes()
    assert len(raw.decode().splitlines()) == 1
    [line] = lines(tmp_path)
    assert line["argv"] == ["echo", "ñ\n\u2028", "\udcff"]
    assert (line["exit_code"], line["duration_ms"], line["truncated"]) == (1, 5, True)
    assert tuple(line)[-2:] == ("tool", "odd")
    assert line["odd"] == {"x": ["/a", "nan", 1.5, None, True]}


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    audit = log(tmp_path)
    audit.write("x", chat_id="cli")
    path = tmp_path / "logs" / "audit.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    log(tmp_path).write("x", chat_id="cli")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_secret_reaches_the_file(tmp_path: Path) -> None:
    audit = log(tmp_path, redact=Redactor([SECRET]))
    audit.write(
        "command",
        chat_id="cli",
        argv=["echo", f"a{SECRET}b", "Bearer abcdefgh12"],
        command=json.dumps({"command": f"echo {SECRET}"}),
        more={"deep": [SECRET], SECRET: 1},
    )
    raw = (tmp_path / "logs" / "audit.jsonl").read_text()
    assert "sesame" not in raw
    assert "abcdefgh12" not in raw
    assert lines(tmp_path)[0]["argv"] == ["echo", f"a{HIDDEN}b", f"Bearer {HIDDEN}"]


def test_it_is_put_aside_when_it_would_outgrow_its_size(tmp_path: Path) -> None:
    audit = log(tmp_path, max_mb=0.001, backup_count=3)
    for number in range(60):
        audit.write("x", chat_id="cli", exit_code=number)
    files = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert files == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.3"]
    assert all(path.stat().st_size <= 1049 for path in (tmp_path / "logs").iterdir())
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in (tmp_path / "logs").iterdir())
    kept = numbers(tmp_path)
    assert kept == list(range(60 - len(kept), 60))
    assert len(kept) > 12


def test_without_old_files_it_starts_over(tmp_path: Path) -> None:
    audit = log(tmp_path, max_mb=0.001, backup_count=0)
    for number in range(20):
        audit.write("x", chat_id="cli", exit_code=number)
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["audit.jsonl"]
    assert numbers(tmp_path)[-1] == 19


def test_a_line_larger_than_the_limit_is_written_all_the_same(tmp_path: Path) -> None:
    audit = log(tmp_path, max_mb=0.001, backup_count=1)
    for number in range(3):
        audit.write("x", chat_id="cli", exit_code=number, command="y" * 5000)
    assert numbers(tmp_path) == [1, 2]


def test_a_gap_that_a_crash_left_is_filled_and_nothing_lost(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for name in (
        "audit.jsonl",
        "audit.jsonl.1",
        "audit.jsonl.3",
    ):  # .2 was renamed to .3, then came the crash
        (folder / name).write_text(json.dumps({"exit_code": name}) + "\n")
    log(tmp_path, max_mb=0.00001, backup_count=3).write("x", chat_id="cli", exit_code=4)
    assert numbers(tmp_path) == ["audit.jsonl.3", "audit.jsonl.1", "audit.jsonl", 4]


@pytest.mark.parametrize("torn", ['{"event": "x', "\0\0\0", '{"event": "\xff'])
def test_a_torn_last_line_is_skipped_and_the_next_writer_begins_on_a_fresh_line(
    tmp_path: Path, torn: str
) -> None:
    log(tmp_path).write("x", chat_id="cli", exit_code=1)
    path = tmp_path / "logs" / "audit.jsonl"
    with path.open("ab") as file:
        file.write(torn.encode("latin-1"))
    assert numbers(tmp_path) == [1]
    audit = log(tmp_path)
    audit.write("x", chat_id="cli", exit_code=2)
    audit.write("x", chat_id="cli", exit_code=3)
    assert numbers(tmp_path) == [1, 2, 3]
    assert len(path.read_bytes().splitlines()) == 4


def test_what_is_no_line_of_ours_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    assert list(read_audit(path)) == []
    path.write_bytes(b'\n[1]\n"x"\n{"a":1}\n\xff\n{"b":' + b"[" * 100_000 + b'\n{"c":3}')
    assert list(read_audit(path)) == [{"a": 1}, {"c": 3}]


def test_a_file_that_was_moved_or_deleted_is_made_again(tmp_path: Path) -> None:
    audit = log(tmp_path)
    audit.write("x", chat_id="cli", exit_code=1)
    (tmp_path / "logs" / "audit.jsonl").unlink()
    audit.write("x", chat_id="cli", exit_code=2)
    assert numbers(tmp_path) == [2]
    audit.close()
    audit.write("x", chat_id="cli", exit_code=3)
    assert numbers(tmp_path) == [2, 3]


@pytest.mark.parametrize("when", ["before the first line", "between two lines"])
def test_a_link_in_a_logs_place_is_not_followed(tmp_path: Path, when: str) -> None:
    audit, path, elsewhere = log(tmp_path), tmp_path / "logs" / "audit.jsonl", tmp_path / "elsewhere"
    if when == "between two lines":
        audit.write("x", chat_id="cli")
        path.unlink()
    path.parent.mkdir(exist_ok=True)
    elsewhere.write_text("theirs\n")
    path.symlink_to(elsewhere)
    audit.write("x", chat_id="cli")
    assert elsewhere.read_text() == "theirs\n"
    assert audit.lost == 1


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file can grow beyond `size` bytes: a write there is cut short, and the next one fails."""
    import signal

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, former)


def test_a_full_disk_is_told_once_and_takes_nothing_down(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    audit = log(tmp_path)
    audit.write("x", chat_id="cli", exit_code=1)
    size = (tmp_path / "logs" / "audit.jsonl").stat().st_size
    with full_disk(size + 20), caplog.at_level(logging.WARNING):
        for number in (2, 3, 4):
            audit.write("x", chat_id="cli", exit_code=number)
    assert audit.lost == 3
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    audit.write("x", chat_id="cli", exit_code=5)
    assert numbers(tmp_path) == [1, 5]
    assert "3 lines were lost" in caplog.records[-1].getMessage()


def test_a_folder_that_cannot_be_made_takes_nothing_down(tmp_path: Path) -> None:
    (tmp_path / "logs").touch()
    audit = log(tmp_path)
    audit.write("x", chat_id="cli")
    assert audit.lost == 1


def test_threads_write_whole_lines(tmp_path: Path) -> None:
    audit = log(tmp_path, max_mb=0.05, backup_count=100)

    def work(start: int) -> None:
        for number in range(start, start + 200):
            audit.write("x", chat_id="cli", exit_code=number)

    threads = [threading.Thread(target=work, args=(start,)) for start in (0, 200, 400)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers(tmp_path), key=str) == sorted(range(600), key=str)


WRITER = """
import sys
from pathlib import Path
from rumi.platform.logs.audit import AuditLog
from rumi.platform.redact import Redactor
audit = AuditLog(Path(sys.argv[1]), 0.004, 1000, Redactor([]))
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    audit.write("x", chat_id="cli", exit_code=number)
    if sys.argv[4:] and number % 10 == 9:
        print(number, flush=True)
assert audit.lost == 0
"""


def writer(path: Path, start: int, end: int, *more: str) -> "subprocess.Popen[bytes]":
    arguments = [str(path / "logs" / "audit.jsonl"), str(start), str(end), *more]
    return subprocess.Popen([sys.executable, "-c", WRITER, *arguments], stdout=subprocess.PIPE)


def test_two_processes_put_it_aside_without_losing_a_line(tmp_path: Path) -> None:
    processes = [writer(tmp_path, 0, 400), writer(tmp_path, 400, 800)]
    for process in processes:
        process.communicate(timeout=30)
        assert process.returncode == 0
    assert sorted(numbers(tmp_path), key=str) == sorted(range(800), key=str)


def test_a_writer_that_is_killed_loses_nothing_that_it_had_written(tmp_path: Path) -> None:
    process = writer(tmp_path, 0, 1_000_000, "tell")
    assert process.stdout is not None
    told = 0
    while told < 300:
        told = int(process.stdout.readline())
    process.kill()
    process.communicate(timeout=30)
    found = numbers(tmp_path)
    assert found == list(range(len(found)))
    assert len(found) > told
    log(tmp_path).write("x", chat_id="cli", exit_code=len(found))
    assert numbers(tmp_path) == list(range(len(found) + 1))


def test_a_process_that_was_halted_while_it_held_the_lock_halts_nobody(tmp_path: Path) -> None:
    import fcntl

    audit = log(tmp_path, max_mb=0.0005)
    audit.write("x", chat_id="cli", exit_code=0)
    other = os.open(tmp_path / "logs" / "audit.jsonl", os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    for number in range(1, 5):
        audit.write("x", chat_id="cli", exit_code=number)
    assert not (tmp_path / "logs" / "audit.jsonl.1").exists()
    os.close(other)
    audit.write("x", chat_id="cli", exit_code=5)
    assert (tmp_path / "logs" / "audit.jsonl.1").exists()
    assert numbers(tmp_path) == list(range(6))
