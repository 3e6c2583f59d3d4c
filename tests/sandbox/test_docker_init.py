"""The first process of a container, which starts and ends commands; beside Docker's exec, which also can."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from actors import Supervisor
from rumi.sandbox.docker import init
from rumi.sandbox.docker.container import DockerContainer
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.docker.image import build_image
from rumi.sandbox.docker.init import InitListener
from rumi.sandbox.engine import Command, SandboxError, SandboxLimits
from rumi.sandbox.sandboxes import Sandboxes, add_sandboxes
from runner import init as runner_init
from tests.fakes import probe
from tests.fakes.engines import cleaned_up

docker = pytest.mark.docker
needs_probe = pytest.mark.skipif(not probe.HERE, reason="the probes are programs for x86-64")
LIMITS = SandboxLimits(timeout_s=10)


def ignore(_: bytes) -> None:
    pass


@pytest.fixture
async def engine(docker_image: str, new_installation: str, tmp_path: Path) -> AsyncIterator[DockerEngine]:
    engine = DockerEngine(new_installation, LIMITS, image=docker_image, home=tmp_path / "home")
    async with cleaned_up(engine):
        yield engine


@pytest.fixture
async def sandboxes(engine: DockerEngine, tmp_path: Path) -> AsyncIterator[Sandboxes]:
    root = Supervisor("root")
    sandboxes = add_sandboxes(root, engine, LIMITS, tmp_path / "home")
    async with root.running():
        yield sandboxes


@pytest.fixture
async def box(engine: DockerEngine, tmp_path: Path) -> DockerContainer:
    box = await engine.create("chat", open_folder(tmp_path / "workspace"))
    assert box.init is not None
    return box


def open_folder(folder: Path) -> Path:
    folder.mkdir()
    folder.chmod(0o777)
    return folder


async def text(box: DockerContainer, script: str, stdin: bytes = b"") -> str:
    out, err = bytearray(), bytearray()
    await box.execute(Command(("bash", "-c", script), stdin), out.extend, err.extend)
    return (out + err).decode()


async def until_gone(container_id: str, within_s: float) -> None:
    with trio.fail_after(within_s):
        while True:
            listed = ["docker", "ps", "--all", "--quiet", "--filter", f"id={container_id}"]
            if not (await trio.run_process(listed, capture_stdout=True)).stdout:
                return
            await trio.sleep(0.01)


# The socket of the host


async def test_only_the_expected_process_is_accepted(autojump_clock: MockClock, tmp_path: Path) -> None:
    listener = InitListener(tmp_path / ("a-long-name/" * 15), "container", (os.getuid(), os.getgid()))
    assert listener.path.stat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        here = os.open(listener.path.parent, os.O_PATH)
        stranger.connect(f"/proc/self/fd/{here}/{listener.path.name}")
        os.close(here)
        assert await listener.accept(os.getpid() + 1) is None
        assert stranger.recv(1) == b"", "it was sent away"
    listener.close()
    assert not listener.path.exists()


async def test_a_socket_that_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    user = os.getuid(), os.getgid()
    InitListener(tmp_path, "container", user)._socket.close()
    assert len(list(tmp_path.iterdir())) == 1
    InitListener(tmp_path, "container", user).close()
    assert not list(tmp_path.iterdir())


# Commands


CONDITIONS = """
env | sort; ulimit -a; umask; id; pwd; nice 2>&1; cat /proc/self/oom_score_adj
grep -E '^(Sig|Shd|Cap|NoNewPrivs|Seccomp|Groups|Uid|Gid|CoreDumping)' /proc/$$/status | grep -v SigQ
for n in 0 1 2 3 4 5 6 7 8 9; do [[ -e /proc/$$/fd/$n ]] && stat -Lc "$n %F %u" /proc/$$/fd/$n; done
read -ra stat < /proc/$$/stat; [[ ${stat[5]} == $$ ]] && echo "leads its session"
echo out > /dev/stdout; echo err > /dev/stderr
"""


@docker
async def test_a_command_has_the_same_conditions_as_with_exec(
    box: DockerContainer, engine: DockerEngine, docker_image: str, new_installation: str, tmp_path: Path
) -> None:
    without_home = DockerEngine(f"{new_installation}x", LIMITS, image=docker_image, user=engine.user)
    async with cleaned_up(without_home):
        by_exec = await without_home.create("chat", open_folder(tmp_path / "other"))
        assert isinstance(by_exec, DockerContainer)
        assert by_exec.init is None
        theirs = await text(by_exec, CONDITIONS)
    # Only with a home the user's number has a name.
    assert (await text(box, CONDITIONS)).replace("(runner)", "") == theirs.replace("(runner)", "")
    assert "leads its session" in theirs


@docker
async def test_a_command_that_closes_its_streams_runs_to_its_end(box: DockerContainer) -> None:
    script = "exec >&- 2>&- <&-; sleep 0.3; exit 5"
    assert await box.execute(Command(("bash", "-c", script)), ignore, ignore) == 5


@docker
async def test_what_a_command_left_holding_its_streams_does_not_delay_it(box: DockerContainer) -> None:
    with trio.fail_after(1.5):
        assert await text(box, "(trap '' TERM HUP; sleep 1000 &) ; echo done") == "done\n"
    assert await text(box, "echo /proc/[0-9]*") == f"/proc/1 /proc/{await own_pid(box)}\n"


async def own_pid(box: DockerContainer) -> int:
    """The pid that the last command had: each takes the next number."""
    return int(await text(box, "echo $$")) - 1


@docker
async def test_words_and_input_of_any_length_arrive(box: DockerContainer) -> None:
    long = "x" * 100_000
    words = ("bash", "-c", 'echo "$# ${#1} $(wc -c)"', "sh", *([long] * 9))
    said = bytearray()
    assert await box.execute(Command(words, b"y" * 5_000_000), said.extend, ignore) == 0
    assert said == b"9 100000 5000000\n"


@docker
async def test_a_hundred_thousand_words_too_many_are_an_error_in_words(box: DockerContainer) -> None:
    said = bytearray()
    assert await box.execute(Command(("echo", *["x" * 100] * 100_000)), ignore, said.extend) == 126
    assert b"Argument list too long" in said


# The first process is out of reach


@docker
async def test_no_command_reaches_the_first_process_or_its_connection(box: DockerContainer) -> None:
    signals = "for ((n = 1; n < 65; n++)); do kill -$n 1 2>/dev/null; done; "
    files = "ls /proc/1/fd; cat /proc/1/mem /proc/1/environ /proc/1/maps; echo 1 > /proc/1/oom_score_adj"
    said = await text(box, f"{signals} {files}; : < /usr/lib/rumi/init; echo x > /run/rumi; rm /run/rumi")
    assert said.count("Permission denied") >= 5, said
    assert await text(box, "echo still there") == "still there\n"


@docker
@needs_probe
async def test_no_call_traces_the_first_process_or_takes_its_descriptors(
    box: DockerContainer, tmp_path: Path
) -> None:
    ptrace, pidfd_open, pidfd_getfd = 101, 434, 438
    attach, seize = 16, 0x4206
    connect_again = probe.calls(
        [
            (ptrace, attach, 1),
            (ptrace, seize, 1),
            (pidfd_open, 1),
            *((pidfd_getfd, 3, fd) for fd in range(3, 9)),
        ]
    )
    (tmp_path / "workspace/probe").write_bytes(connect_again)
    (tmp_path / "workspace/probe").chmod(0o755)
    said = bytearray()
    await box.execute(Command(("./probe",)), said.extend, ignore)
    attached, seized, _, *taken = probe.results(bytes(said))
    assert attached < 0
    assert seized < 0
    assert all(result < 0 for result in taken)
    assert await text(box, "echo still there") == "still there\n"


@docker
@needs_probe
async def test_a_first_process_with_changed_limits_starts_nothing_more(
    sandboxes: Sandboxes, tmp_path: Path
) -> None:
    prlimit, limit_of_files, address = 302, 7, probe.ADDRESS
    # The "limit" is read from the program's own first bytes: any number will do.
    assert (await sandboxes.run("chat", Command(("true",)))).exit_code == 0
    before = sandboxes.container_id("chat")
    program = sandboxes.workspace("chat") / "probe"
    program.write_bytes(probe.calls([(prlimit, 1, limit_of_files, address + 24)]))
    program.chmod(0o755)
    changed = await sandboxes.run("chat", Command(("./probe",)))
    again = await sandboxes.run("chat", Command(("echo", "fine")))
    assert again.stdout.text() == "fine\n"
    if probe.results(changed.stdout.head) == [0]:
        assert sandboxes.container_id("chat") != before


# Its end


HOLDER = """
import sys, trio
from pathlib import Path
from actors import Supervisor
from rumi.sandbox.engine import Command, SandboxLimits
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.sandboxes import add_sandboxes
async def main(installation, image, home):
    root = Supervisor("root")
    engine = DockerEngine(installation, SandboxLimits(), image=image, home=Path(home))
    sandboxes = add_sandboxes(root, engine, SandboxLimits(), Path(home))
    async with root.running():
        await sandboxes.prepare("idle")
        await sandboxes.prepare("busy")
        print(sandboxes.container_id("idle"), sandboxes.container_id("busy"), flush=True)
        await sandboxes.run("busy", Command(("sh", "-c", "trap '' TERM HUP; sleep 1000 & sleep 1000")))
trio.run(main, *sys.argv[1:])
"""


@docker
@pytest.mark.parametrize("deleted", [False, True])
async def test_a_killed_rumi_leaves_no_container_even_without_its_home(
    docker_image: str, engine: DockerEngine, new_installation: str, tmp_path: Path, deleted: bool
) -> None:
    home = tmp_path / "home"
    words = [sys.executable, "-c", HOLDER, new_installation, docker_image, str(home)]
    process = await trio.lowlevel.open_process(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with trio.fail_after(30):
        ids = (await process.stdout.receive_some()).decode().split()
    await trio.sleep(0.3)
    if deleted:
        shutil.rmtree(home)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    await process.stdout.aclose()
    # It ends at once; that the daemon has removed it may take longer on a busy machine.
    for container_id in ids:
        await until_gone(container_id, 5)
    assert await engine.containers() == []


@docker
async def test_a_killed_rumi_leaves_no_container_without_our_first_process(
    docker_image: str, new_installation: str, tmp_path: Path
) -> None:
    without_home = HOLDER.replace("home=Path(home)", "user=(1234, 1234)")
    words = [sys.executable, "-c", without_home, new_installation, docker_image, str(tmp_path)]
    process = await trio.lowlevel.open_process(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    said = b""
    with trio.fail_after(30):
        while b"\n" not in said:
            said += await process.stdout.receive_some()
    process.send_signal(signal.SIGKILL)
    await process.wait()
    await process.stdout.aclose()
    for container_id in said.decode().split():
        await until_gone(container_id, 10)


@docker
async def test_its_end_during_a_command_is_told_and_the_next_gets_another(
    sandboxes: Sandboxes, engine: DockerEngine
) -> None:
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def cut() -> None:
            await trio.sleep(0.5)
            engine._inits["chat"].close()

        result = await sandboxes.run("chat", Command(("sh", "-c", "echo begun; sleep 30")))
    assert (result.ended, result.stdout.text()) == ("lost", "begun\n")
    assert (await sandboxes.run("chat", Command(("echo", "next")))).stdout.text() == "next\n"


@pytest.mark.long
@docker
async def test_a_first_process_that_does_not_answer_costs_its_container(sandboxes: Sandboxes) -> None:
    await sandboxes.run("chat", Command(("true",)))
    before = sandboxes.container_id("chat")
    found = ["docker", "inspect", "--format", "{{.State.Pid}}", before]
    os.kill(int((await trio.run_process(found, capture_stdout=True)).stdout), signal.SIGSTOP)
    result = await sandboxes.run("chat", Command(("echo", "once")), timeout_s=0.5)
    assert result.stdout.text() == "once\n", "it was not begun there, so another container runs it"
    assert result.container_id == sandboxes.container_id("chat") != before


# Where Docker's exec starts the commands


@docker
async def test_a_process_that_does_not_connect_leaves_it_to_exec(
    engine: DockerEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(init, "CONNECT_S", 0.5)
    monkeypatch.setattr(init, "_peer", lambda _: 0)  # as in a container, which does not see the daemon's pids
    box = await engine.create("chat", open_folder(tmp_path / "workspace"))
    assert box.init is None
    assert await text(box, "echo yes") == "yes\n"
    assert await engine.starts_by_exec() == "a container's first process did not connect"
    again = await engine.create("other", open_folder(tmp_path / "other"))
    assert again.init is None
    assert await text(again, "echo yes") == "yes\n"


@docker
async def test_a_home_without_room_for_a_socket_leaves_it_to_exec(
    engine: DockerEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_socket(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("rumi.sandbox.docker.engine.InitListener", no_socket)
    box = await engine.create("chat", open_folder(tmp_path / "workspace"))
    assert box.init is None
    assert await text(box, "echo yes") == "yes\n"
    assert "no socket can be made" in await engine.starts_by_exec()


@docker
async def test_an_image_made_without_a_compiler_leaves_it_to_exec(
    monkeypatch: pytest.MonkeyPatch, new_installation: str, tmp_path: Path
) -> None:
    monkeypatch.setattr(runner_init, "COMPILERS", ())
    name, lines = f"rumi-runner-tests:{new_installation}", list[str]()
    try:
        report = await build_image(name, lines.append, sources=("host",))
        assert report.by_exec == "the image has no program for it"
        assert any("no C compiler" in line for line in lines)
        engine = DockerEngine(new_installation, LIMITS, image=name, home=tmp_path / "home")
        async with cleaned_up(engine):
            box = await engine.create("chat", open_folder(tmp_path / "workspace"))
            assert box.init is None
            assert await text(box, "echo yes") == "yes\n"
    finally:
        await trio.run_process(["docker", "rmi", "--force", name], capture_stdout=True)


async def test_a_daemon_elsewhere_is_left_to_exec(tmp_path: Path) -> None:
    engine = DockerEngine("me", LIMITS, address="tcp://127.0.0.1:1", home=tmp_path)
    assert await engine.starts_by_exec() == "the daemon is on another machine"
    await engine.aclose()


def test_a_compiler_that_cannot_link_statically_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'cannot find -lc' >&2; exit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setattr(runner_init, "COMPILERS", (str(compiler),))
    with pytest.raises(runner_init.InitError, match="cannot find -lc"):
        runner_init.compile_init(tmp_path / "init")


@docker
async def test_few_processes_leave_no_room_and_the_kill_needs_none(
    docker_image: str, new_installation: str, tmp_path: Path
) -> None:
    limits = replace(LIMITS, pids=12)
    engine = DockerEngine(f"{new_installation}x", limits, image=docker_image, home=tmp_path / "home")
    async with cleaned_up(engine):
        box = await engine.create("chat", open_folder(tmp_path / "workspace"))
        assert isinstance(box, DockerContainer)
        with trio.move_on_after(1):
            full = "while :; do sleep 1000 & done 2>/dev/null"
            await box.execute(Command(("bash", "-c", full)), ignore, ignore)
        with trio.fail_after(2):
            await box.kill_all()
        assert inspected_pids(box) == 1
        assert await text(box, "echo next") == "next\n"


def inspected_pids(box: DockerContainer) -> int:
    assert box._tasks_file is not None
    return int(box._tasks_file.read_text())


@docker
async def test_a_container_without_a_connection_begins_no_command(
    engine: DockerEngine, box: DockerContainer
) -> None:
    await engine.remove("chat")
    with pytest.raises(SandboxError, match="is gone"):
        await box.execute(Command(("true",)), ignore, ignore)
