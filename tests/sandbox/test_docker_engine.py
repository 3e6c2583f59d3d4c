"""The Docker engine against a daemon that misbehaves, in virtual time, and against the real one."""

import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from actors import Supervisor
from rumi.sandbox.docker.container import DockerContainer
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.engine import Command, ContainerGoneError, Engine, SandboxError, SandboxLimits
from rumi.sandbox.sandboxes import add_sandboxes
from rumi.sandbox.use import Processes
from rumi.sandbox.workspace import WorkspaceUse
from tests.fakes.docker_daemon import FakeDaemon, fake_daemon
from tests.fakes.engines import MakeEngine, cleaned_up

LIMITS = SandboxLimits(timeout_s=5)


def ignore(_: bytes) -> None:
    pass


async def no_use(_: Path, __: Processes) -> WorkspaceUse:
    await trio.lowlevel.checkpoint()
    return WorkspaceUse(0, 0)


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[FakeDaemon]:
    async with fake_daemon(tmp_path) as daemon:
        yield daemon


@pytest.fixture
async def engine(daemon: FakeDaemon) -> AsyncIterator[DockerEngine]:
    engine = DockerEngine("me", LIMITS, address=daemon.address)
    yield engine
    await engine.aclose()


# A daemon that misbehaves


async def test_no_daemon_is_one_sentence_and_what_to_do(tmp_path: Path) -> None:
    engine = DockerEngine("me", LIMITS, address=f"unix://{tmp_path}/none.sock")
    with pytest.raises(SandboxError, match=r"No Docker daemon answers .*systemctl start docker"):
        await engine.create("a", tmp_path)
    await engine.aclose()


async def test_a_daemon_that_is_not_docker_or_too_old_is_refused(
    daemon: FakeDaemon, engine: DockerEngine, tmp_path: Path
) -> None:
    daemon.api_version = ""
    with pytest.raises(SandboxError, match="is not Docker"):
        await engine.containers()
    daemon.api_version = "1.24"
    with pytest.raises(SandboxError, match="too old"):
        await engine.containers()


@pytest.mark.parametrize("address", ["ssh://host", "npipe:////./pipe/docker", "nonsense"])
async def test_addresses_of_other_kinds_are_named(address: str) -> None:
    with pytest.raises(SandboxError, match="unix:// and tcp://"):
        DockerEngine("me", LIMITS, address=address)


async def test_docker_host_is_honoured(daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", daemon.address)
    engine = DockerEngine("me", LIMITS)
    assert await engine.containers() == []
    await engine.aclose()


async def test_a_missing_image_names_the_command_that_makes_it(
    daemon: FakeDaemon, engine: DockerEngine, tmp_path: Path
) -> None:
    daemon.scripted["POST /containers/create"] = [(404, {"message": "No such image: rumi-runner:latest"})]
    with pytest.raises(SandboxError, match="rumi debug sandbox build"):
        await engine.create("a", tmp_path)


async def test_a_container_of_the_same_name_is_replaced(
    daemon: FakeDaemon, engine: DockerEngine, tmp_path: Path
) -> None:
    first = await engine.create("a", tmp_path)
    second = await engine.create("a", tmp_path)
    assert first.container_id != second.container_id
    assert len(daemon.containers) == 1


async def test_a_removal_under_way_is_waited_for(
    autojump_clock: MockClock, daemon: FakeDaemon, engine: DockerEngine, tmp_path: Path
) -> None:
    await engine.create("a", tmp_path)
    daemon.scripted["DELETE"] = [(409, {"message": "removal of container a is already in progress"})] * 4
    await engine.remove("a")
    assert daemon.containers == {}


async def test_removing_what_is_not_there_is_fine(daemon: FakeDaemon, engine: DockerEngine) -> None:
    await engine.remove("a")


@pytest.mark.parametrize("step", ["POST /containers/id", "DELETE", "GET /containers/json"])
async def test_a_daemon_that_hangs_is_an_error_in_bounded_time(
    autojump_clock: MockClock, daemon: FakeDaemon, engine: DockerEngine, tmp_path: Path, step: str
) -> None:
    await engine.containers()
    daemon.hanging.add(step)
    began = trio.current_time()
    with pytest.raises(SandboxError, match="in time"):
        if step.startswith("POST"):
            await engine.create("a", tmp_path)
        elif step == "DELETE":
            await engine.remove("a")
        else:
            await engine.containers()
    assert trio.current_time() - began <= 30


async def test_only_containers_with_our_label_and_our_name_are_ours(
    daemon: FakeDaemon, engine: DockerEngine, tmp_path: Path
) -> None:
    await engine.create("a", tmp_path)
    ours = {"rumi.installation": "me", "rumi.chat": "b"}
    daemon.containers["somebody-elses"] = {"Id": "x", "Labels": ours, "Running": True}
    assert [box.chat_id for box in await engine.containers()] == ["a"]


async def test_a_create_given_up_while_the_daemon_hangs_is_removed_when_it_wakes(
    autojump_clock: MockClock, daemon: FakeDaemon, engine: DockerEngine, tmp_path: Path
) -> None:
    await engine.containers()
    root = Supervisor("root")
    sandboxes = add_sandboxes(root, engine, LIMITS, tmp_path / "home", measure=no_use)
    async with root.running():
        daemon.hanging.add("POST /containers/create")
        with trio.move_on_after(1) as scope:
            await sandboxes.prepare("a")
        assert scope.cancelled_caught
        await trio.sleep(300)
        assert "DELETE" not in " ".join(daemon.log)  # there would be nothing yet to remove
        daemon.wake()
        await sandboxes.stop("a")
        assert daemon.containers == {}
        assert daemon.log[-1].startswith("DELETE")


async def test_a_removal_that_the_daemon_does_not_confirm_holds_the_successor_back(
    autojump_clock: MockClock, daemon: FakeDaemon, engine: DockerEngine, tmp_path: Path
) -> None:
    root = Supervisor("root")
    sandboxes = add_sandboxes(root, engine, LIMITS, tmp_path / "home", measure=no_use)
    async with root.running():
        await sandboxes.prepare("a")
        daemon.hanging.add("DELETE")
        with pytest.raises(SandboxError, match="not confirmed"):
            await sandboxes.stop("a")
        creates = sum(line.startswith("POST /containers/create") for line in daemon.log)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sandboxes.prepare, "a")
            await trio.sleep(10)
            assert sum(line.startswith("POST /containers/create") for line in daemon.log) == creates
            daemon.wake()
    assert daemon.containers == {}


async def test_a_command_on_its_way_to_start_is_not_taken_for_ended(
    autojump_clock: MockClock, daemon: FakeDaemon, engine: DockerEngine, tmp_path: Path
) -> None:
    async def silent(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    box = await engine.create("a", tmp_path)
    daemon.stream = silent
    daemon.exec_state = {"Running": False, "ExitCode": None, "Pid": 0, "ID": "e1"}
    with trio.move_on_after(1):
        await box.execute(Command(("true",)), ignore, ignore)
    await box.kill_all()
    # Nothing said that the command was over, so only the end of the container could prove it.
    assert any(line.endswith("/kill") for line in daemon.log)


async def test_a_kill_that_nothing_confirms_is_an_error_in_bounded_time(
    autojump_clock: MockClock, daemon: FakeDaemon, engine: DockerEngine, tmp_path: Path
) -> None:
    box = await engine.create("a", tmp_path)
    daemon.hanging |= {"POST /containers/id", "GET /exec"}
    began = trio.current_time()
    with pytest.raises(SandboxError, match="in time"):
        await box.kill_all()
    assert trio.current_time() - began <= 20


async def test_frames_cut_anywhere_come_out_whole(
    daemon: FakeDaemon, engine: DockerEngine, tmp_path: Path
) -> None:
    async def drip(stream: trio.SocketStream) -> None:
        for byte in b"\1\0\0\0\0\0\0\3out\2\0\0\0\0\0\0\3err\1\0\0\0\0\0\0\0":
            await stream.send_all(bytes([byte]))

    daemon.stream = drip
    box, out, err = await engine.create("a", tmp_path), bytearray(), bytearray()
    assert await box.execute(Command(("x",)), out.extend, err.extend) == 0
    assert (bytes(out), bytes(err)) == (b"out", b"err")


async def test_a_hundred_commands_at_once_do_not_keep_a_kill_waiting(
    autojump_clock: MockClock, daemon: FakeDaemon, engine: DockerEngine, tmp_path: Path
) -> None:
    async def silent(stream: trio.SocketStream) -> None:
        await trio.sleep(1000)

    daemon.stream = silent
    box = await engine.create("a", tmp_path)
    async with trio.open_nursery() as nursery:
        for _ in range(150):
            nursery.start_soon(box.execute, Command(("sleep", "100")), ignore, ignore)
        await trio.sleep(1)
        assert sum(line.endswith("/start") for line in daemon.log) == 151
        began = trio.current_time()
        assert len(await engine.containers()) == 1
        assert trio.current_time() == began
        nursery.cancel_scope.cancel()


# The real daemon


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """A workspace that any user may use."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


@pytest.fixture
async def box(docker_engine: Engine, open_folder: Path) -> DockerContainer:
    box = await docker_engine.create("chat", open_folder)
    assert isinstance(box, DockerContainer)
    return box


def inspected(container_id: str, template: str) -> str:
    done = subprocess.run(
        ["docker", "inspect", "--format", template, container_id], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.docker
async def test_the_daemon_has_taken_every_limit(docker_engine: Engine, box: DockerContainer) -> None:
    limits, (uid, gid) = SandboxLimits(), docker_engine.user
    expected = {
        "{{.Config.User}}": f"{uid}:{gid}",
        "{{.Config.WorkingDir}}": "/workspace",
        "{{.HostConfig.ReadonlyRootfs}}": "true",
        "{{.HostConfig.Privileged}}": "false",
        "{{.HostConfig.CapDrop}} {{.HostConfig.CapAdd}}": "[ALL] []",
        "{{.HostConfig.NetworkMode}}": "none",
        "{{.HostConfig.IpcMode}}": "private",
        "{{.HostConfig.PidsLimit}}": str(limits.pids),
        "{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}}": f"{limits.memory_bytes} {limits.memory_bytes}",
        "{{.HostConfig.NanoCpus}}": "1000000000",
        "{{.HostConfig.CpuShares}}": "256",
        "{{.HostConfig.LogConfig.Type}}": "none",
        "{{.HostConfig.RestartPolicy.Name}}": "no",
        "{{.HostConfig.Init}}": "false",
    }
    for template, value in expected.items():
        assert inspected(box.container_id, template) == value, template
    mounts = inspected(box.container_id, "{{range .Mounts}}{{.Destination}}:{{.RW}} {{end}}").split()
    read_only = ["/etc/group", "/etc/hosts", "/etc/passwd", "/etc/resolv.conf", "/run/rumi", "/skills"]
    assert sorted(mounts) == [*(f"{mount}:false" for mount in read_only), "/workspace:true"]
    security = inspected(box.container_id, "{{.HostConfig.SecurityOpt}}")
    assert "no-new-privileges" in security
    assert "SCMP_ACT_ERRNO" in security


@pytest.mark.docker
async def test_the_first_process_cannot_be_touched_by_commands(box: DockerContainer) -> None:
    said = bytearray()
    look = "echo x > /proc/1/oom_score_adj; exec 3<>/proc/1/mem; ls /proc/1/fd; kill -KILL 1"
    await box.execute(Command(("bash", "-c", look)), said.extend, said.extend)
    assert said.count(b"Permission denied") >= 3
    assert await box.execute(Command(("true",)), ignore, ignore) == 0


@pytest.mark.docker
async def test_a_kill_proves_itself_by_exec_where_the_kernels_count_is_out_of_sight(
    box: DockerContainer,
) -> None:
    box._tasks_file = None  # as with a daemon on another machine
    marker = f"7{secrets.randbelow(10**9)}"
    with trio.move_on_after(0.5):
        await box.execute(Command(("bash", "-c", f"sleep {marker} & sleep {marker}")), ignore, ignore)
    await box.kill_all()
    listed = bytearray()
    await box.execute(Command(("bash", "-c", "echo /proc/[0-9]*")), listed.extend, ignore)
    assert len(listed.split()) == 2


@pytest.mark.docker
async def test_where_the_kill_cannot_run_the_container_is_started_afresh(
    make_docker: MakeEngine, new_installation: str, open_folder: Path
) -> None:
    async with cleaned_up(make_docker(replace(SandboxLimits(), pids=12), new_installation)) as engine:
        box = await engine.create("chat", open_folder)
        # Processes that are all there may be: no room for the one that kills.
        full = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do sleep 1000 & done; wait; sleep 1000"
        with trio.move_on_after(1):
            await box.execute(Command(("bash", "-c", full)), ignore, ignore)
        began = trio.current_time()
        await box.kill_all()
        assert trio.current_time() - began < 15
        assert await box.execute(Command(("true",)), ignore, ignore) == 0


@pytest.mark.docker
async def test_a_container_that_goes_is_noticed(docker_engine: Engine, box: DockerContainer) -> None:
    async with trio.open_nursery() as nursery:

        async def pull() -> None:
            await trio.sleep(0.5)
            await docker_engine.remove("chat")

        nursery.start_soon(pull)
        with pytest.raises(SandboxError) as caught:
            await box.execute(Command(("sleep", "30")), ignore, ignore)
        assert not isinstance(caught.value, ContainerGoneError)
    with pytest.raises(ContainerGoneError):
        await box.execute(Command(("true",)), ignore, ignore)


@pytest.mark.docker
async def test_another_installations_container_is_never_touched(
    make_docker: MakeEngine, new_installation: str, open_folder: Path
) -> None:
    async with (
        cleaned_up(make_docker(LIMITS, new_installation)) as ours,
        cleaned_up(make_docker(LIMITS, f"{new_installation}x")) as theirs,
    ):
        foreign = await theirs.create("a", open_folder)
        await ours.create("a", open_folder)
        root = Supervisor("root")
        sandboxes = add_sandboxes(root, ours, LIMITS, open_folder / "home")
        async with root.running():
            await sandboxes.prepare("a")
            assert len(await ours.containers()) == 1
        assert await ours.containers() == []
        assert [box.container_id for box in await theirs.containers()] == [foreign.container_id]


@pytest.mark.docker
async def test_what_a_killed_process_leaves_the_next_start_removes(
    make_docker: MakeEngine, new_installation: str, docker_image: str, tmp_path: Path
) -> None:
    script = f"""
import trio
from pathlib import Path
from actors import Supervisor
from rumi.sandbox.engine import Command, SandboxLimits
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.sandboxes import add_sandboxes
async def main():
    root = Supervisor("root")
    engine = DockerEngine({new_installation!r}, SandboxLimits(), image={docker_image!r})
    sandboxes = add_sandboxes(root, engine, SandboxLimits(), Path({str(tmp_path / "home")!r}))
    async with root.running():
        await sandboxes.prepare("a")
        await sandboxes.prepare("b")
        print("ready", flush=True)
        await sandboxes.run("a", Command(("sleep", "1000")))
trio.run(main)
"""
    async with cleaned_up(make_docker(LIMITS, new_installation)) as engine:
        process = await trio.lowlevel.open_process([sys.executable, "-c", script], stdout=subprocess.PIPE)
        assert process.stdout is not None
        with trio.fail_after(30):
            assert b"ready" in await process.stdout.receive_some()
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await process.stdout.aclose()
        assert len(await engine.containers()) == 2
        root = Supervisor("root")
        add_sandboxes(root, engine, LIMITS, tmp_path / "home")
        async with root.running():
            with trio.fail_after(10):
                while await engine.containers():  # noqa: ASYNC110  # the daemon's doing sets no event
                    await trio.sleep(0.05)
