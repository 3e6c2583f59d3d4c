"""What the tests of research share: a task's sandbox, and the tools in it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rumi.sandbox.engine import Engine, SandboxLimits
from rumi.tasks.research.sources import Sources
from tests.fakes.engines import MakeEngine, cleaned_up
from tests.sandbox.conftest import make_bubblewrap, make_docker, make_engine, new_installation
from tests.sandbox.desk import sandbox_desk
from tests.tasks.research.desk import Desk

__all__ = ["make_bubblewrap", "make_docker", "make_engine", "new_installation"]

LIMITS = SandboxLimits(workspace_bytes=64 * 1024 * 1024, workspace_files=5000, output_limit=1000)


@pytest.fixture
async def engine(make_engine: MakeEngine, new_installation: str) -> AsyncIterator[Engine]:
    async with cleaned_up(make_engine(LIMITS, new_installation)) as engine:
        yield engine


@pytest.fixture
async def desk(engine: Engine, tmp_path: Path) -> AsyncIterator[Desk]:
    async with sandbox_desk(engine, LIMITS, tmp_path / "home") as desk:
        yield Desk(desk.sandboxes, desk.workspace, await Sources.open(tmp_path / "sources"))
