"""One sandbox, and its workspace as the host sees it: what tests of tools in real sandboxes share."""

import os
import secrets
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from actors import Supervisor
from rumi.sandbox.docker.image import build_image
from rumi.sandbox.engine import Command, CommandResult, Engine, SandboxLimits
from rumi.sandbox.sandboxes import Sandboxes, add_sandboxes
from rumi.sandbox.workspace import prepare_workspace
from runner.programs import Selection

ENGINES = [
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
]


@dataclass
class SandboxDesk:
    """The sandbox `one`."""

    sandboxes: Sandboxes
    workspace: Path

    async def prepare(self) -> None:
        await self.sandboxes.prepare("one")

    async def run(self, command: Command) -> CommandResult:
        return await self.sandboxes.run("one", command)

    async def sh(self, script: str) -> str:
        result = await self.run(Command(("sh", "-c", script)))
        assert (result.ended, result.exit_code) == ("exited", 0), result
        return result.stdout.text()

    def owned(self, path: Path) -> Path:
        """Give a path of the workspace to the sandbox's user."""
        owner = self.workspace.stat()
        os.chown(path, owner.st_uid, owner.st_gid)
        return path


@asynccontextmanager
async def sandbox_desk(engine: Engine, limits: SandboxLimits, home: Path) -> AsyncIterator[SandboxDesk]:
    """A sandbox, for as long as the block lasts."""
    root = Supervisor("root")
    workspace = prepare_workspace(home, "one", *engine.user)
    sandboxes = add_sandboxes(root, engine, limits, home)
    async with root.running():
        yield SandboxDesk(sandboxes, workspace)


@contextmanager
def image_of(name: str, selection: Selection) -> Iterator[str]:
    """An image with these programs of this machine, for as long as the block lasts."""
    name = f"rumi-runner-tests-{secrets.token_hex(4)}:{name}"

    async def build() -> None:
        with trio.fail_after(60):
            await build_image(name, lambda _: None, sources=("host",), selection=selection)

    trio.run(build)
    yield name
    subprocess.run(["docker", "rmi", "--force", name], capture_output=True, check=True)
