"""The servers of the configuration: their part of the tree, and the tools that chats get of them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import trio

from actors import ActorError, Backoff, ChildSpec, DynamicSupervisor, Supervisor
from rumi.agent.mcp.finding import FindTools, are_too_many, called_in
from rumi.agent.mcp.messages import CallOutcome, CallTool, McpError, McpMessage, Progress, ServerSettings
from rumi.agent.mcp.pins import AcceptedTools
from rumi.agent.mcp.results import Look, SaveFile, nowhere
from rumi.agent.mcp.server import KnownServer, McpServer, opened, take_tools
from rumi.agent.mcp.tool import McpTool, WithheldTool, names_for
from rumi.agent.permissions.declare import DeclareTool
from rumi.agent.tool import Tool, claims_of
from rumi.models.model import Message
from rumi.platform.caller import Caller
from rumi.platform.threads import Threads

FOLDER: Final = "mcp"
"""The folder of a home with a folder for each server."""

BACKOFF: Final = Backoff(first_s=1.0, factor=2.0, cap_s=60.0)
SHUTDOWN_S: Final = 8.0

Audit = Callable[..., None]
"""Writes the fields of a line of the audit log."""


@dataclass(frozen=True, slots=True)
class ForChat:
    """What tools need of the chat that they act for: its messages so far, and what keeps pictures and other
    files for it.

    `tainted` says that its session has read something from outside.
    """

    messages: Callable[[], Sequence[Message]]
    look: Look
    save_file: SaveFile = nowhere
    tainted: Callable[[], bool] = lambda: True


class McpServers:
    """All configured servers. A server starts with the first turn that could use it, and stays."""

    def __init__(
        self, root: Supervisor, home: Path, servers: Collection[ServerSettings], audit: Audit
    ) -> None:
        """Add their part of the tree, if there are servers."""
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
        """Start the servers that do not run; wait until each has come up or failed.

        Bounded by the longest `start_timeout_s`. A server that was not ready by then is not waited for again.
        """
        await trio.lowlevel.checkpoint()
        if not self._known:
            return
        most = max(server.settings.start_timeout_s for server in self._known.values())
        with trio.move_on_after(most), suppress(ActorError):
            for name in self._known:
                await self._supervisor.get_or_start(name)
            for known in self._known.values():
                await known.settled.wait()
        for known in self._known.values():
            known.settled.set()
            if known.tools:
                known.pin = await self._offload(partial(self._accepted.of, known.settings))

    def tools_for(self, chat: ForChat, context_tokens: int) -> tuple[Tool, ...]:
        """Return the tools of all servers for one chat, or `find_tools` where they are too many."""
        if not self._known:
            return ()
        tools = tuple(tool for known in self._known.values() for tool in self._tools_of(known, chat))
        change = [claims for claims in map(claims_of, tools) if claims is not None and not claims.reads]
        declare = (DeclareTool(chat.tainted),) if change else ()
        if are_too_many([tool.spec for tool in tools], context_tokens):
            return (FindTools(tools, called_in(chat.messages())), *declare)
        return (*tools, *declare)

    async def answer(self, caller: Caller, request: Mapping[str, object]) -> object:
        """Answer the call `mcp` of the control socket: the list of servers, for the home's owner."""
        await trio.lowlevel.checkpoint()
        caller.check_all()
        return self.report()

    def report(self) -> list[dict[str, object]]:
        """Return each server, its state and its tools, in JSON types."""
        return [_reported(known) for known in self._known.values()]

    def _tools_of(self, known: KnownServer, chat: ForChat) -> list[Tool]:
        settings, tools = known.settings, list[Tool]()
        names = names_for(settings.name, [tool.name for tool in known.tools])
        siblings = frozenset(names.values())
        for tool in known.tools:
            if known.pin is None or tool.name not in known.pin.tools:
                continue
            if known.pin.takes(tool):
                bound = McpTool(
                    settings.name,
                    names[tool.name],
                    replace(tool, open_world=tool.open_world and settings.open_world),
                    self._ask,
                    chat.look,
                    siblings=siblings,
                    save_file=chat.save_file,
                    trusted=settings.trusted,
                )
                tools.append(bound)
            else:
                tools.append(WithheldTool(settings.name, names[tool.name]))
        return tools

    async def _ask(
        self, server: str, tool: str, arguments: Mapping[str, object], progress: Progress
    ) -> CallOutcome:
        try:
            actor = await self._supervisor.get_or_start(server)
            return await actor.ask(CallTool(tool, arguments, progress))
        except ActorError as error:
            why = self._known[server].why or "It is being started again."
            raise McpError(f"The server {server} has ended during the call. {why}") from error

    def _audit_state(self, known: KnownServer) -> None:
        """Write a change of a server's state to the audit log."""
        self._audit(
            server=known.settings.name,
            state=known.state,
            error=known.why,
            tools=len(known.tools),
            withheld=len(_waiting(known)),
        )


def _waiting(known: KnownServer) -> list[str]:
    """Return the tools that the user has not accepted as they are now."""
    pin = known.pin
    return [tool.name for tool in known.tools if pin is None or not pin.takes(tool)]


def _reported(known: KnownServer) -> dict[str, object]:
    settings, waits = known.settings, _waiting(known)
    return {
        "name": settings.name,
        "state": known.state,
        "why": known.why,
        "tools": [tool.name for tool in known.tools if tool.name not in waits],
        "withheld": waits,
        "calls": known.calls,
        "failures": known.failures,
    }


async def try_once(settings: ServerSettings, home: Path, *, accept: bool) -> KnownServer:
    """Connect to a server apart from any running Rumi, and list its tools; with `accept`, accept them.

    The first listing of a server accepts its tools. Cancelled, nothing is left of it.

    Raises:
        McpError: It cannot be used; the error says why.
    """
    known, accepted, offload = KnownServer(settings), AcceptedTools(home), Threads()
    async with opened(settings, home / FOLDER / settings.name) as (connection, _):
        await take_tools(known, connection, accepted, offload)
        if accept:
            known.pin = await offload(partial(accepted.accept, settings, known.tools))
    return known
