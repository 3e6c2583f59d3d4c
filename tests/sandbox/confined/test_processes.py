"""Confined processes: they take what they may, say why they failed, and none is left."""

import os
import sys
from pathlib import Path

import pytest
import trio

from rumi.sandbox.confined.child import processes
from rumi.sandbox.confined.parent import Child, ChildFailed, Why
from tests.cli.forks import PROCESSES

BEGIN = """
import os, resource, sys, time
from rumi.sandbox.confined.child import ParentProcess, framed
parent = ParentProcess({resource.RLIMIT_NOFILE: 40, resource.RLIMIT_CPU: 1}, nice=3)
parent.ready()
asked = parent.hear()
"""


def program(tmp_path: Path, body: str) -> list[str]:
    path = tmp_path / "program.py"
    path.write_text(BEGIN + body)
    return [str(path)]


def children() -> list[int]:
    ours = (pid for pid, (_, parent, _) in processes().items() if parent == os.getpid())
    return [pid for pid in ours if pid not in PROCESSES]


async def test_frames_go_both_ways_and_prints_do_no_harm(tmp_path: Path) -> None:
    body = "print('noise'); parent.send({'asked': asked, 'body': len(parent.receive())})"
    async with await Child.start(program(tmp_path, body), most_bytes=1000) as child:
        await child.say({"number": 1}, b"x" * 3_000_000)
        assert await child.hear() == {"asked": {"number": 1}, "body": 3_000_000}
    assert children() == []


async def test_it_has_its_limits_and_nothing_of_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk_secret")
    body = (
        "parent.send({'environment': sorted(os.environ), 'folder': os.getcwd(),"
        " 'files': resource.getrlimit(resource.RLIMIT_NOFILE),"
        " 'core': resource.getrlimit(resource.RLIMIT_CORE), 'nice': os.nice(0)})"
    )
    async with await Child.start(program(tmp_path, body), most_bytes=1000) as child:
        await child.say({})
        assert await child.hear() == {
            "environment": ["LANG", "LC_ALL"],
            "folder": "/",
            "files": [40, 40],
            "core": [0, 0],
            "nice": os.nice(0) + 3,
        }


@pytest.mark.parametrize(
    ("body", "why", "number", "text"),
    [
        ("sys.exit(3)", "exited", 3, "it ended its process with exit code 3"),
        ("os.kill(os.getpid(), 11)", "signal", 11, "its process was ended by SIGSEGV"),
        ("os.kill(os.getpid(), 40)", "signal", 40, "its process was ended by signal 40"),
        ("while True: pass", "signal", 9, "its process was ended by SIGKILL"),
        ("parent.send({'x': 'x' * 2000})", "too long", 0, "it sent more than 1000 bytes at once"),
        ("os.write(parent.answers, framed(b'no'))", "nonsense", 0, "it wrote something into the pipe"),
        (
            "os.close(parent.answers); os.close(1); time.sleep(1000)",
            "closed",
            0,
            "it closed its pipe to Rumi",
        ),
    ],
)
async def test_why_a_process_gave_no_answer(
    tmp_path: Path, body: str, why: Why, number: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await Child.start(program(tmp_path, body), most_bytes=1000) as child:
        await child.say({})
        with pytest.raises(ChildFailed, match=text) as raised, monkeypatch.context() as patient:
            patient.setattr("rumi.sandbox.confined.parent.END_S", 0.5 if why == "closed" else 30)
            await child.hear()
        assert (raised.value.why, raised.value.number) == (why, number)
    assert children() == []


@pytest.mark.parametrize("more", [0, 10_000_000])
async def test_one_that_keeps_us_waiting_is_late_in_hearing_and_in_saying(tmp_path: Path, more: int) -> None:
    async with await Child.start(program(tmp_path, "time.sleep(1000)"), most_bytes=1000) as child:
        child.left_s = 0.3
        with pytest.raises(ChildFailed, match="it took too much time") as raised:
            await child.say({}, b"x" * more)
            await child.hear()
        assert raised.value.why == "late"
    assert children() == []


async def test_a_program_that_cannot_start_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import nothing_of_this_name")
    with pytest.raises(ChildFailed, match="exit code 1"):
        await Child.start([str(broken)], most_bytes=1000)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    files = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ChildFailed, match="No such file or directory"):
        await Child.start([str(broken)], most_bytes=1000)
    assert children() == []
    assert len(os.listdir("/proc/self/fd")) == files


async def test_a_start_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    started = tmp_path / "started"
    path = tmp_path / "slow.py"
    path.write_text(f"import time; open({str(started)!r}, 'w'); time.sleep(1000)")
    async with trio.open_nursery() as nursery:

        async def start() -> None:
            await Child.start([str(path)], most_bytes=1000)

        nursery.start_soon(start)
        with trio.fail_after(30):
            while not started.exists():  # noqa: ASYNC110 - another process's file has no event
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()
    assert children() == []
