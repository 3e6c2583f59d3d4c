"""What the sandbox promises, whichever engine is below it: every test runs against both."""

import os
import pwd
import secrets
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from actors import Supervisor
from rumi.chats.surroundings import variables
from rumi.sandbox.engine import Command, CommandResult, Engine, SandboxLimits
from rumi.sandbox.sandboxes import Sandboxes, add_sandboxes
from rumi.sandbox.workspace import measure, prepare_workspace
from tests.fakes import probe
from tests.fakes.engines import MakeEngine, cleaned_up

LIMITS = SandboxLimits(
    memory_bytes=128 * 1024 * 1024,
    pids=64,
    tmp_bytes=8 * 1024 * 1024,
    timeout_s=10,
    output_limit=10_000,
    workspace_bytes=24 * 1024 * 1024,
    workspace_files=2000,
)
needs_probe = pytest.mark.skipif(not probe.HERE, reason="the probe programs are made for x86-64")


class World:
    """Sandboxes that run, and a shorter way to say what runs in them."""

    def __init__(self, engine: Engine, sandboxes: Sandboxes, home: Path) -> None:
        self.engine, self.sandboxes, self.home = engine, sandboxes, home

    def file(self, name: str, content: bytes, chat: str = "one") -> None:
        """Put a program into a chat's workspace."""
        path = prepare_workspace(self.home, chat, *self.engine.user)
        (path / name).write_bytes(content)
        (path / name).chmod(0o755)

    async def run(
        self, *argv: str, chat: str = "one", stdin: bytes = b"", timeout_s: float | None = None
    ) -> CommandResult:
        return await self.sandboxes.run(chat, Command(argv, stdin), timeout_s)

    async def sh(self, script: str, chat: str = "one", timeout_s: float | None = None) -> CommandResult:
        return await self.run("bash", "-c", script, chat=chat, timeout_s=timeout_s)

    async def text(self, script: str, chat: str = "one") -> str:
        result = await self.sh(script, chat)
        assert result.ended == "exited", result
        return result.stdout.text()


@pytest.fixture
async def engine(make_engine: MakeEngine, new_installation: str) -> AsyncIterator[Engine]:
    async with cleaned_up(make_engine(LIMITS, new_installation)) as engine:
        yield engine


@pytest.fixture
async def world(engine: Engine, tmp_path: Path) -> AsyncIterator[World]:
    root = Supervisor("root")
    sandboxes = add_sandboxes(root, engine, LIMITS, tmp_path / "home")
    async with root.running():
        yield World(engine, sandboxes, tmp_path / "home")


def on_host(marker: str) -> list[int]:
    """The processes of this machine that have the marker in their command line, zombies not."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if marker.encode() in Path(f"/proc/{entry}/cmdline").read_bytes():
                    found.append(int(entry))
            except OSError:
                continue
    return found


async def until(condition: Callable[[], object], timeout_s: float = 60) -> None:
    """Real processes take real time to come up."""
    with trio.fail_after(timeout_s):
        while not condition():  # noqa: ASYNC110  # another process's doing sets no event
            await trio.sleep(0.02)


# What a command is given, and what comes back


async def test_a_commands_words_arrive_as_they_are(world: World) -> None:
    words = ["a b", "$HOME", "`id`", "*", "", "'\"", "ñandú 🐦", "-n"]
    result = await world.run("printf", "%s|", *words)
    assert result.stdout.head.decode() == "".join(f"{word}|" for word in words)
    assert (result.exit_code, result.ended) == (0, "exited")


async def test_both_streams_and_the_exit_code_come_back_apart(world: World) -> None:
    result = await world.sh("echo out; echo err >&2; exit 7")
    assert (result.stdout.head, result.stderr.head, result.exit_code) == (b"out\n", b"err\n", 7)
    assert result.container_id
    assert result.duration_ms > 0


async def test_standard_input_is_fed_and_then_ends(world: World) -> None:
    text = secrets.token_hex(100_000).encode()
    result = await world.run("wc", "-c", stdin=text)
    assert result.stdout.text().strip() == "200000"
    assert (await world.run("cat")).stdout.total_bytes == 0


async def test_input_that_a_program_does_not_read_hangs_nothing(world: World) -> None:
    result = await world.run("true", stdin=bytes(2_000_000))
    assert (result.exit_code, result.ended) == (0, "exited")


async def test_a_program_that_is_not_there_is_127_and_says_so(world: World) -> None:
    result = await world.run("no-such-program")
    assert result.exit_code == 127
    assert "not found" in result.stderr.text()


async def test_a_file_that_is_no_program_is_126(world: World) -> None:
    result = await world.run("/etc/passwd")
    assert result.exit_code == 126
    assert result.stderr.text()


async def test_a_killed_process_is_128_and_its_signal(world: World) -> None:
    assert (await world.sh("kill -KILL $$")).exit_code == 137
    assert (await world.sh("kill -TERM $$")).exit_code == 143


async def test_bytes_that_are_no_text_come_back_as_they_are(world: World) -> None:
    assert (await world.run("printf", r"\377\000\200")).stdout.head == b"\xff\0\x80"


async def test_commands_work_in_the_workspace_as_an_ordinary_user(world: World) -> None:
    assert await world.text('echo "$PWD $UID $HOME"; echo hello > file; id -u') != ""
    where, uid = (await world.text('echo "$PWD $UID"')).split()
    assert where == "/workspace"
    assert int(uid) == world.engine.user[0]
    assert await world.text("whoami; id -un; id -gn; echo ~") == "runner\nrunner\nrunner\n/workspace\n"
    written = world.sandboxes.workspace("one") / "file"
    assert written.read_text() == "hello\n"
    assert written.stat().st_uid == int(uid)


LOOK_AS = """
import os, sys
uid, path = int(sys.argv[1]), sys.argv[2]
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
try:
    print(os.listdir(path))
except PermissionError:
    print("refused")
"""


@pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user's commands are that user's own processes")
def look_as(uid: int, folder: str) -> str:
    """What that user of this machine sees in a folder."""
    look = [sys.executable, "-c", LOOK_AS, str(uid), folder]
    return subprocess.run(look, capture_output=True, text=True, check=True).stdout


async def test_no_local_account_reads_the_files_of_a_running_command(world: World) -> None:
    length = f"30.{secrets.randbelow(10**9)}"
    await world.sh("echo private > letter")
    accounts = {user.pw_uid for user in pwd.getpwall()} | {1000}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run, "sleep", length)
        await until(lambda: on_host(f"sleep\0{length}"))
        for pid in on_host(f"sleep\0{length}"):
            seen = f"/proc/{pid}/root/workspace"
            assert os.listdir(seen) == ["letter"], "root looks at the right process"
            for uid in sorted(accounts - {0}):
                assert (uid, look_as(uid, seen)) == (uid, "refused\n")
        nursery.cancel_scope.cancel()


@pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user's workspaces never change hands")
async def test_the_files_of_a_former_user_are_the_commands_to_use(world: World) -> None:
    path = world.sandboxes.workspace("one")
    (path / "folder").mkdir(parents=True)
    (path / "folder/letter").write_text("dear reader\n")
    for owned in (path / "folder/letter", path / "folder", path):
        os.chown(owned, 1000, 1000)
        owned.chmod(0o700)
    assert await world.text("echo more >> folder/letter; cat folder/letter") == "dear reader\nmore\n"
    assert (path / "folder/letter").stat().st_uid == world.engine.user[0]


async def test_tmp_lasts_between_commands_and_nothing_else_outside_the_workspace_does(world: World) -> None:
    await world.sh("echo kept > /tmp/x; echo gone > /dev/shm/x; echo gone > /dev/mqueue/x")
    assert await world.text("cat /tmp/x") == "kept\n"
    assert await world.text("ls /dev/shm/x /dev/mqueue/x 2>/dev/null") == ""


async def test_a_command_has_the_time_zone_that_it_is_given(world: World) -> None:
    instant = "@1795773600"  # 2026-11-27T10:00Z
    for zone, shown in (
        ("Pacific/Kiritimati", "2026-11-28 00:00 +1400"),
        ("Europe/Madrid", "2026-11-27 11:00 +0100"),
        ("Pacific/Auckland", "2026-11-27 23:00 +1300"),
        ("America/Los_Angeles", "2026-11-27 02:00 -0800"),
        ("UTC+05:45", "2026-11-27 15:45 +0545"),
    ):
        line = ("bash", "-c", f"date -d {instant} '+%F %R %z'; (exit 3)")
        result = await world.sandboxes.run("one", Command(line, variables=variables(zone, 1795773600.0)))
        assert (result.stdout.text(), result.exit_code) == (f"{shown}\n", 3)
    assert await world.text(f"date -d {instant} '+%F %R %z'") == "2026-11-27 10:00 +0000\n"


async def test_only_tmp_and_the_workspace_can_be_written(world: World) -> None:
    listed = await world.text(
        "find / -xdev -writable ! -type l ! -path '/proc/*' ! -path '/dev/*' 2>/dev/null"
    )
    assert set(listed.split()) <= {"/workspace", "/tmp"}
    assert (await world.sh("echo x > /usr/bin/ls")).exit_code != 0
    assert (await world.sh("echo x > /new")).exit_code != 0


# Stop and timeout leave no process


async def test_a_timeout_ends_the_command_and_keeps_what_it_said(world: World) -> None:
    marker = f"1{secrets.randbelow(10**9)}"
    began = trio.current_time()
    result = await world.sh(f"echo before; echo wrong >&2; sleep {marker}; echo after", timeout_s=1)
    assert trio.current_time() - began < 5
    assert (result.ended, result.exit_code) == ("timeout", 137)
    assert (result.stdout.text(), result.stderr.text()) == ("before\n", "wrong\n")
    assert on_host(marker) == []


async def test_a_stopped_command_is_gone_before_its_stop_is_confirmed(world: World) -> None:
    marker = f"2{secrets.randbelow(10**9)}"
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.sh, f"(sleep {marker} &) ; (sleep {marker} & wait) & sleep {marker}")
            await until(lambda: len(on_host(marker)) >= 3)
            scope.cancel()
    assert on_host(marker) == []
    assert await world.text("echo next") == "next\n"


@needs_probe
async def test_a_process_that_forked_twice_and_left_its_session_is_ended_too(world: World) -> None:
    name = f"daemon-{secrets.token_hex(4)}"
    world.file(name, probe.daemon())
    result = await world.sh(f"./{name}; ./{name}; sleep 60", timeout_s=1)
    assert result.ended == "timeout"
    assert on_host(name) == []


@needs_probe
async def test_what_a_command_leaves_running_does_not_survive_it(world: World) -> None:
    name = f"daemon-{secrets.token_hex(4)}"
    world.file(name, probe.daemon())
    assert (await world.sh(f"./{name} > /dev/null 2>&1")).exit_code == 0
    assert on_host(name) == []
    await world.sandboxes.quiet("one")
    assert on_host(name) == []


async def test_sixty_double_forks_leave_no_zombie(world: World) -> None:
    look = "read -r line < $s; [[ $line == *') Z '* ]] && ((n++))"
    count = f"n=0; for s in /proc/[0-9]*/stat; do {look}; done; echo $n"
    forks = "for ((i = 0; i < 60; i++)); do ( (sleep 0.02) & ) ; done; sleep 0.5"
    assert await world.text(f"{forks}; {count}") == "0\n"
    assert await world.text(count) == "0\n"


# Memory, processes, processors and /tmp are bounded


async def test_a_fork_bomb_ends_and_the_next_command_works(world: World) -> None:
    await world.sh("echo ready", chat="other")
    answers = []

    async def other() -> None:
        answers.extend([await world.sh("echo fine", chat="other") for _ in range(3)])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        result = await world.sh("bomb() { bomb | bomb & }; bomb; sleep 60", timeout_s=2)
    assert result.ended in ("timeout", "exited")
    assert [answer.stdout.text() for answer in answers] == ["fine\n"] * 3
    assert await world.text("echo next") == "next\n"


async def test_a_memory_bomb_ends_and_another_chat_does_not_notice(world: World) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.sh, "sleep 1; echo fine", "other")
        result = await world.sh("x=0123456789; while :; do x=$x$x; done")
    assert result.ended == "exited"
    assert result.exit_code != 0
    assert await world.text("echo next") == "next\n"
    assert world.sandboxes.container_id("other")


@pytest.mark.long
@pytest.mark.bounds("memory")
async def test_memory_is_bounded_for_all_processes_together(world: World) -> None:
    hold = "x=$(head -c 40000000 /dev/zero | tr '\\0' x); sleep 2; echo held"
    result = await world.sh(f"for i in 1 2 3 4 5; do ( {hold} ) & done; wait")
    assert result.stdout.text().count("held") < 5


async def test_a_full_tmp_bounds_bytes_and_inodes_and_frees_again(world: World) -> None:
    result = await world.sh("cat /dev/zero > /tmp/full")
    assert result.exit_code != 0
    assert int(await world.text("stat -c %s /tmp/full")) <= LIMITS.tmp_bytes
    await world.sh("rm /tmp/full; for ((i = 0; i < 100000; i++)); do : > /tmp/$i || break; done")
    assert int(await world.text("ls -U /tmp | wc -l")) < 100_000
    await world.sh("find /tmp -mindepth 1 -delete")
    assert (await world.sh("echo x > /tmp/y")).exit_code == 0


@pytest.mark.bounds("cpu")
async def test_two_busy_processes_share_one_processor(world: World) -> None:
    busy = "( while :; do :; done ) &"
    spent = await world.text(
        f"{busy} {busy} {busy} sleep 2; kill %1 %2 %3; wait 2>/dev/null; times | tail -1"
    )
    seconds = sum(float(part.strip("s").split("m")[1]) for part in spent.split())
    assert seconds < 2 * 1.5  # of one processor for two seconds


# The workspace is bounded


async def test_filling_the_workspace_ends_the_command_and_then_only_freeing_goes(world: World) -> None:
    fill = "i=0; while :; do head -c 1000000 /dev/zero > f$i; ((i++)); done"
    result = await world.sh(fill)
    assert result.ended == "workspace_full"
    kept = measure(world.sandboxes.workspace("one")).bytes
    assert LIMITS.workspace_bytes < kept < 30 * LIMITS.workspace_bytes
    refused = await world.run("touch", "more")
    assert (refused.ended, refused.exit_code) == ("workspace_full", None)
    assert (await world.run("ls")).ended == "exited"
    assert (await world.run("find", ".", "-name", "f*", "-delete")).ended == "exited"
    assert (await world.run("touch", "more")).exit_code == 0


async def test_one_large_file_stops_at_the_limit(world: World) -> None:
    result = await world.sh("cat /dev/zero > big")
    assert result.ended == "workspace_full"
    assert measure(world.sandboxes.workspace("one")).bytes < 3 * LIMITS.workspace_bytes


async def test_files_without_a_name_count_too(world: World) -> None:
    await world.sandboxes.prepare("one")
    free = shutil.disk_usage(world.home).free
    fill = "while :; do exec {fd}> x; rm x; head -c 4000000 /dev/zero >&$fd; done"
    result = await world.sh(fill)
    assert result.ended == "workspace_full"
    assert free - shutil.disk_usage(world.home).free < 30 * LIMITS.workspace_bytes


async def test_touching_files_without_end_is_ended(world: World) -> None:
    result = await world.sh("for ((i = 0; ; i++)); do : > f$i; done")
    assert result.ended == "workspace_full"
    assert (await world.run("rm", "-r", "/workspace/f0")).ended == "exited"


async def test_a_command_that_may_only_free_is_ended_when_it_fills(world: World) -> None:
    await world.sh("i=0; while :; do head -c 1000000 /dev/zero > f$i; ((i++)); done")
    grow = "i=0; while :; do head -c 1000000 /dev/zero > g$i; ((i++)); done"
    result = await world.run("find", ".", "-maxdepth", "0", "-exec", "bash", "-c", grow, ";")
    assert result.ended == "workspace_full"
    assert result.exit_code == 137


# Output is bounded


async def test_endless_output_keeps_the_hosts_memory_flat(world: World) -> None:
    await world.text("echo warm")
    before = resident_bytes()
    result = await world.run("yes", "0123456789", timeout_s=2)
    grown = resident_bytes() - before
    assert result.ended == "timeout"
    assert result.stdout.total_bytes > 1_000_000
    assert grown < 32 * 1024 * 1024
    out = result.stdout
    assert len(out.head) == len(out.tail) == LIMITS.output_limit // 2
    assert out.omitted_bytes == out.total_bytes - LIMITS.output_limit
    assert str(out.omitted_bytes) in out.text()


async def test_head_and_tail_are_the_streams_own(world: World) -> None:
    out = (await world.run("seq", "1", "20000")).stdout
    assert out.head.startswith(b"1\n2\n3\n")
    assert out.tail.endswith(b"19999\n20000\n")


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# Capabilities, new privileges, system calls


async def test_no_capabilities_no_new_privileges_and_a_filter(world: World) -> None:
    status = dict(
        line.split(":", 1) for line in (await world.text("cat /proc/self/status")).splitlines() if ":" in line
    )
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"].strip() == "1"
    assert status["Seccomp"].strip() == "2"


@needs_probe
async def test_dangerous_calls_are_refused_before_the_kernel_sees_them(world: World) -> None:
    # Each is made such that the kernel itself would say something else than EPERM.
    refused = {
        "io_uring_setup": (425, 1, 0),
        "add_key": (248, 0, 0, 0, 0, 0),
        "keyctl": (250, 9999),
        "request_key": (249, 0, 0, 0, 0),
        "ptrace": (101, 0),
        "process_vm_readv": (310, 1, 0, 0, 0, 0, 0),
        "shmget": (29, 0, 4096, 0o1600),
        "msgget": (68, 0, 0o1600),
        "mq_open": (240, 0, 0, 0, 0),
        "io_setup": (206, 1, 0),
        "unshare user": (272, 0x10000000),
        "clone user": (56, 0x10000000 | 17, 0),
        "setns": (308, 0xFFFFFFFF, 0),
        "memfd_secret": (447, 0),
        "modify_ldt": (154, 0, 0, 0),
        "kcmp": (312, 1, 1, 0, 0, 0),
        "name_to_handle_at": (303, 0, 0, 0, 0, 0),
        "personality": (135, 0x0040000),
        "bpf": (321, 9999, 0, 0),
        "perf_event_open": (298, 0, 0, 0, 0, 0),
        "userfaultfd": (323, 0xFFFF),
    }
    special = {
        "clone3": ((435, 0, 0), -38),
        "vsock": ((41, 40, 1, 0), -97),
        "vsock with the upper half of the register set": ((41, (1 << 32) | 40, 1, 0), -1),
        "netlink": ((41, 16, 3, 0), -97),
        "packet": ((41, 17, 3, 0), -97),
        "raw": ((41, 2, 3, 1), -1),
        "raw of version 6": ((41, 10, 3, 58), -1),
        "ping": ((41, 2, 2, 1), -1),
        "alg": ((41, 38, 5, 0), -97),
    }
    allowed = {"getuid": (102,), "unix socket": (41, 1, 1, 0), "personality asked": (135, 0xFFFFFFFF)}
    allowed |= {"tcp": (41, 2, 1, 0), "tcp of version 6": (41, 10, 1, 6), "udp": (41, 2, 2, 17)}
    every = [*refused.values(), *(call for call, _ in special.values()), *allowed.values()]
    world.file("probe", probe.calls(every))
    got = probe.results((await world.run("./probe")).stdout.head)
    said = dict(zip([*refused, *special, *allowed], got, strict=True))
    assert {name: said[name] for name in refused} == dict.fromkeys(refused, -1)
    assert {name: said[name] for name in special} == {name: result for name, (_, result) in special.items()}
    assert all(said[name] >= 0 for name in allowed), said


@needs_probe
async def test_a_call_by_the_32_bit_way_in_ends_the_process(world: World) -> None:
    world.file("old", probe.old_call())
    assert (await world.run("./old")).exit_code == 128 + 31


async def test_the_probe_itself_works_on_this_machine(tmp_path: Path) -> None:
    if not probe.HERE:
        pytest.skip("the probe programs are made for x86-64")
    path = tmp_path / "probe"
    path.write_bytes(probe.calls([(102,), (41, 2, 1, 0), (425, 1, 0)]))
    path.chmod(0o755)
    done = await trio.run_process([str(path)], capture_stdout=True)
    uid, inet, _ = struct.unpack("<qqq", done.stdout)
    assert uid == os.getuid()
    assert inet >= 0


# No network


async def test_there_is_no_route_no_interface_and_no_resolver(world: World) -> None:
    routes = await world.text("cat /proc/net/route /proc/net/ipv6_route 2>/dev/null")
    assert [line for line in routes.splitlines() if not line.startswith("Iface") and " lo" not in line] == []
    devices = await world.text("cat /proc/net/dev")
    assert {line.split(":")[0].strip() for line in devices.splitlines() if ":" in line} <= {"lo"}
    assert "nameserver" not in await world.text("cat /etc/resolv.conf 2>/dev/null; true")
    assert (await world.sh("exec 3<>/dev/tcp/127.0.0.1/80")).exit_code != 0


async def test_an_abstract_socket_of_the_host_is_not_in_sight(world: World) -> None:
    name = f"rumi-{secrets.token_hex(6)}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        assert name in await trio.Path("/proc/net/unix").read_text()
        assert name not in await world.text("cat /proc/net/unix")


# Chats are apart


async def test_chats_see_neither_each_others_files_nor_processes(world: World) -> None:
    marker = f"3{secrets.randbelow(10**9)}"
    await world.sh("echo secret > mine; echo secret > /tmp/mine")
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.sh, f"sleep {marker}")
            await until(lambda: on_host(marker))
            seen = await world.text("ls -a /workspace /tmp; cat /proc/[0-9]*/cmdline | tr '\\0' ' '", "two")
            scope.cancel()
    assert "mine" not in seen
    assert marker not in seen


async def test_stopping_one_chat_leaves_anothers_command_alone(world: World) -> None:
    results = []

    async def other() -> None:
        results.append(await world.sh("sleep 2; echo done", chat="two"))

    marker = f"4{secrets.randbelow(10**9)}"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as inner:
                inner.start_soon(world.sh, f"sleep {marker}")
                await until(lambda: on_host(marker))
                scope.cancel()
    assert results[0].stdout.text() == "done\n"


async def test_a_chats_commands_run_one_after_the_other(world: World) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(world.sh, "[ -e busy ] && echo x >> both; : > busy; sleep 0.2; rm busy")
    assert not (world.sandboxes.workspace("one") / "both").exists()


# Boxes are live chats


async def test_boxes_are_there_for_chats_that_are_and_for_no_others(world: World) -> None:
    await world.sandboxes.prepare("one")
    await world.sandboxes.prepare("one")
    await world.sandboxes.prepare("two")
    assert sorted(box.chat_id for box in await world.engine.containers()) == ["one", "two"]
    await world.sandboxes.stop("one")
    assert [box.chat_id for box in await world.engine.containers()] == ["two"]
    assert world.sandboxes.container_id("one") == ""


async def test_a_reset_takes_tmp_and_keeps_the_workspace(world: World) -> None:
    await world.sh("echo x > kept; echo x > /tmp/gone")
    await world.sandboxes.stop("one")
    assert await world.text("ls /workspace /tmp") == "/tmp:\n\n/workspace:\nkept\n"


async def test_at_the_end_of_the_tree_nothing_is_left(engine: Engine, tmp_path: Path) -> None:
    marker = f"5{secrets.randbelow(10**9)}"
    root = Supervisor("root")
    sandboxes = add_sandboxes(root, engine, replace(LIMITS, timeout_s=1), tmp_path / "home")
    async with root.running():
        for chat in ("a", "b", "c"):
            await sandboxes.run(chat, Command(("true",)))
        with trio.move_on_after(0.5):
            await sandboxes.run("a", Command(("sleep", marker)))
    assert await engine.containers() == []
    assert on_host(marker) == []
