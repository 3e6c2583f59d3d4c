"""Which engine is taken: by what answers, and never silently another one than was named."""

import secrets
from pathlib import Path

import pytest
from trio.testing import MockClock

from rumi.sandbox.choose import Backend, choose_engine
from rumi.sandbox.engine import SandboxError, SandboxLimits
from tests.fakes.docker_daemon import fake_daemon


async def choose(backend: Backend, home: Path, address: str) -> str:
    engine = await choose_engine(
        backend, home=home, installation=secrets.token_hex(6), limits=SandboxLimits(), address=address
    )
    kind = engine.kind
    await engine.aclose()
    return kind


INFO = {
    "SecurityOptions": ["name=seccomp,profile=default"],
    "MemoryLimit": True,
    "SwapLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
}


async def test_docker_is_taken_where_it_answers(tmp_path: Path) -> None:
    async with fake_daemon(tmp_path) as daemon:
        daemon.scripted["GET /info"] = [(200, INFO)]
        assert await choose("auto", tmp_path / "home", daemon.address) == "docker"


@pytest.mark.bubblewrap
async def test_without_docker_bubblewrap_is_taken(tmp_path: Path) -> None:
    assert await choose("auto", tmp_path / "home", f"unix://{tmp_path}/none") == "bubblewrap"


async def test_docker_that_was_named_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="No Docker daemon answers"):
        await choose("docker", tmp_path / "home", f"unix://{tmp_path}/none")


async def test_a_daemon_that_hangs_is_given_two_seconds(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with fake_daemon(tmp_path) as daemon:
        daemon.hanging.add("GET /_ping")
        began = autojump_clock.current_time()
        with pytest.raises(SandboxError, match="in time"):
            await choose("docker", tmp_path / "home", daemon.address)
        assert autojump_clock.current_time() - began <= 3


@pytest.mark.parametrize(
    ("options", "said"), [(["name=seccomp", "name=rootless"], "maps users"), ([], "no seccomp")]
)
async def test_a_daemon_in_which_the_sandbox_would_not_hold_is_refused(
    tmp_path: Path, options: list[str], said: str
) -> None:
    async with fake_daemon(tmp_path) as daemon:
        daemon.scripted["GET /info"] = [(200, INFO | {"SecurityOptions": options})]
        with pytest.raises(SandboxError, match=said):
            await choose("docker", tmp_path / "home", daemon.address)


async def test_a_daemon_that_cannot_bound_something_says_so(tmp_path: Path) -> None:
    async with fake_daemon(tmp_path) as daemon:
        daemon.scripted["GET /info"] = [(200, INFO | {"SwapLimit": False})]
        engine = await choose_engine(
            "docker", home=tmp_path, installation="x", limits=SandboxLimits(), address=daemon.address
        )
        assert len(engine.degraded) == 1
        assert "swap" in engine.degraded[0]
        await engine.aclose()
