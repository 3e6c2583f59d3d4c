"""Repositories in real sandboxes, cloned over https from git's own server."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rumi.sandbox import Engine
from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
from runner.programs import Selection
from tests.fakes.engines import cleaned_up
from tests.fakes.git_server import git, history, imported, serves
from tests.fakes.web_server import Answering
from tests.research.rooms import LIMITS, Room, call, room

pytestmark = pytest.mark.bubblewrap
SELECTION = Selection("core", extra=("git", "chmod"))
COMMITS = 5200


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home for all tests of this module, so that the sandbox's programs are copied once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    imported(folder / "big.git", history(COMMITS))
    return folder


@pytest.fixture
async def engine(home: Path) -> AsyncIterator[Engine]:
    async with cleaned_up(
        BubblewrapEngine(home, secrets.token_hex(6), LIMITS, selection=SELECTION)
    ) as engine:
        yield engine


@pytest.fixture
async def here(engine: Engine, home: Path, served: Path, tmp_path: Path) -> AsyncIterator[Room]:
    async with room(engine, home, tmp_path / "cache", paths(served)) as made:
        yield made


def paths(served: Path) -> dict[str, Answering]:
    git_itself = serves(served)
    return {
        f"/{folder.name}{end}": git_itself
        for folder in served.iterdir()
        for end in ("/info/refs", "/git-upload-pack")
    }


async def test_a_large_repository_answers_who_changed_a_line_and_when(here: Room, served: Path) -> None:
    async with here.opened("/big.git") as repository:
        assert "HEAD, which the question is about: " in repository.facts()
        assert "Change 5200" in repository.facts()
        blamed = await call(repository, "git_blame", path="src/code.py", start=8, end=9)
        commit = git(served / "big.git", "rev-parse", f"main~{COMMITS - 5167}")
        assert f"8 {commit[:12]} 2018-02-14 Dev 1\tvalue_7 = 5167" in blamed.content
        print(here.told, repository.facts(), blamed.content)
