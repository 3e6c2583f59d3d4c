"""What a killed process left is found by what it holds, and ended; another installation's never."""

import os
import secrets
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest
import trio

from actors import ChildSpec, Supervisor
from rumi.cli.doctor.sandboxes import leftovers
from rumi.platform.home import Home
from rumi.sandbox.bubblewrap.engine import BubblewrapEngine, find_bwrap
from rumi.sandbox.cgroups import Cgroups
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.engine import Engine, SandboxLimits
from rumi.sandbox.processes import descendants
from rumi.sandbox.registry import ContainerRegistry
from rumi.sandbox.workspace import prepare_workspace
from tests.cli.doctor.doctoring import sound_home
from tests.cli.program import Program
from tests.fakes.engines import cleaned_up
from tests.sandbox.killing import containers_of


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    return sound_home(tmp_path, monkeypatch)


@pytest.fixture
def workspace(home: Home) -> Path:
    engine = BubblewrapEngine(home.root, home.installation(), SandboxLimits())
    return prepare_workspace(home.root, "one", *engine.user)


@contextmanager
def sandboxed(workspace: Path, *, name: str = "workspace") -> Iterator[subprocess.Popen[bytes]]:
    """A process without any name of Rumi's that has the folder mounted, under this name."""
    bwrap, library = find_bwrap()
    words = [str(bwrap), "--dev-bind", "/", "/", "--tmpfs", "/mnt", "--bind", str(workspace), f"/mnt/{name}"]
    words += ["--", "sleep", "600"]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library.parent) if library else ""}
    process = subprocess.Popen(words, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def holder(process: subprocess.Popen[bytes]) -> int:
    """The child of bubblewrap that has the mounts, when it has become its program."""
    with trio.fail_after(10):
        while True:
            for pid in descendants(process.pid):
                with suppress(OSError):
                    if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\0"):
                        return pid
            await trio.sleep(0.01)


async def ended(process: subprocess.Popen[bytes]) -> None:
    with trio.fail_after(5):
        await trio.to_thread.run_sync(process.wait)


@pytest.mark.bubblewrap
async def test_a_process_with_a_chats_files_is_found_and_ended(home: Home, workspace: Path) -> None:
    engine = BubblewrapEngine(home.root, home.installation(), SandboxLimits())
    with sandboxed(workspace) as process:
        pid = await holder(process)
        assert [check.found for check in await leftovers(home)] == [f"process {pid}"]
        root = Supervisor("test")
        root.add(ChildSpec("registry", lambda: ContainerRegistry(engine)))
        async with root.running():
            await ended(process)
    assert (await leftovers(home))[0].verdict == "ok"


@pytest.mark.bubblewrap
async def test_others_who_have_the_files_elsewhere_are_left_alone(
    home: Home, workspace: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other" / "workspace" / "one"
    other.mkdir(parents=True)
    engine = BubblewrapEngine(home.root, home.installation(), SandboxLimits())
    with sandboxed(workspace, name="elsewhere") as reader, sandboxed(other) as foreign:
        await holder(reader)
        await holder(foreign)
        assert (await leftovers(home))[0].verdict == "ok"
        assert await engine.sweep() == []
        assert (reader.poll(), foreign.poll()) == (None, None)


@pytest.mark.bubblewrap
async def test_a_process_in_a_control_group_of_the_home_is_found_and_ended(home: Home) -> None:
    if (group := Cgroups(home.installation()).create("one-planted", SandboxLimits())) is None:
        pytest.skip("this machine has no control groups")
    process = subprocess.Popen(["sleep", "600"])  # noqa: ASYNC220 - its end is not trio's business
    try:
        for member in group.open_members():
            os.write(member, str(process.pid).encode())
            os.close(member)
        found = [check.found for check in await leftovers(home)]
        assert found == [f"process {process.pid}", f"control group {group.folders[0].name}"]
        removed = await BubblewrapEngine(home.root, home.installation(), SandboxLimits()).sweep()
        assert removed == found
        await ended(process)
        assert not group.folders[0].exists()
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def planted(image: str, *words: str) -> AsyncIterator[str]:
    """A container that a person has started by hand."""
    name = f"planted-{secrets.token_hex(4)}"
    start = ["docker", "run", "--detach", "--name", name, "--network", "none", *words, image, "sleep", "600"]
    await trio.run_process(start, capture_stdout=True)
    try:
        yield name
    finally:
        with trio.CancelScope(shield=True):
            words_of_end = ["docker", "rm", "--force", name]
            await trio.run_process(words_of_end, capture_stdout=True, capture_stderr=True, check=False)


def exists(name: str) -> bool:
    listed = ["docker", "ps", "--all", "--quiet", "--filter", f"name={name}"]
    return bool(subprocess.run(listed, capture_output=True, check=True).stdout)


@pytest.mark.docker
async def test_a_container_with_a_chats_files_is_found_and_removed(
    docker_image: str, home: Home, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_HOST")
    other = workspace.parent.parent.parent / "another-home" / "workspace" / "one"
    other.mkdir(parents=True)
    async with (
        planted(docker_image, "--volume", f"{workspace}:/workspace") as name,
        planted(docker_image, "--volume", f"{workspace}:/mnt") as reader,
        planted(docker_image, "--volume", f"{other}:/workspace") as foreign,
    ):
        found = [check.found for check in await leftovers(home)]
        assert found == [f"container {name}"]
        engine = DockerEngine(home.installation(), SandboxLimits(), image=docker_image, home=home.root)
        async with cleaned_up(engine):
            assert await engine.sweep() == [name]
            assert await engine.sweep() == [], "only the first does"
        assert not exists(name)
        assert exists(reader)
        assert exists(foreign)


@pytest.mark.docker
async def test_a_start_with_one_engine_ends_what_the_other_left(
    docker_image: str, home: Home, workspace: Path
) -> None:
    engine = DockerEngine(
        home.installation(), SandboxLimits(), image=docker_image, address=DAEMON, home=home.root
    )
    with sandboxed(workspace) as process:
        pid = await holder(process)
        async with cleaned_up(engine):
            assert f"process {pid}" in await engine.sweep()
            await ended(process)


DAEMON = "unix:///var/run/docker.sock"


@pytest.mark.long
@pytest.mark.docker
def test_clean_removes_what_both_engines_left(docker_image: str, tmp_path: Path) -> None:
    program = Program(tmp_path / "home", {"RUMI_SANDBOX__BACKEND": "bubblewrap", "DOCKER_HOST": DAEMON})
    program.run("sandbox", "status")
    installation = (program.home / "installation").read_text().strip()

    async def leave() -> None:
        engine: Engine = DockerEngine(installation, SandboxLimits(), image=docker_image, address=DAEMON)
        (program.home / "workspace/one").mkdir(parents=True)
        await engine.create("one", program.home / "workspace/one")
        await engine.aclose()

    trio.run(leave)
    assert len(containers_of(installation)) == 1
    assert f"rumi-runner-one-{installation}" in program.run("sandbox", "clean").stdout
    assert containers_of(installation) == []
