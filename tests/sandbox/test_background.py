"""Several commands at once in one sandbox, with both engines: what the end of each leaves running."""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio

from actors import Supervisor
from rumi.sandbox.engine import Command, CommandResult, Engine, SandboxError, SandboxLimits
from rumi.sandbox.sandboxes import Sandboxes, add_sandboxes
from tests.fakes.engines import MakeEngine, cleaned_up
from tests.sandbox.test_promises import on_host, until

MEGA = 1024 * 1024
LIMITS = SandboxLimits(
    memory_bytes=256 * MEGA, pids=64, tmp_bytes=8 * MEGA, timeout_s=20, workspace_bytes=24 * MEGA
)


@pytest.fixture
async def engine(make_engine: MakeEngine, new_installation: str) -> AsyncIterator[Engine]:
    async with cleaned_up(make_engine(LIMITS, new_installation)) as engine:
        yield engine


@pytest.fixture
async def sandboxes(engine: Engine, tmp_path: Path) -> AsyncIterator[Sandboxes]:
    root = Supervisor("root")
    sandboxes = add_sandboxes(root, engine, LIMITS, tmp_path / "home")
    async with root.running():
        yield sandboxes


class Beside:
    """A background command in a nursery."""

    def __init__(self, sandboxes: Sandboxes, nursery: trio.Nursery, script: str) -> None:
        self.output = bytearray()
        self.begun = trio.Event()
        self.over = trio.Event()
        self.result: CommandResult | None = None
        self.scope = trio.CancelScope()
        self._sandboxes = sandboxes
        command = Command(
            ("bash", "-c", script),
            timeout_s=60,
            background=True,
            began=lambda container: self.begun.set(),
            heard=self.output.extend,
        )
        nursery.start_soon(self._run, command)

    async def _run(self, command: Command) -> None:
        with self.scope, suppress(SandboxError):
            self.result = await self._sandboxes.run("one", command)
        self.over.set()


async def sh(sandboxes: Sandboxes, script: str, timeout_s: float = 20) -> CommandResult:
    return await sandboxes.run("one", Command(("bash", "-c", script), timeout_s=timeout_s))


@pytest.fixture
def beside(sandboxes: Sandboxes, nursery: trio.Nursery) -> Callable[[str], Beside]:
    return partial(Beside, sandboxes, nursery)


async def test_commands_run_beside_a_background_command(
    sandboxes: Sandboxes, beside: Callable[[str], Beside]
) -> None:
    tick = beside("for i in $(seq 600); do echo tick $i; echo $i > m; mv m n; sleep 0.1; done")
    await tick.begun.wait()
    await until(lambda: b"tick 2\n" in tick.output)
    for _ in range(3):
        first = (await sh(sandboxes, "cat n; sleep 0.3; cat n")).stdout.text().split()
        assert int(first[1]) > int(first[0]), "it runs on while another command runs and after it"
    tick.scope.cancel()
    await tick.over.wait()
    before = (await sh(sandboxes, "cat n")).stdout.text()
    assert (await sh(sandboxes, "sleep 0.4; cat n")).stdout.text() == before


async def test_what_a_command_leaves_behind_ends_and_the_background_stays(
    sandboxes: Sandboxes, beside: Callable[[str], Beside]
) -> None:
    marker, other = secrets.token_hex(8), secrets.token_hex(8)
    keeps = beside(f"exec -a {marker} sleep 600")
    await keeps.begun.wait()
    await until(lambda: on_host(marker))
    leaves = f"(setsid bash -c 'exec -a {other} sleep 600' &)"
    await sh(sandboxes, f"{leaves} & exec -a {other} sleep 600 & sleep 0.2")
    assert not on_host(other)
    assert on_host(marker)
    await sh(sandboxes, f"{leaves}; sleep 600", timeout_s=1)
    assert not on_host(other), "nor after a timeout"
    assert on_host(marker)
    keeps.scope.cancel()
    await keeps.over.wait()
    assert not on_host(marker)


async def test_children_of_a_background_command_live_as_long_as_it(
    sandboxes: Sandboxes, beside: Callable[[str], Beside]
) -> None:
    marker = secrets.token_hex(8)
    child = f"bash -c 'exec -a {marker} sleep 600'"
    keeps = beside(f"{child} & setsid {child} & wait")
    await until(lambda: len(on_host(marker)) == 2)
    assert (await sh(sandboxes, "true")).exit_code == 0
    assert len(on_host(marker)) == 2
    keeps.scope.cancel()
    await keeps.over.wait()
    assert not on_host(marker)


async def test_a_background_command_ends_by_itself_and_leaves_nothing(
    sandboxes: Sandboxes, beside: Callable[[str], Beside]
) -> None:
    marker = secrets.token_hex(8)
    keeps = beside("sleep 600")
    await keeps.begun.wait()
    ends = beside(f"echo done; (setsid bash -c 'exec -a {marker} sleep 600' &); exit 3")
    await ends.over.wait()
    assert ends.result is not None
    assert (ends.result.exit_code, ends.result.stdout.text()) == (3, "done\n")
    assert not on_host(marker)
    assert not keeps.over.is_set()


async def test_the_end_of_a_turn_ends_all_background_commands(
    sandboxes: Sandboxes, beside: Callable[[str], Beside]
) -> None:
    marker = secrets.token_hex(8)
    several = [beside(f"exec -a {marker} sleep 600") for _ in range(4)]
    await until(lambda: len(on_host(marker)) == 4)
    await sandboxes.quiet("one")
    assert not on_host(marker)
    for each in several:
        await each.over.wait()
        assert each.result is not None
        assert each.result.exit_code == 137


async def test_stopping_the_sandbox_ends_background_commands_too(
    sandboxes: Sandboxes, beside: Callable[[str], Beside]
) -> None:
    marker = secrets.token_hex(8)
    keeps = beside(f"exec -a {marker} sleep 600")
    await until(lambda: on_host(marker))
    await sandboxes.stop("one")
    assert not on_host(marker)
    await keeps.over.wait()
    assert keeps.result is None


async def test_the_limits_hold_for_all_commands_together(
    sandboxes: Sandboxes, beside: Callable[[str], Beside]
) -> None:
    forks = "for i in $(seq 30); do sleep 30 & done; wait"
    one, other = beside(forks), beside(forks)
    await one.begun.wait()
    await other.begun.wait()
    found = await sh(sandboxes, "for i in $(seq 40); do sleep 1 & done; wait")
    assert b"fork" in found.stderr.head or found.exit_code, "64 processes in all"
    for each in (one, other):
        each.scope.cancel()
        await each.over.wait()
    assert (await sh(sandboxes, "echo ok")).stdout.text() == "ok\n"


async def test_a_background_command_that_fills_the_workspace_ends(
    sandboxes: Sandboxes, beside: Callable[[str], Beside]
) -> None:
    fills = beside("sleep 0.3; while :; do head -c 1000000 /dev/zero >> big || exit; done")
    with trio.fail_after(60):
        await fills.over.wait()
    assert fills.result is not None
    assert fills.result.ended == "workspace_full"
    await sh(sandboxes, "rm big")
    assert (await sh(sandboxes, "echo ok")).stdout.text() == "ok\n"


async def test_output_is_heard_as_it_comes(sandboxes: Sandboxes) -> None:
    heard: list[tuple[float, bytes]] = []
    script = "for i in 1 2 3; do echo $i; echo e$i >&2; sleep 0.5; done"
    command = Command(("bash", "-c", script), heard=lambda piece: heard.append((trio.current_time(), piece)))
    result = await sandboxes.run("one", command)
    assert sorted(b"".join(piece for _, piece in heard).split()) == [b"1", b"2", b"3", b"e1", b"e2", b"e3"]
    assert heard[-1][0] - heard[0][0] > 0.8
    assert result.stdout.text() == "1\n2\n3\n"


async def test_a_docker_without_its_first_process_runs_one_command_at_a_time(
    sandboxes: Sandboxes, engine: Engine
) -> None:
    await sandboxes.prepare("one")
    if engine.kind == "docker":
        from rumi.sandbox.docker.engine import DockerEngine

        assert isinstance(engine, DockerEngine)
        engine._by_exec = "a test"
        await sandboxes.stop("one")
        with pytest.raises(Exception, match="one command at a time"):
            await sandboxes.run("one", replace(Command(("true",)), background=True))
        assert (await sh(sandboxes, "echo ok")).stdout.text() == "ok\n"
