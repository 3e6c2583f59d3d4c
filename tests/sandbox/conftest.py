"""What the sandbox's tests share: an image made from this host, engines that clean up after themselves."""

import os
import secrets
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio

from rumi.sandbox import Engine, Limits
from tests.fakes.engines import MakeEngine, cleaned_up


@pytest.fixture(scope="session")
def docker_image() -> Iterator[str]:
    """An image of this run's own, so that no test needs a registry or touches a person's image."""
    from rumi.sandbox.image import build_image

    name = f"rumi-runner-tests:{os.getpid()}-{secrets.token_hex(3)}"

    async def build() -> None:
        await build_image(name, lambda _: None, sources=("host",))

    trio.run(build)
    yield name
    subprocess.run(["docker", "rmi", "--force", name], capture_output=True, check=False)


@pytest.fixture
def make_docker(docker_image: str) -> MakeEngine:
    """Makes Docker engines over this run's image."""
    from rumi.sandbox.docker import DockerEngine

    return lambda limits, installation: DockerEngine(installation, limits, image=docker_image)


@pytest.fixture
def make_bubblewrap(tmp_path: Path) -> MakeEngine:
    """Makes bubblewrap engines with a home of this test's own."""
    from rumi.sandbox.bubblewrap import BubblewrapEngine

    return lambda limits, installation: BubblewrapEngine(tmp_path / "home", installation, limits)


@pytest.fixture
def new_installation() -> str:
    """The name of an installation that no other test and no person has."""
    return secrets.token_hex(6)


@pytest.fixture
async def docker_engine(make_docker: MakeEngine, new_installation: str) -> AsyncIterator[Engine]:
    """A Docker engine with the default limits."""
    async with cleaned_up(make_docker(Limits(), new_installation)) as engine:
        yield engine
