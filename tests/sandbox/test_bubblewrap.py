"""The embedded engine's promises, one by one, with real processes; times are real as the kernel's are."""

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trio

from actors import ChildSpec, Supervisor
from rumi.sandbox import processes as processes_module
from rumi.sandbox.bubblewrap import container as container_module
from rumi.sandbox.bubblewrap import keeper
from rumi.sandbox.bubblewrap.container import BubblewrapContainer
from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
from rumi.sandbox.cgroups import Cgroups
from rumi.sandbox.engine import Command, ContainerGoneError, SandboxError, SandboxLimits, environment
from rumi.sandbox.identity import sandbox_user
from rumi.sandbox.processes import descendants, descendants_at_a_glance, named
from rumi.sandbox.registry import ContainerRegistry
from rumi.sandbox.workspace import prepare_workspace
from runner import init as runner_init

pytestmark = pytest.mark.bubblewrap

MB = 1 << 20
SMALL = SandboxLimits(memory_bytes=48 * MB, pids=40, tmp_bytes=4 * MB, cpus=0.3, workspace_bytes=16 * MB)
INSTALLATION, FOREIGN = secrets.token_hex(6), secrets.token_hex(6)
"""Of this run alone: another run on this machine at the same time is another installation."""
LONG = f"{os.getpid():07}315360"
"""Seconds that no sleep on this machine waits for but this run's; two digits more say which."""


def make(home: Path, chat_id: str) -> Path:
    return prepare_workspace(home, chat_id, *sandbox_user(INSTALLATION, home))


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[BubblewrapEngine]:
    engine = BubblewrapEngine(tmp_path, INSTALLATION, SMALL)
    yield engine
    for info in await engine.containers():
        await engine.remove(info.chat_id)
    assert not Cgroups(INSTALLATION).leftovers()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make(tmp_path, "chat")


@pytest.fixture
async def box(engine: BubblewrapEngine, workspace: Path) -> BubblewrapContainer:
    return await engine.create("chat", workspace)


async def run(box: BubblewrapContainer, *argv: str, stdin: bytes = b"") -> tuple[int, str, str]:
    out, err = bytearray(), bytearray()
    code = await box.execute(Command(argv, stdin), out.extend, err.extend)
    return code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


async def sh(box: BubblewrapContainer, script: str) -> str:
    """What a script prints, on either stream."""
    _, out, err = await run(box, "sh", "-c", script)
    return out + err


def on_the_host(marker: str) -> list[int]:
    """The pids of all processes of this machine with the marker among their arguments."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if marker.encode() in Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0"):
                found.append(int(name))
    return found


async def until(condition: Callable[[], bool], within_s: float = 60) -> None:
    with trio.fail_after(within_s):
        while not condition():  # noqa: ASYNC110 - what other processes do tells no event
            await trio.sleep(0.01)


def processes_of(box: BubblewrapContainer) -> list[int]:
    return descendants(box.keeper) if box.keeper else []


def left_in(box: BubblewrapContainer) -> list[int]:
    """What commands left, zombies too: all but the sandbox that waits for the next command."""
    found = []
    for pid in processes_of(box):
        with contextlib.suppress(FileNotFoundError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if not words and ") Z " not in Path(f"/proc/{pid}/stat").read_text():
                continue  # the waiting one, just between two programs
            if b"\0once\0" not in words and b"keeper.py" not in words:
                found.append(pid)
    assert len(processes_of(box)) <= 4
    return found


def give(workspace: Path, program: str) -> None:
    """Lend a program of this host to the sandbox, which has only harmless ones."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"no {program} on this host")
    shutil.copy(found, workspace / program)
    (workspace / program).chmod(0o755)


# What a command gets


async def test_a_command_gives_its_streams_and_its_exit_code(box: BubblewrapContainer) -> None:
    assert await run(box, "sh", "-c", "echo out; echo err >&2; exit 3") == (3, "out\n", "err\n")


async def test_words_arrive_as_they_are(box: BubblewrapContainer) -> None:
    words = ("a b", "", "$HOME", "`id`", "*", "año", "new\nline", "-n", "\udcff")
    _, out, _ = await run(box, "printf", "<%s>", *words)
    assert out == "".join(f"<{word}>" for word in words[:-1]) + "<\ufffd>"


async def test_standard_input_is_what_was_given_or_empty(box: BubblewrapContainer) -> None:
    given = bytes(range(256)) * 4096
    out = bytearray()
    assert await box.execute(Command(("cat",), given), out.extend, out.extend) == 0
    assert out == given
    assert await run(box, "cat") == (0, "", "")


async def test_standard_input_is_no_place_to_write(box: BubblewrapContainer) -> None:
    out = await run(box, "sh", "-c", "echo more >>/proc/self/fd/0", stdin=b"given")
    assert out[0] != 0


async def test_a_missing_program_is_127_and_named(box: BubblewrapContainer) -> None:
    code, _, err = await run(box, "no-such-program", "x")
    assert code == 127
    assert "no-such-program" in err


async def test_a_killed_program_is_128_and_its_signal(box: BubblewrapContainer) -> None:
    assert (await run(box, "sh", "-c", "kill -TERM $$"))[0] == 143


async def test_too_many_words_are_an_exit_code_and_not_a_lost_sandbox(box: BubblewrapContainer) -> None:
    assert await run(box, "echo", "x" * 200_000) == (126, "", "echo: Argument list too long\n")
    assert (await run(box, "echo", *["x" * 1000] * 1600))[0] == 126
    assert (await run(box, "echo", *["x" * 1000] * 1000))[0] == 0


async def test_words_with_nul_bytes_are_refused(box: BubblewrapContainer) -> None:
    with pytest.raises(ValueError, match="NUL"):
        await run(box, "echo", "a\0b")


async def test_a_command_starts_in_its_workspace_as_an_ordinary_user(
    engine: BubblewrapEngine, box: BubblewrapContainer, workspace: Path
) -> None:
    assert (await run(box, "pwd"))[1] == "/workspace\n"
    assert (await run(box, "id", "-u"))[1] == f"{engine.user[0]}\n"
    await run(box, "sh", "-c", "echo text > file")
    assert (workspace / "file").read_text() == "text\n"
    assert (workspace / "file").stat().st_uid == engine.user[0]


async def test_a_command_sees_no_environment_of_the_host(
    box: BubblewrapContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "secret")
    _, out, _ = await run(box, "env")
    names = {line.split("=")[0] for line in out.splitlines()}
    assert names <= {*environment(SandboxLimits()), "PATH", "PWD", "OLDPWD", "SHLVL", "_"}


async def test_a_command_inherits_no_open_file_of_the_host(box: BubblewrapContainer) -> None:
    assert (await run(box, "ls", "/proc/self/fd"))[1].split() == ["0", "1", "2", "3"]


async def test_only_the_workspace_and_tmp_can_be_written(box: BubblewrapContainer) -> None:
    places = "/ /usr /usr/bin /etc /dev /proc /run /home /root /sys"
    out = await sh(box, f"for place in {places}; do echo x > $place/x; done; ls /tmp /workspace")
    assert out.count("annot create") == len(places.split()), out
    assert "/x\n" not in out


async def test_tmp_lasts_from_command_to_command_and_no_longer_than_the_box(
    engine: BubblewrapEngine, box: BubblewrapContainer, workspace: Path
) -> None:
    await sh(box, "echo kept > /tmp/file; echo gone > /dev/shm/file")
    assert await sh(box, "cat /tmp/file; ls /dev/shm") == "kept\n"
    again = await engine.create("chat", workspace)
    assert again.container_id != box.container_id
    assert await sh(again, "ls /tmp") == ""


async def test_a_command_of_which_only_a_part_was_handed_over_does_not_run(
    box: BubblewrapContainer, workspace: Path
) -> None:
    with trio.move_on_after(0):
        await run(box, "touch", *[f"{number}-{'x' * 200}" for number in range(5000)])
    await until(lambda: box._process is not None and not processes_of(box))
    assert os.listdir(workspace) == []
    await box.kill_all()
    assert (await run(box, "true"))[0] == 0


async def test_a_waiting_sandbox_that_was_killed_is_replaced(box: BubblewrapContainer) -> None:
    name = box.container_id
    await sh(box, "echo kept > /tmp/file")
    await until(lambda: len(processes_of(box)) >= 3)
    os.kill(processes_of(box)[0], signal.SIGKILL)
    await until(lambda: not processes_of(box))
    assert await sh(box, "cat /tmp/file") == "kept\n"
    assert box.container_id == name


# Stop and timeout leave no process


SURVIVOR = "./setsid sh -c '(./setsid sleep {0} &) ; sleep {0}' & ./setsid sleep {0} & "


async def test_what_a_command_left_running_ends_with_it(box: BubblewrapContainer, workspace: Path) -> None:
    give(workspace, "setsid")
    code, _, err = await run(box, "sh", "-c", SURVIVOR.format(LONG + "01") + "sleep 0.2")
    assert (code, err) == (0, "")
    assert not on_the_host(LONG + "01")
    assert left_in(box) == []


async def test_stop_leaves_no_process_of_one_that_forks_twice_and_calls_setsid(
    box: BubblewrapContainer, workspace: Path
) -> None:
    give(workspace, "setsid")
    with trio.move_on_after(0.5):
        await run(box, "sh", "-c", SURVIVOR.format(LONG + "02") + f"sleep {LONG}02")
    assert len(on_the_host(LONG + "02")) >= 3, "a cancelled command goes on until it is killed"
    before = trio.current_time()
    await box.kill_all()
    assert not on_the_host(LONG + "02")
    assert left_in(box) == []
    assert trio.current_time() - before < 2
    assert await run(box, "echo", "next") == (0, "next\n", "")


async def test_kill_ends_a_command_that_someone_waits_for(box: BubblewrapContainer) -> None:
    codes = []

    async def wait() -> None:
        codes.append((await run(box, "sh", "-c", "trap '' TERM INT HUP; sleep " + LONG + "03"))[0])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await until(lambda: bool(on_the_host(LONG + "03")))
        await box.kill_all()
    assert codes == [137]


async def test_kill_right_after_the_start_of_a_command_leaves_nothing(box: BubblewrapContainer) -> None:
    name = box.container_id
    for moment in range(40):
        with trio.move_on_after(moment * 0.0004):
            await run(box, "sleep", LONG + "04")
        await box.kill_all()
        assert left_in(box) == []
    assert box.container_id == name
    assert not on_the_host(LONG + "04")


async def test_kill_with_nothing_running_is_no_error(box: BubblewrapContainer) -> None:
    await box.kill_all()
    await box.kill_all()
    assert (await run(box, "true"))[0] == 0


async def test_a_fork_bomb_is_killed_within_two_seconds(box: BubblewrapContainer) -> None:
    name = box.container_id
    with trio.move_on_after(0.5):
        await run(box, "bash", "-c", "bomb() { bomb | bomb & }; bomb; sleep " + LONG + "05")
    before = trio.current_time()
    await box.kill_all()
    assert trio.current_time() - before < 2
    assert box.container_id == name, "and that without a new sandbox"
    assert left_in(box) == []


async def test_a_box_that_cannot_prove_it_is_started_afresh(
    box: BubblewrapContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_module, "KILL_S", 0.3)
    name = box.container_id
    with trio.move_on_after(0.3):
        await run(box, "sleep", LONG + "06")
    os.kill(box.keeper, signal.SIGSTOP)
    await box.kill_all()
    assert not on_the_host(LONG + "06")
    assert box.container_id != name
    assert await run(box, "echo", "next") == (0, "next\n", "")


async def test_no_zombies_are_left_of_sixty_double_forks(box: BubblewrapContainer) -> None:
    await run(box, "sh", "-c", "for i in $(seq 60); do (sleep 0.01 &) ; done; sleep 0.2; cat /proc/*/stat")
    assert left_in(box) == []


async def test_no_zombies_are_left_while_a_command_goes_on(box: BubblewrapContainer) -> None:
    forks = "i=0; while [ $i -lt 60 ]; do (sleep 0.001 &) ; i=$((i+1)); done; sleep 0.5; "
    assert ") Z " not in await sh(box, forks + "cat /proc/[0-9]*/stat")


# Bounds


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def other_chat_is_fine(engine: BubblewrapEngine, tmp_path: Path, bomb: Callable[[], object]) -> None:
    """Another chat's commands, while something goes on here."""
    other = await engine.create("other", make(tmp_path, "other"))
    bomb()
    for _ in range(5):
        with trio.fail_after(30):
            assert await run(other, "sh", "-c", "sleep 0.01 | cat; echo fine") == (0, "fine\n", "")


@pytest.mark.bounds("memory")
async def test_memory_is_bounded(engine: BubblewrapEngine, box: BubblewrapContainer, tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        codes = list[int]()

        async def bomb() -> None:
            codes.append((await run(box, "sh", "-c", "tail /dev/zero & tail /dev/zero; wait"))[0])

        await other_chat_is_fine(engine, tmp_path, lambda: nursery.start_soon(bomb))
    assert codes[0] in (0, 137, 1)
    assert await run(box, "echo", "next") == (0, "next\n", "")


async def test_processes_are_bounded(
    engine: BubblewrapEngine, box: BubblewrapContainer, tmp_path: Path
) -> None:
    most = 0
    async with trio.open_nursery() as nursery:
        script = "bomb() { bomb | bomb & }; bomb; sleep " + LONG + "07"
        await other_chat_is_fine(engine, tmp_path, lambda: nursery.start_soon(run, box, "bash", "-c", script))
        for _ in range(20):
            most = max(most, len(processes_of(box)))
            await trio.sleep(0.02)
        await box.kill_all()
        nursery.cancel_scope.cancel()
    assert SMALL.pids // 2 < most <= SMALL.pids + 3
    assert await run(box, "echo", "next") == (0, "next\n", "")


async def test_processes_are_bounded_without_control_groups_too(tmp_path: Path) -> None:
    none = Cgroups(INSTALLATION, root=tmp_path / "none")
    engine = BubblewrapEngine(tmp_path, INSTALLATION, SMALL, cgroups=none)
    assert len(engine.degraded) >= 2
    assert all(sentence.endswith(".") for sentence in engine.degraded)
    box = await engine.create("chat", make(tmp_path, "chat"))
    code, _, err = await run(box, "sh", "-c", "i=0; while [ $i -lt 200 ]; do sleep 5 & i=$((i+1)); done")
    assert code != 0
    assert "fork" in err
    code, _, _ = await run(box, "tail", "/dev/zero")
    assert code != 0, "the memory of one process is bounded as well"
    await engine.remove("chat")


async def test_without_control_groups_commands_have_a_low_priority(tmp_path: Path) -> None:
    if not Path("/proc/self/autogroup").exists():
        pytest.skip("this kernel does not weigh sessions against each other")
    none = Cgroups(INSTALLATION, root=tmp_path / "none")
    engine = BubblewrapEngine(tmp_path, INSTALLATION, SMALL, cgroups=none)
    box = await engine.create("chat", make(tmp_path, "chat"))
    # The kernel accepts one change in 0.1 s from all users, and a command does not wait for that.
    while not (await sh(box, "cat /proc/self/autogroup")).endswith("nice 10\n"):
        pass
    await engine.remove("chat")


@pytest.mark.bounds("cpu")
async def test_processor_time_is_bounded(engine: BubblewrapEngine, box: BubblewrapContainer) -> None:
    used = 0.0
    with trio.move_on_after(1.2):
        async with trio.open_nursery() as nursery:
            spin = "for i in 1 2 3 4; do yes > /dev/null & done; wait"
            nursery.start_soon(run, box, "sh", "-c", spin)
            await trio.sleep(1.1)
            used = sum(map(processor_seconds, processes_of(box)))
    await box.kill_all()
    assert 0.05 < used < 1.1 * SMALL.cpus + 0.25


async def test_tmp_is_bounded_in_bytes_and_files(box: BubblewrapContainer) -> None:
    assert "No space" in await sh(box, "cat /dev/zero > /tmp/fill; stat -c %s /tmp/fill")
    assert "No space" in await sh(box, "rm /tmp/fill; for i in $(seq 20000); do : > /tmp/$i || exit; done")
    assert await sh(box, "rm -r /tmp/*; echo room > /tmp/x; cat /tmp/x") == "room\n"


async def test_shared_memory_is_bounded(box: BubblewrapContainer) -> None:
    assert "No space" in await sh(box, "cat /dev/zero > /dev/shm/fill")


async def test_no_file_grows_without_bound(box: BubblewrapContainer, workspace: Path) -> None:
    assert (await run(box, "sh", "-c", "exec cat /dev/zero > fill"))[0] != 0
    assert (workspace / "fill").stat().st_size <= 2 * SMALL.workspace_bytes


async def test_output_flows_through_with_flat_memory(box: BubblewrapContainer) -> None:
    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    total, before = 0, resident_bytes()

    def count(chunk: bytes) -> None:
        nonlocal total
        total += len(chunk)

    with trio.move_on_after(0.5):
        await box.execute(Command(("yes",)), count, count)
    await box.kill_all()
    assert total > 5 * MB
    assert resident_bytes() - before < 20 * MB


# Privileges and network


async def test_a_command_has_no_capabilities_no_new_privileges_and_a_filter(box: BubblewrapContainer) -> None:
    status = dict(line.split(":\t") for line in (await sh(box, "cat /proc/self/status")).splitlines())
    assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"


@pytest.mark.parametrize("program", ["unshare --user true", "unshare --net true", "mount -t tmpfs x /tmp"])
async def test_calls_that_would_widen_the_sandbox_are_denied(
    box: BubblewrapContainer, workspace: Path, program: str
) -> None:
    give(workspace, program.split()[0])
    code, _, err = await run(box, "sh", "-c", f"./{program}")
    assert code != 0
    assert re.search("not permitted|denied|must be superuser|No space|loading", err), err


async def test_there_is_no_network_and_no_abstract_socket_of_the_host(box: BubblewrapContainer) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("\0rumi-test-abstract")
        assert await sh(box, "cat /proc/net/unix | wc -l") == "1\n"
    assert len((await sh(box, "cat /proc/net/route")).splitlines()) == 1
    devices = (await sh(box, "cat /proc/net/dev")).splitlines()[2:]
    assert [line.split(":")[0].strip() for line in devices] == ["lo"]
    assert "No such file" in await sh(box, "cat /etc/resolv.conf")


@pytest.mark.parametrize("flag", ["0x1", "0"], ids=["refused", "the host's own"])
async def test_without_a_network_of_its_own_no_sandbox_starts(
    engine: BubblewrapEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    source = Path(keeper.__file__).read_text()
    assert source.count(", 0x40000000\n") == 1
    changed = tmp_path / "keeper.py"
    changed.write_text(source.replace(", 0x40000000\n", f", {flag}\n"))
    monkeypatch.setattr(keeper, "__file__", str(changed))
    with pytest.raises(SandboxError, match=r"network namespace: Invalid|Operation not permitted"):
        await engine.create("chat", make(tmp_path, "chat"))


async def test_a_command_sees_neither_host_processes_nor_other_chats(
    engine: BubblewrapEngine, box: BubblewrapContainer, tmp_path: Path
) -> None:
    other = await engine.create("other", make(tmp_path, "other"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, other, "sleep", LONG + "08")
        await until(lambda: bool(on_the_host(LONG + "08")))
        seen = await sh(box, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        assert LONG + "08" not in seen
        assert "keeper" not in seen
        await other.kill_all()


# Boxes are live chats


async def test_a_box_is_listed_from_its_start_to_its_removal(
    engine: BubblewrapEngine, box: BubblewrapContainer
) -> None:
    [info] = await engine.containers()
    assert (info.name, info.chat_id) == (f"rumi-runner-chat-{INSTALLATION}", "chat")
    assert (info.container_id, info.state) == (box.container_id, "running")
    await engine.remove("chat")
    assert await engine.containers() == []
    await engine.remove("chat")


async def test_removal_ends_a_running_command(engine: BubblewrapEngine, box: BubblewrapContainer) -> None:
    with trio.move_on_after(0.3):
        await run(box, "sleep", LONG + "09")
    await engine.remove("chat")
    assert not on_the_host(LONG + "09")
    assert not Cgroups(INSTALLATION).leftovers()
    with pytest.raises(SandboxError, match="has ended"):
        await run(box, "true")


async def test_a_create_that_is_cancelled_at_any_moment_can_be_removed(
    engine: BubblewrapEngine, workspace: Path
) -> None:
    await engine.create("chat", workspace)
    for moment in range(0, 60, 5):
        with trio.move_on_after(moment / 1000):
            await engine.create("chat", workspace)
        await engine.remove("chat")
        assert await engine.containers() == []
        assert not Cgroups(INSTALLATION).leftovers()


async def test_a_keeper_that_dies_is_noticed_and_takes_its_command_along(
    engine: BubblewrapEngine, box: BubblewrapContainer, workspace: Path
) -> None:
    errors = []

    async def run_until_lost() -> None:
        try:
            await run(box, "sleep", LONG + "10")
        except SandboxError as error:
            errors.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_until_lost)
        await until(lambda: bool(on_the_host(LONG + "10")))
        assert box._process is not None
        os.kill(box._process.pid, signal.SIGKILL)
    assert [(type(error), error.message) for error in errors] == [(SandboxError, "The sandbox has ended.")]
    await until(lambda: not on_the_host(LONG + "10"))
    assert [info.state for info in await engine.containers()] == ["dead"]
    with pytest.raises(ContainerGoneError):
        await run(box, "true")
    again = await engine.create("chat", workspace)
    assert (await run(again, "true"))[0] == 0


@pytest.mark.long
async def test_a_keeper_that_dies_at_any_moment_leaves_nothing_behind(
    engine: BubblewrapEngine, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_module, "KILL_S", 0.5)
    for moment in range(24):
        box = await engine.create("chat", workspace)
        with pytest.raises(SandboxError), trio.fail_after(30):
            async with _killed_after(box, moment * 0.0005):
                await run(box, "sleep", LONG + "12")
        await engine.remove("chat")
        if Cgroups(INSTALLATION).kind in ("v1", "v2"):
            assert not on_the_host(LONG + "12")
        # Without control groups nobody can wait for the last of what the kernel has killed already.
        await until(lambda: not on_the_host(LONG + "12"))
        assert not named(f"-{INSTALLATION}")


@contextlib.asynccontextmanager
async def _killed_after(box: BubblewrapContainer, seconds: float) -> AsyncIterator[None]:
    process = box._process
    assert process is not None
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.join()


PROGRAM = """
import sys
from pathlib import Path
import trio
from rumi.sandbox.engine import Command, SandboxLimits
from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
from rumi.sandbox.workspace import prepare_workspace
from runner import init as runner_init

async def main():
    home = Path(sys.argv[1])
    engine = BubblewrapEngine(home, sys.argv[3], SandboxLimits())
    box = await engine.create("killed", prepare_workspace(home, "killed", *engine.user))
    print(await engine.probe(), flush=True)
    code = await box.execute(Command(("sh", "-c", "echo started; exec sleep " + sys.argv[2])),
                             lambda chunk: print(chunk.decode(), flush=True), print)
    print("ended", code, flush=True)
    await engine.remove("killed")

trio.run(main)
"""


@contextlib.asynccontextmanager
async def _program(home: Path, seconds: str) -> AsyncIterator[None]:
    """A program whose sandbox runs a command; it is killed at the end."""
    words = [sys.executable, "-c", PROGRAM, str(home), seconds, INSTALLATION]
    program = subprocess.Popen(words, stdout=subprocess.PIPE)  # noqa: ASYNC220 - its end is not trio's business
    assert program.stdout is not None
    try:
        await trio.to_thread.run_sync(program.stdout.readline)
        assert await trio.to_thread.run_sync(program.stdout.readline) == b"started\n"
        yield
    finally:
        program.kill()
        program.wait()
        program.stdout.close()


async def test_kill_9_of_the_program_ends_all_and_the_next_start_clears_up(
    tmp_path: Path, engine: BubblewrapEngine
) -> None:
    async with _program(tmp_path, LONG + "11"):
        pass
    await until(lambda: not on_the_host(LONG + "11"))
    await until(lambda: not on_the_host(f"workspace={tmp_path}/workspace/killed"))
    foreign = Cgroups(FOREIGN).create("killed", SMALL)
    root = Supervisor("test")
    root.add(ChildSpec("registry", lambda: ContainerRegistry(engine)))
    async with root.running():  # it has no need to make a container
        assert not Cgroups(INSTALLATION).leftovers()
    if foreign is not None:
        assert Cgroups(FOREIGN).leftovers() == [foreign]
        await foreign.remove()


async def test_probing_and_asking_leave_the_boxes_of_a_running_program_alone(tmp_path: Path) -> None:
    async with _program(tmp_path, LONG + "13"):
        another = BubblewrapEngine(tmp_path, INSTALLATION, SMALL)  # as `rumi doctor` makes one
        assert await another.probe() == ""
        assert await another.containers() == []
        await another.aclose()
        assert len(on_the_host(LONG + "13")) > 1, "the program itself and its command"
    await until(lambda: not on_the_host(LONG + "13"))
    await BubblewrapEngine(tmp_path, INSTALLATION, SMALL).sweep()
    assert not Cgroups(INSTALLATION).leftovers()


def test_it_works_for_an_ordinary_user() -> None:
    python = "/usr/bin/python3"
    if os.getuid() != 0:
        pytest.skip("every other test shows it: this user is no root")
    home = Path("/tmp") / f"rumi-test-{os.getpid()}"  # reachable for anyone, as a home of one's own is
    home.mkdir(mode=0o777)
    os.chown(home, 1234, 1234)
    try:
        ended = subprocess.run(
            [python, "-c", PROGRAM, str(home), "0", INSTALLATION],
            env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "HOME": str(home)},
            cwd="/",
            user=1234,
            group=1234,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if "No module named" in ended.stderr or "cannot import" in ended.stderr:
            pytest.skip(f"no Python that another user may run with these packages: {ended.stderr[-200:]}")
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.split() == ["started", "ended", "0"]
    finally:
        shutil.rmtree(home)


async def test_probe_is_silent_where_it_works_and_leaves_nothing(
    engine: BubblewrapEngine, tmp_path: Path
) -> None:
    assert await engine.probe() == ""
    assert await engine.containers() == []
    names = {path.name.rpartition("-")[0] or path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"skills", "first-process"}


async def test_probe_says_why_it_does_not_work(
    engine: BubblewrapEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rumi.sandbox.bubblewrap.engine.find_bwrap", lambda: (Path("/bin/false"), None))
    why = await engine.probe()
    assert why.startswith("The sandbox")
    assert await engine.containers() == []


async def test_a_box_is_not_started_outside_the_main_thread(
    engine: BubblewrapEngine, workspace: Path
) -> None:
    def elsewhere() -> None:
        trio.run(engine.create, "chat", workspace)

    before = time.perf_counter()
    with pytest.raises(SandboxError, match="main thread"):
        await trio.to_thread.run_sync(elsewhere)
    assert time.perf_counter() - before < 5


async def test_what_runs_in_a_box_is_seen_at_a_glance(box: BubblewrapContainer) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, box, "sh", "-c", f"sleep {LONG}61 | sleep {LONG}61 | sleep {LONG}61")

        await until(lambda: len(on_the_host(f"{LONG}61")) == 3)
        assert set(on_the_host(f"{LONG}61")) <= set(box.processes())
        assert sorted(box.processes()) == sorted(processes_of(box))
        await box.kill_all()


def test_the_children_of_all_threads_are_seen_at_a_glance() -> None:
    started: list[subprocess.Popen[bytes]] = []
    done = threading.Event()

    def start() -> None:
        started.append(subprocess.Popen(["sleep", f"{LONG}62"]))
        done.wait()

    thread = threading.Thread(target=start)
    thread.start()
    try:
        while not started:
            time.sleep(0.01)
        assert started[0].pid in descendants_at_a_glance(os.getpid())
    finally:
        done.set()
        thread.join()
        started[0].kill()
        started[0].wait()


def test_a_kernel_without_lists_of_children_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid, parent in ((10, 1), (11, 10), (12, 11), (13, 1)):
        (tmp_path / f"{pid}/task/{pid}").mkdir(parents=True)
        (tmp_path / f"{pid}/stat").write_text(f"{pid} (a) b) S {parent} 0 0")
    monkeypatch.setattr(processes_module, "PROC", tmp_path)
    assert sorted(descendants_at_a_glance(10)) == [11, 12]
    assert descendants_at_a_glance(14) == []


async def test_without_a_compiler_an_unreadable_shell_is_the_first_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_init, "COMPILERS", ())
    runner_init.compiled.cache_clear()
    for cgroups in (None, Cgroups(INSTALLATION, root=tmp_path / "none")):
        engine = BubblewrapEngine(tmp_path, INSTALLATION, SMALL, cgroups=cgroups)
        box = await engine.create("chat", make(tmp_path, "chat"))
        assert await run(box, "sh", "-c", "echo out; echo err >&2; exit 3") == (3, "out\n", "err\n")
        assert (await run(box, "sh", "-c", "kill -TERM $$"))[0] == 143
        assert (await run(box, "no-such-program"))[0] == 127
        assert (await run(box, "ls", "/proc/self/fd"))[1].split() == ["0", "1", "2", "3"]
        assert "bash -c" in (await sh(box, "tr '\\0' ' ' < /proc/1/cmdline")).replace("init -c", "bash -c")
        assert (await sh(box, "cat /proc/1/mem /proc/1/environ")).count("Permission denied") == 2
        assert "ermi" in await sh(box, "echo 1 > /proc/1/oom_score_adj")
        await run(box, "sh", "-c", f"(trap '' HUP; sleep {LONG}71 &); sleep 0.1")
        assert not on_the_host(LONG + "71")
        with trio.move_on_after(0.2):
            await run(box, "sleep", LONG + "72")
        await box.kill_all()
        assert not on_the_host(LONG + "72")
        await engine.remove("chat")
    runner_init.compiled.cache_clear()
