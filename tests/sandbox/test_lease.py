"""Sandboxes that end with the lease of their chat, whatever the process does that started them."""

import errno
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
import trio

from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.engine import Command, SandboxLimits
from rumi.sandbox.lease import ENDED_S, Lease, LeaseLostError, boottime
from rumi.sandbox.workspace import prepare_workspace
from tests.conftest import ROOT
from tests.fakes import probe
from tests.fakes.engines import cleaned_up
from tests.sandbox.desk import ENGINES

LENGTH_S = 1.0
CREATED_S = 20.0
"""How long a container may take to start on a busy machine."""
LIMITS = SandboxLimits(timeout_s=20)
Engine: TypeAlias = BubblewrapEngine | DockerEngine
OpenEngine: TypeAlias = Callable[[Lease], AbstractAsyncContextManager[Engine]]


class Held:
    """A lease that a test moves."""

    length_s = LENGTH_S

    def __init__(self) -> None:
        self.until = boottime() + self.length_s

    def valid_until(self) -> float:
        return self.until


@asynccontextmanager
async def made(kind: str, installation: str, image: str, home: Path, lease: Lease) -> AsyncIterator[Engine]:
    def leases(chat_id: str) -> Lease:
        return lease

    engine: Engine
    if kind == "docker":
        engine = DockerEngine(installation, LIMITS, image=image, home=home, leases=leases)
    else:
        engine = BubblewrapEngine(home, installation, LIMITS, leases=leases)
    async with cleaned_up(engine):
        yield engine


def image_for(kind: str, request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("docker_image")) if kind == "docker" else ""


@pytest.fixture(params=ENGINES)
def worker_words(request: pytest.FixtureRequest, new_installation: str, tmp_path: Path) -> list[str]:
    """The program of a process with a sandbox that has a lease."""
    image = image_for(request.param, request)
    module = [sys.executable, "-m", "tests.sandbox.leased_worker"]
    return [*module, request.param, str(tmp_path / "home"), new_installation, image, str(LENGTH_S)]


@pytest.fixture(params=ENGINES)
def open_engine(request: pytest.FixtureRequest, new_installation: str, tmp_path: Path) -> OpenEngine:
    image = image_for(request.param, request)
    return lambda lease: made(request.param, new_installation, image, tmp_path / "home", lease)


def grows(ticks: Path) -> Callable[[], Awaitable[bool]]:
    async def seen() -> bool:
        before = ticks.stat().st_size if ticks.exists() else 0
        await trio.sleep(0.15)
        return ticks.exists() and ticks.stat().st_size > before

    return seen


@pytest.mark.long
async def test_a_stopped_worker_has_no_sandbox_after_its_lease_and_starts_none(
    worker_words: list[str], tmp_path: Path
) -> None:
    ticks = tmp_path / "home" / "workspace" / "one" / "ticks"
    process = await trio.lowlevel.open_process(worker_words, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    try:
        with trio.fail_after(30):
            said = b""
            while not said.endswith(b"\n"):
                said += await process.stdout.receive_some()
            assert said.startswith(b"ready ")
            growing = grows(ticks)
            while not await growing():
                pass
            await trio.sleep(1.5 * LENGTH_S)
            assert await growing(), "heartbeats let it live longer than one lease"
        process.send_signal(signal.SIGSTOP)
        await trio.sleep(LENGTH_S + ENDED_S)
        assert not await growing(), "it was ended while the worker did nothing"
        size = ticks.stat().st_size
        process.send_signal(signal.SIGCONT)
        said = b""
        with trio.fail_after(20):
            async for chunk in process.stdout:
                said += chunk
            await process.wait()
        assert said.decode().split() == ["LeaseLostError", "LeaseLostError"]
        assert ticks.stat().st_size == size
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await process.stdout.aclose()


async def test_a_command_ends_with_the_lease_and_a_new_lease_has_a_new_sandbox(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    lease, out = Held(), bytearray()
    async with open_engine(lease) as engine:
        workspace = prepare_workspace(tmp_path / "home", "one", *engine.user)
        lease.until = boottime() + CREATED_S
        box = await engine.create("one", workspace)
        lease.until = boottime() + 0.5
        await box.beat()
        with trio.fail_after(0.5 + ENDED_S), pytest.raises(LeaseLostError):
            await box.execute(
                Command(("bash", "-c", "echo begun; sleep 30 & sleep 30")), out.extend, out.extend
            )
        assert out == b"begun\n"
        with pytest.raises(LeaseLostError):
            await engine.create("one", workspace)
        await engine.remove("one")
        lease.until = boottime() + CREATED_S
        again = await engine.create("one", workspace)
        assert await again.execute(Command(("true",)), out.extend, out.extend) == 0
        await engine.remove("one")


async def test_no_heartbeat_reaches_further_than_the_length_of_a_lease(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    lease, out = Held(), bytearray()
    async with open_engine(lease) as engine:
        workspace = prepare_workspace(tmp_path / "home", "one", *engine.user)
        lease.until = boottime() + 3600
        box = await engine.create("one", workspace)
        with trio.fail_after(LENGTH_S + ENDED_S), pytest.raises(LeaseLostError):
            await box.execute(Command(("sleep", "30")), out.extend, out.extend)


SCHED_IDLE, PRIO_PROCESS, PRIO_PGRP = 5, 0, 1
SLOWED = "for i in {1..90}; do (while :; do :; done) & done; while :; do :; done"


@pytest.mark.docker
@pytest.mark.skipif(not probe.HERE, reason="the probes are programs for x86-64")
async def test_commands_cannot_slow_down_or_reach_the_process_that_ends_them(
    docker_image: str, new_installation: str, tmp_path: Path
) -> None:
    lease, out = Held(), bytearray()
    async with made("docker", new_installation, docker_image, tmp_path / "home", lease) as engine:
        workspace = prepare_workspace(tmp_path / "home", "one", *engine.user)
        zero = probe.ADDRESS + 8  # where an ELF file has zeros: the parameter of a policy
        program = workspace / "probe"
        program.write_bytes(
            probe.calls(
                [
                    (144, 1, SCHED_IDLE, zero),
                    (144, 1 | 1 << 32, SCHED_IDLE, zero),
                    (141, PRIO_PROCESS, 1, 19),
                    (141, PRIO_PGRP, 1, 19),
                ]
            )
        )
        program.chmod(0o755)
        lease.until = boottime() + lease.length_s
        box = await engine.create("one", workspace)
        await box.execute(Command(("./probe",)), out.extend, out.extend)
        assert probe.results(bytes(out)) == [-errno.EPERM] * 4
        out.clear()
        for path in ("/proc/1/fd", "/proc/1/mem", "/run/rumi"):
            assert await box.execute(Command(("cat", path)), out.extend, out.extend) != 0
        lease.until = boottime() + 0.5
        await box.beat()
        with trio.fail_after(0.5 + ENDED_S), pytest.raises(LeaseLostError):
            await box.execute(Command(("bash", "-c", SLOWED)), out.extend, out.extend)
