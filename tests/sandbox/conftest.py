"""What the sandbox's tests share: engines that clean up after themselves."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rumi.sandbox.engine import Engine, SandboxLimits
from tests.fakes.engines import MakeEngine, cleaned_up
from tests.sandbox.desk import ENGINES


@pytest.fixture
def make_docker(docker_image: str, tmp_path: Path) -> MakeEngine:
    """Makes Docker engines over this run's image, with a home of this test's own."""
    from rumi.sandbox.docker.engine import DockerEngine

    home = tmp_path / "home"
    return lambda limits, installation: DockerEngine(installation, limits, image=docker_image, home=home)


@pytest.fixture
def make_bubblewrap(tmp_path: Path) -> MakeEngine:
    """Makes bubblewrap engines with a home of this test's own."""
    from rumi.sandbox.bubblewrap.engine import BubblewrapEngine

    return lambda limits, installation: BubblewrapEngine(tmp_path / "home", installation, limits)


@pytest.fixture(params=ENGINES)
def make_engine(request: pytest.FixtureRequest) -> MakeEngine:
    """Makes engines of both kinds, one after the other."""
    # Not an async fixture: making the image runs trio, which cannot be done from inside of it.
    make: MakeEngine = request.getfixturevalue(f"make_{request.param}")
    return make


@pytest.fixture(params=ENGINES)
def engine_words(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The kind of an engine and its image, for the arguments of another process."""
    docker = request.param == "docker"
    return request.param, request.getfixturevalue("docker_image") if docker else ""


@pytest.fixture
def new_installation() -> str:
    """The name of an installation that no other test and no person has."""
    return secrets.token_hex(6)


@pytest.fixture
async def docker_engine(make_docker: MakeEngine, new_installation: str) -> AsyncIterator[Engine]:
    """A Docker engine with the default limits."""
    async with cleaned_up(make_docker(SandboxLimits(), new_installation)) as engine:
        yield engine
