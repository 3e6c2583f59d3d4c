"""A task's room for a repository: a real sandbox, a real server with TLS, a cache of its own."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trustme

from actors import Supervisor
from rumi.agent.tool import ToolResult
from rumi.sandbox.engine import Command, CommandResult, Engine, SandboxLimits
from rumi.sandbox.sandboxes import Sandboxes, add_sandboxes
from rumi.tasks.research.repository.cache import RepositoryCache
from rumi.tasks.research.repository.errors import CloneError
from rumi.tasks.research.repository.repository import Repository, open_repository
from rumi.tasks.research.repository.tools import git_tools
from rumi.web.fetch.stream import GuardedStreams
from rumi.web.guard import AddressGuard
from rumi.web.network import GuardedNetwork
from tests.fakes.web_server import Answering, WebServer, certificate, serving, trusting
from tests.web.fetching import Names

LIMITS = SandboxLimits(workspace_bytes=64 * 1024 * 1024, output_limit=1000)


@dataclass
class OneShell:
    """One task's sandbox."""

    sandboxes: Sandboxes
    key: str
    tainted: bool = True
    scripts: list[tuple[str, ...]] = field(default_factory=list)

    async def prepare(self) -> None:
        await self.sandboxes.prepare(self.key)

    async def run(self, command: Command) -> CommandResult:
        self.scripts.append(command.argv)
        return await self.sandboxes.run(self.key, command)

    async def sh(self, script: str) -> str:
        result = await self.run(Command(("sh", "-c", script)))
        assert result.ended == "exited", result
        return result.stdout.text() + result.stderr.text()


@dataclass
class RepositoryHouse:
    """Where repositories are opened; each with a sandbox of its own."""

    sandboxes: Sandboxes
    server: WebServer
    network: GuardedStreams
    cache: RepositoryCache
    progress: list[str] = field(default_factory=list)
    shells: list[OneShell] = field(default_factory=list)

    def shell(self) -> OneShell:
        shell = OneShell(self.sandboxes, f"task-{len(self.shells) + 1}")
        self.shells.append(shell)
        return shell

    @asynccontextmanager
    async def opened(self, uri: str, **more: object) -> AsyncIterator[Repository]:
        """Open a repository as a new task would; a path is one of the server's."""
        shell = self.shell()
        chosen: dict[str, object] = {
            "shell": shell,
            "workspace": self.sandboxes.workspace(shell.key),
            "cache": self.cache,
            "network": self.network,
            "progress": self.progress.append,
            "sandbox_limits": LIMITS,
            **more,
        }
        url = self.server.url(uri) if uri.startswith("/") and "local_allowed" not in more else uri
        async with open_repository(url, **chosen) as repository:  # type: ignore[arg-type]
            yield repository

    async def refusal(self, uri: str, **more: object) -> CloneError:
        """Why a repository cannot be opened."""
        try:
            async with self.opened(uri, **more) as repository:
                raise AssertionError(repository.facts())
        except CloneError as error:
            return error


async def call(repository: Repository, tool: str, **arguments: object) -> ToolResult:
    """The result of a tool's call, as the model reads it."""
    (found,) = (item for item in git_tools(repository) if item.spec.name == tool)
    return await found.call({name.rstrip("_"): value for name, value in arguments.items()})


@asynccontextmanager
async def repository_house(
    engine: Engine, home: Path, cache: Path, paths: Mapping[str, Answering]
) -> AsyncIterator[RepositoryHouse]:
    """A room whose server answers these paths; `otherwise` answers the rest."""
    ca = trustme.CA()
    root = Supervisor("root")
    sandboxes = add_sandboxes(root, engine, LIMITS, home)
    async with serving(paths, certificate(ca, "127.0.0.1", "localhost")) as server:
        guard = AddressGuard(Names(), [server.endpoint])
        network = GuardedStreams(GuardedNetwork(guard), tls=trusting(ca))
        async with root.running():
            made = RepositoryHouse(sandboxes, server, network, RepositoryCache(cache))
            try:
                yield made
            finally:
                for shell in made.shells:
                    await sandboxes.stop(shell.key)
