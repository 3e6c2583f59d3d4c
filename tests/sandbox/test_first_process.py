"""No command disables, changes or outlives what ends it: the first process of its sandbox."""

import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import pytest
import trio

from rumi.sandbox import seccomp as seccomp_module
from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.engine import Command, Container, Engine, SandboxError, SandboxLimits
from rumi.sandbox.lease import ENDED_S, LeaseLostError, boottime
from rumi.sandbox.workspace import prepare_workspace
from tests.fakes.engines import cleaned_up
from tests.sandbox.killing import killed_worker

LIMITS = SandboxLimits(timeout_s=60)
WAYS = (
    *("memory", "limits", "scheduling", "priorities", "signals", "handles", "events", "groups"),
    *("namespaces", "files", "descriptors", "cgroups", "owners", "orphans"),
)
"""What `tests/fakes/first_process.c` tries, one kind after the other."""
WRITES = "trap '' HUP TERM; (while true; do echo x >> ticks; sleep 0.02; done) & while true; do sleep 1; done"
LEASE_S, CREATED_S = 3.0, 20.0

OpenBox: TypeAlias = Callable[[], AbstractAsyncContextManager[tuple[Engine, Container, Path]]]


@pytest.fixture(scope="session")
def attacks(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The program that tries them."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("there is no C compiler; on Debian: apt-get install gcc libc6-dev")
    made = tmp_path_factory.mktemp("attacks") / "attacks"
    source = Path(__file__).parent.parent / "fakes/first_process.c"
    subprocess.run([compiler, "-static", "-O1", "-o", str(made), str(source)], check=True)
    return made.read_bytes()


class Held:
    """A lease that a test moves."""

    length_s = LEASE_S

    def __init__(self) -> None:
        self.until = boottime() + CREATED_S

    def valid_until(self) -> float:
        return self.until


def engine_of(kind: str, image: str, home: Path, installation: str, lease: Held | None = None) -> Engine:
    if kind == "docker":
        return DockerEngine(installation, LIMITS, image=image, home=home, leases=lambda _: lease)
    return BubblewrapEngine(home, installation, LIMITS, leases=lambda _: lease)


@pytest.fixture
def open_box(engine_words: tuple[str, str], attacks: bytes, new_installation: str, tmp_path: Path) -> OpenBox:
    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Engine, Container, Path]]:
        home = tmp_path / "home"
        async with cleaned_up(engine_of(*engine_words, home, new_installation)) as engine:
            workspace = with_attacks(home, engine, attacks)
            yield engine, await engine.create("one", workspace), workspace

    return opened


def with_attacks(home: Path, engine: Engine, attacks: bytes) -> Path:
    """A workspace that has the program."""
    workspace = prepare_workspace(home, "one", *engine.user)
    (workspace / "attacks").write_bytes(attacks)
    (workspace / "attacks").chmod(0o755)
    return workspace


async def said(box: Container, script: str) -> list[str]:
    out, err = bytearray(), bytearray()
    await box.execute(Command(("bash", "-c", script)), out.extend, err.extend)
    return (out + err).decode().splitlines()


ALL = "; ".join(f"./attacks {way}" for way in WAYS)


async def test_every_call_on_the_first_process_is_refused(open_box: OpenBox) -> None:
    async with open_box() as (_, box, _):
        tried = await said(box, ALL + "; true")
        assert len(tried) > 100
        assert [line for line in tried if " refused " not in line] == []
        shell = "echo 1 > /proc/1/oom_score_adj; kill -9 1; kill -STOP 1; cat /proc/1/environ"
        assert len([line for line in await said(box, shell) if "ermi" in line]) == 4
        by_number = await said(box, "cat /proc/1/status")
        assert "Pid:\t1" in by_number, "who it is may be read"
        assert await said(box, "echo next") == ["next"]


async def test_the_same_calls_on_a_commands_own_processes_go_on_working(open_box: OpenBox) -> None:
    async with open_box() as (_, box, _):
        tried = await said(box, "./attacks own; true")
        assert len(tried) == 14
        assert [line for line in tried if not line.endswith(" accepted")] == []
        script = "sleep 60 & nice -n 5 true && kill $! && wait $!; echo $?; timeout 0.1 sleep 9; echo $?"
        assert await said(box, script) == ["143", "124"]


@pytest.mark.long
async def test_no_attack_delays_the_next_command_or_its_kill(open_box: OpenBox) -> None:
    async with open_box() as (_, box, _):
        for way in WAYS:
            with trio.move_on_after(0.3):
                await said(box, f"./attacks {way} > /dev/null; {WRITES}")
            with trio.fail_after(5):
                await box.kill_all()
                assert await said(box, "echo next") == ["next"]


@pytest.mark.long
@pytest.mark.parametrize("way", [*WAYS[:5], *(pytest.param(way, marks=pytest.mark.more) for way in WAYS[5:])])
async def test_after_a_kill_of_rumi_nothing_runs_whatever_was_tried(
    way: str, engine_words: tuple[str, str], attacks: bytes, new_installation: str, tmp_path: Path
) -> None:
    home, (kind, image) = tmp_path / "home", engine_words
    async with killed_worker(kind, home, new_installation, image) as worker:
        ticks = with_attacks(home, engine_of(kind, image, home, new_installation), attacks) / "ticks"
        await worker.start(f"run ./attacks {way} > /dev/null; {WRITES}")
        with trio.fail_after(30):
            while not await grows(ticks)():
                pass
        await worker.kill()
        await worker.nothing_left()
        assert not await grows(ticks)()
    async with cleaned_up(engine_of(kind, image, home, new_installation)) as engine:
        with trio.fail_after(10):
            assert await engine.sweep() == []
            box = await engine.create("one", ticks.parent)
            assert await said(box, "echo next") == ["next"]


@pytest.mark.long
async def test_a_lease_ends_the_sandbox_whatever_was_tried(
    engine_words: tuple[str, str], attacks: bytes, new_installation: str, tmp_path: Path
) -> None:
    lease, home = Held(), tmp_path / "home"
    async with cleaned_up(engine_of(*engine_words, home, new_installation, lease)) as engine:
        workspace = with_attacks(home, engine, attacks)
        box = await engine.create("one", workspace)
        began = boottime()
        with trio.fail_after(LEASE_S + ENDED_S), pytest.raises(LeaseLostError):
            await said(box, f"({ALL}) > /dev/null; {WRITES}")
        assert boottime() - began > LEASE_S / 2
        size = (workspace / "ticks").stat().st_size
        await trio.sleep(0.2)
        assert 0 < (workspace / "ticks").stat().st_size == size


def grows(ticks: Path) -> Callable[[], Awaitable[bool]]:
    async def seen() -> bool:
        before = ticks.stat().st_size if ticks.exists() else 0
        await trio.sleep(0.15)
        return ticks.exists() and ticks.stat().st_size > before

    return seen


# Planted faults: the tests above can fail


@pytest.mark.parametrize("call", ["prlimit64", "sched_setscheduler", "sched_setaffinity"])
async def test_a_filter_that_forgets_a_call_is_noticed(
    call: str, open_box: OpenBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    everywhere = seccomp_module.EVERYWHERE | {call}
    named = {name: index for name, index in seccomp_module.ON_A_PROCESS.items() if name != call}
    monkeypatch.setattr(seccomp_module, "EVERYWHERE", everywhere)
    monkeypatch.setattr(seccomp_module, "ON_A_PROCESS", named)
    seccomp_module.bpf_program.cache_clear()
    try:
        async with open_box() as (_, box, _):
            out = bytearray()
            with suppress(SandboxError):  # in a container, the first process notices
                script = "./attacks limits; ./attacks scheduling; true"
                await box.execute(Command(("bash", "-c", script)), out.extend, out.extend)
            assert b" accepted" in out
    finally:
        seccomp_module.bpf_program.cache_clear()


@pytest.mark.docker
async def test_an_init_whose_limits_changed_ends_also_without_the_filter(
    docker_image: str,
    attacks: bytes,
    new_installation: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seccomp_module, "EVERYWHERE", seccomp_module.EVERYWHERE | {"prlimit64"})
    monkeypatch.setattr(seccomp_module, "ON_A_PROCESS", {})
    home, lease = tmp_path / "home", Held()
    engine = engine_of("docker", docker_image, home, new_installation, lease)
    async with cleaned_up(engine):
        box = await engine.create("one", with_attacks(home, engine, attacks))
        out = bytearray()
        with trio.fail_after(LEASE_S), pytest.raises(SandboxError, match="ended"):
            await box.execute(
                Command(("bash", "-c", f"./attacks limits; (true &); {WRITES}")), out.extend, out.extend
            )
        assert b"prlimit accepted" in out
