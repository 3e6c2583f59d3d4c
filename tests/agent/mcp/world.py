"""Servers of tools for tests: real processes of `tests.fakes.mcp_server`, in the actors that keep them."""

import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from actors import Supervisor
from rumi.agent.mcp.messages import ServerSettings
from rumi.agent.mcp.servers import ForChat, McpServers
from rumi.agent.tool import Tool, ToolResult
from rumi.errors import RumiError
from rumi.models.model import Message, Picture
from rumi.platform.config.schema import McpSection
from rumi.platform.redact import Redactor
from rumi.web.readers.files.viewer import Seen
from tests.conftest import ROOT

FAKE = ROOT / "tests" / "fakes" / "mcp_server.py"
BOUND_S = 30


def fake(
    kind: str = "honest",
    *words: str,
    name: str = "fake",
    env: Mapping[str, str] | None = None,
    redact: Redactor | None = None,
    **more: object,
) -> ServerSettings:
    """Return the settings of a fake server, in a sandbox unless `more` says otherwise."""
    section = McpSection(
        command=sys.executable, args=(str(FAKE), kind, *words), paths=(str(FAKE.parent),)
    ).model_copy(update=more)
    return ServerSettings(name, section, env or {}, redact=redact or Redactor(()))


class House:
    """Running servers, and one chat whose user has said `words`."""

    def __init__(self, servers: McpServers, home: Path) -> None:
        self.servers = servers
        self.home = home
        self.words: list[str] = []
        self.looked_at: list[bytes] = []
        self.put: dict[str, bytes] = {}
        self.audit: list[Mapping[str, object]] = []
        self.may_accept = False
        self.root: Supervisor | None = None

    def doing(self) -> str:
        """Return what the status shows of the first server."""
        assert self.root is not None
        (servers,) = self.root.status().children
        return servers.children[0].activity

    async def tools(self, context_tokens: int = 100_000, *, named: bool = True) -> dict[str, Tool]:
        """Return the chat's tools of one turn, of running servers if the turn's message has `named` them."""
        known = self.servers._known
        await self.servers.ready(" ".join(known) if named else "hello")
        for server in known.values() if named else ():
            await server.settled.wait()
        messages = [Message("user", word) for word in self.words]
        chat = ForChat(lambda: messages, self._look, self._save_file, may_accept=self.may_accept)
        found = self.servers.tools_for(chat, context_tokens)
        return {tool.spec.name: tool for tool in found}

    async def call(self, name: str, **arguments: object) -> ToolResult:
        """Call a tool in a turn of its own."""
        return await (await self.tools())[name].call(arguments)

    def saved(self, file: str, server: str = "fake") -> list[str]:
        """Return what a fake server has kept in a file."""
        path = self.home / "mcp" / server / file
        return path.read_text().split() if path.exists() else []

    async def _look(self, data: bytes) -> Seen:
        await trio.lowlevel.checkpoint()
        self.looked_at.append(data)
        if not data.startswith(b"\x89PNG"):
            raise RumiError("it is not a picture in a known format")
        return Seen("A picture", (Picture(".pictures/1.png", "image/png", data),))

    async def _save_file(self, data: bytes, name: str) -> str:
        await trio.lowlevel.checkpoint()
        self.put[name] = data
        return name


@asynccontextmanager
async def house(home: Path, *settings: ServerSettings) -> AsyncIterator[House]:
    """Run servers in a tree; nothing of them is left behind the block."""
    home.mkdir(exist_ok=True)
    root = Supervisor("rumi")
    audit: list[Mapping[str, object]] = []
    servers = McpServers(root, home, settings, lambda **more: audit.append(more))
    async with root.running():
        made = House(servers, home)
        made.audit, made.root = audit, root
        with trio.fail_after(BOUND_S):
            yield made


async def until(true: Callable[[], object]) -> None:
    """Wait for something that another process does."""
    with trio.fail_after(BOUND_S):
        while not true():  # noqa: ASYNC110  # another process sets no event
            await trio.sleep(0.02)


def processes_with(word: str) -> list[int]:
    """Return the processes of this machine that have a word in their command line."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{number}/cmdline").read_bytes()
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if word.encode() in words and state not in "ZX" and int(number) != os.getpid():
            found.append(int(number))
    return found
