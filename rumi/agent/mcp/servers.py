"""All configured MCP servers: their supervisor, and their tools for chats."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import trio

from actors import ActorError, Backoff, ChildSpec, DynamicSupervisor, Supervisor
from rumi.agent.mcp.described import changes_of, said_of
from rumi.agent.mcp.essence import briefly
from rumi.agent.mcp.finding import FindTools, called_in, divided
from rumi.agent.mcp.messages import (
    CallOutcome,
    CallTool,
    McpError,
    McpMessage,
    Progress,
    RemoteTool,
    ServerSettings,
)
from rumi.agent.mcp.pins import AcceptedTools, ServerPin
from rumi.agent.mcp.results import Look, SaveFile, nowhere
from rumi.agent.mcp.server import KnownServer, McpServer, opened, take_tools
from rumi.agent.mcp.tool import McpTool, WithheldTool, names_for
from rumi.agent.permissions.declare import DeclareTool
from rumi.agent.tool import Tool, claims_of
from rumi.models.model import Message
from rumi.platform.caller import Caller
from rumi.platform.calls import call
from rumi.platform.threads import Threads
from rumi.texts import Text

FOLDER: Final = "mcp"
"""The name of the folder in $RUMI_HOME that contains a folder for each server."""

BACKOFF: Final = Backoff(first_s=1.0, factor=2.0, cap_s=60.0)
SHUTDOWN_S: Final = 8.0

Audit = Callable[..., None]
"""Writes a line with the given fields to the audit log."""


@dataclass(frozen=True, slots=True)
class ForChat:
    """The parts of a chat that MCP tools need: its messages, and functions that store pictures and files.

    `tainted` returns True if the chat's session has read content from files or the web. If `may_accept`, the
    user of the turn may accept a changed description of a tool: it then holds for all chats.
    """

    messages: Callable[[], Sequence[Message]]
    look: Look
    save_file: SaveFile = nowhere
    tainted: Callable[[], bool] = lambda: True
    may_accept: bool = False


class McpServers:
    """All configured servers. A server starts at the first turn that could use it, and keeps running."""

    def __init__(
        self, root: Supervisor, home: Path, servers: Collection[ServerSettings], audit: Audit
    ) -> None:
        """Add the servers' supervisor to the actor tree if any servers are configured."""
        self._known = {server.name: KnownServer(server) for server in servers}
        self._accepted = AcceptedTools(home)
        self._offload = Threads()
        self._audit = audit

        def spec_for(name: str) -> ChildSpec[McpMessage]:
            return ChildSpec(
                name,
                lambda: McpServer(
                    self._known[name], home / FOLDER / name, self._accepted, self._offload, self._audit_state
                ),
                backoff=BACKOFF,
                shutdown=SHUTDOWN_S,
            )

        self._supervisor: DynamicSupervisor[McpMessage] = DynamicSupervisor(FOLDER, spec_for)
        if servers:
            root.add_supervisor(self._supervisor)

    async def ready(self) -> None:
        """Start all servers that are not running; wait until each server is ready or has failed.

        This takes at most the longest `start_timeout_s`. Later calls do not wait again for a server that was
        not ready in time.
        """
        await trio.lowlevel.checkpoint()
        if not self._known:
            return
        most = max(server.settings.section.start_timeout_s for server in self._known.values())
        with trio.move_on_after(most), suppress(ActorError):
            for name in self._known:
                await self._supervisor.get_or_start(name)
            for known in self._known.values():
                await known.settled.wait()
        for known in self._known.values():
            known.settled.set()
            # Read again for each turn, because `rumi mcp test --accept` may have changed the file.
            if known.tools:
                known.pin = await self._offload(partial(self._accepted.of, known.settings))

    def tools_for(self, chat: ForChat, context_tokens: int) -> tuple[Tool, ...]:
        """Return the tools of all servers for one chat, with `find_tools` for those that take too much room.

        `declare_changes` is added if any tool can change something.
        """
        if not self._known:
            return ()
        tools = [self._tools_of(known, chat) for known in self._known.values()]
        claims = [claims_of(tool) for of_server in tools for tool in of_server]
        changes = any(claim is not None and not claim.reads for claim in claims)
        declare = (DeclareTool(chat.tainted),) if changes else ()
        shown, behind = divided(tools, context_tokens)
        if behind:
            return (*shown, FindTools(behind, called_in(chat.messages())), *declare)
        return (*shown, *declare)

    @call("mcp", rights="all")
    async def servers(self, caller: Caller) -> object:
        """Return the servers of tools with their states."""
        await trio.lowlevel.checkpoint()
        return self.report()

    def report(self) -> list[dict[str, object]]:
        """Return the servers with their states and tools, in JSON types."""
        return [_reported(known) for known in self._known.values()]

    def _tools_of(self, known: KnownServer, chat: ForChat) -> list[Tool]:
        settings, tools = known.settings, list[Tool]()
        names = names_for(settings.name, [tool.name for tool in known.tools])
        siblings = frozenset(names.values())
        for tool in known.tools:
            # A tool that the server has added since the last acceptance stays invisible until accepted.
            if known.pin is None or tool.name not in known.pin.tools:
                continue
            bound = McpTool(
                settings.name,
                names[tool.name],
                replace(tool, open_world=tool.open_world and settings.section.open_world),
                self._ask,
                chat.look,
                siblings=siblings,
                save_file=chat.save_file,
                trusted=settings.section.trusted,
            )
            if known.pin.takes(tool):
                tools.append(bound)
            else:
                changes = changes_of(known.pin.said.get(tool.name), said_of(tool))
                accept = partial(self._accept, known, tool) if chat.may_accept else None
                tools.append(WithheldTool(settings.name, bound, changes, accept))
        return tools

    async def _accept(self, known: KnownServer, tool: RemoteTool) -> None:
        """Accept the current description of one tool. Raises `McpError` if it cannot be stored."""
        before = await self._offload(partial(self._accepted.of, known.settings)) or known.pin
        left_out = {name: str(why) for name, why in known.left_out().items() if name != tool.name}
        accept = partial(self._accepted.accept, known.settings, [tool], left_out, beside=before)
        known.pin = await self._offload(accept)
        self._audit_state(known)

    async def _ask(
        self, server: str, tool: str, arguments: Mapping[str, object], progress: Progress
    ) -> CallOutcome:
        try:
            actor = await self._supervisor.get_or_start(server)
            return await actor.ask(CallTool(tool, arguments, progress))
        except ActorError as error:
            why = self._known[server].why or Text("It is being started again.")
            ended = McpError("The server {server} has ended during the call. {why}", server=server, why=why)
            ended.called = True
            raise ended from error

    def _audit_state(self, known: KnownServer) -> None:
        """Write a changed server state to the audit log."""
        self._audit(
            server=known.settings.name,
            state=known.state,
            error=known.why,
            tools=len(known.tools),
            withheld=len(known.left_out()),
        )


def _reported(known: KnownServer) -> dict[str, object]:
    settings, waits = known.settings, [tool.name for tool in known.waiting()]
    pin = known.pin or ServerPin()
    changes = {
        tool.name: briefly(changes_of(pin.said.get(tool.name), said_of(tool))) for tool in known.waiting()
    }
    return {
        "name": settings.name,
        "state": known.state,
        "why": known.why,
        "tools": [tool.name for tool in known.tools if tool.name not in waits],
        "withheld": waits,
        "changes": changes,
        "unusable": dict(known.unusable),
        "notes": list(known.notes),
        "calls": known.calls,
        "failures": known.failures,
    }


async def try_once(settings: ServerSettings, home: Path, *, accept: bool) -> KnownServer:
    """Connect to a server and list its tools, even if Rumi is not running.

    With `accept`, the listed tools are accepted.

    When a server is listed for the first time, its tools are always accepted. On cancellation, leaves no
    process behind.

    Raises:
        McpError: The server cannot be used.
    """
    known, accepted, offload = KnownServer(settings), AcceptedTools(home), Threads()
    async with opened(settings, home / FOLDER / settings.name) as (connection, _):
        await take_tools(known, connection, accepted, offload)
        if accept:
            left_out = {name: str(why) for name, why in known.unusable.items()}
            known.pin = await offload(partial(accepted.accept, settings, known.tools, left_out))
    return known
