"""All configured MCP servers: their supervisor, and their tools for chats."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
from rumi.agent.mcp.hosts import Refusal
from rumi.agent.mcp.messages import (
    CallOutcome,
    CallTool,
    McpError,
    McpMessage,
    Progress,
    RemoteTool,
    ServerSettings,
)
from rumi.agent.mcp.oauth.logins import StoredLogins, login_of
from rumi.agent.mcp.pins import AcceptedTools, ServerPin, digest_of
from rumi.agent.mcp.results import Look, SaveFile, nowhere
from rumi.agent.mcp.server import KnownServer, McpServer, opened, take_tools
from rumi.agent.mcp.tested import digest_of_all, tested_as_json
from rumi.agent.mcp.tool import BETWEEN, McpTool, WithheldTool, may_stand, names_for
from rumi.agent.permissions.declare import DeclareTool
from rumi.agent.permissions.standing import ToolVersion
from rumi.agent.tool import Tool, claims_of
from rumi.errors import UsageError
from rumi.models.model import Message
from rumi.platform.caller import Caller
from rumi.platform.calls import call
from rumi.platform.chat_ids import LOCAL
from rumi.platform.threads import Threads
from rumi.texts import Language, Text

FOLDER: Final = "mcp"
"""The name of the folder in $RUMI_HOME that contains a folder for each server."""

BACKOFF: Final = Backoff(first_s=1.0, factor=2.0, cap_s=60.0)
SHUTDOWN_S: Final = 8.0
WAIT_S: Final = 8.0
"""Maximum time that a turn waits for servers without stored descriptions, in seconds."""

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
    """All configured servers. A server starts when its tools are likely to be used, and keeps running."""

    def __init__(
        self, root: Supervisor, home: Path, servers: Collection[ServerSettings], audit: Audit
    ) -> None:
        """Add the servers' supervisor to the actor tree if any servers are configured."""
        self._known = {server.name: KnownServer(server, self._audit_refusal) for server in servers}
        self._home = home
        self._accepted = AcceptedTools(home)
        self._logins = StoredLogins(home)
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

    async def ready(self, text: str = "", chat: str = "") -> tuple[Text, ...]:
        """Start the servers that a message is likely to need; return what the chat's users have to know.

        The tools of a server that was accepted earlier are offered from its stored descriptions, so it is
        started only if `text` names it or one of its tools, or at the first call. A server without stored
        descriptions is started here, and this waits for it, at most `WAIT_S`. Later calls do not wait again
        for a server that was not ready in time.
        """
        await self._recall()
        waiting = [known for known in self._known.values() if not known.tools and not known.settled.is_set()]
        for known in self._known.values():
            if known in waiting or (known.state == "stopped" and is_likely(known, text)):
                with suppress(ActorError):
                    await self._supervisor.get_or_start(known.settings.name)
        async with trio.open_nursery() as nursery:
            for known in waiting:
                nursery.start_soon(_wait_for, known)
        return tuple(note for known in self._known.values() for note in _notes(known, chat))

    async def _recall(self) -> None:
        """Read what was accepted of the servers, for each turn: `rumi mcp test` may change it."""
        await trio.lowlevel.checkpoint()
        if not self._known:
            return
        servers = [known.settings for known in self._known.values()]
        try:
            pins = await self._offload(partial(self._accepted.of_all, servers))
        except McpError:
            return  # the file cannot be read: the servers' starts fail with this error
        for name, known in self._known.items():
            if known.state == "stopped" and not known.tools:
                known.remember(pins[name])
            elif known.tools:
                known.pin = pins[name]

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

    @call("mcp.test", rights="all")
    async def test(self, caller: Caller, *, name: str, language: Language = "en") -> object:
        """Connect to a server, list its tools and what changed since they were accepted, then disconnect.

        Raises:
            UsageError: There is no such server.
            McpError: The server cannot be used.
        """
        return tested_as_json(await try_once(self._settings(name), self._home, accept=False), language)

    @call("mcp.accept", rights="all")
    async def accept(
        self, caller: Caller, *, name: str, digest: str = "", language: Language = "en"
    ) -> object:
        """Accept the tools of a server as it describes them now, and return them as `mcp.test` does.

        With the `digest` of an answer of `mcp.test`, only what that answer has shown is accepted.

        Raises:
            UsageError: The server does not exist, or its tools have changed since that test.
            McpError: The server cannot be used, or the acceptance cannot be stored.
        """
        caller.check_owner_of_home()
        tested = await try_once(self._settings(name), self._home, accept=True, digest=digest)
        await self._recall()
        self._audit_state(self._known[name])
        return tested_as_json(tested, language)

    @call("mcp.reconnect", rights="all")
    async def reconnect(self, caller: Caller, *, name: str) -> object:
        """Start a server again that waits after a failure, such as one that lacked a login; return its state.

        A server that runs keeps its connection: its requests take the login as it is stored now.

        Raises:
            UsageError: There is no such server.
        """
        caller.check_owner_of_home()
        self._settings(name)
        known = self._known[name]
        if known.state not in ("ready", "stopped"):
            await self._supervisor.stop(name)
            known.error, known.settled = None, trio.Event()
            with suppress(ActorError):
                await self._supervisor.get_or_start(name)
            await _wait_for(known)
        self._audit_state(known)
        return self._reported(known)

    async def forget_logins(self, owner: str) -> int:
        """Delete the logins at servers if the owner is that of the home; return how many there were.

        Raises:
            McpError: A login cannot be deleted.
        """
        names = self._logins.names() if owner == LOCAL else []
        for name in names:
            async with self._logins.locked(name):
                self._logins.forget(name)
        return len(names)

    def _settings(self, name: str) -> ServerSettings:
        if name not in self._known:
            raise UsageError("Unknown server {name}.", "rumi mcp list shows the servers.", name=name)
        return self._known[name].settings

    def report(self) -> list[dict[str, object]]:
        """Return the servers with their states and tools, in JSON types."""
        return [self._reported(known) for known in self._known.values()]

    def _reported(self, known: KnownServer) -> dict[str, object]:
        return {**_reported(known), **login_of(self._logins, known.settings, known.error)}

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

    def version_of(self, name: str) -> ToolVersion | None:
        """Return the accepted version of a tool by its name for models; None if no server has it now."""
        for known in self._known.values():
            names = names_for(known.settings.name, [tool.name for tool in known.tools])
            for tool in known.tools:
                if names[tool.name] == name and known.pin is not None and known.pin.takes(tool):
                    return ToolVersion(digest_of(tool), tool.read_only, may_stand(tool))
        return None

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
        known = self._known[server]
        starts, was_ready = known.starts, known.state == "ready"
        try:
            actor = await self._supervisor.get_or_start(server)
            return await actor.ask(CallTool(tool, arguments, progress))
        except ActorError as error:
            error_of_server = known.error
            why = error_of_server.for_model if error_of_server else Text("It is being started again.")
            sentence = Text("The server {server} did not start. {why}", server=server, why=why)
            if called := known.starts > starts or was_ready:
                sentence = Text(
                    "The server {server} has ended during the call. {why}", server=server, why=why
                )
            ended = McpError(sentence, error_of_server.for_people if error_of_server else "")
            ended.called = called
            raise ended from error

    def _audit_refusal(self, known: KnownServer, refusal: Refusal) -> None:
        """Write to the audit log that a server asked for a host that it may not reach, once for each host."""
        self._audit(
            server=known.settings.name, state=known.state, refused=str(refusal.address or refusal.host)
        )

    def _audit_state(self, known: KnownServer) -> None:
        """Write a changed server state to the audit log."""
        self._audit(
            server=known.settings.name,
            state=known.state,
            error=known.why,
            tools=len(known.tools),
            withheld=len(known.left_out()),
        )


def is_likely(known: KnownServer, text: str) -> bool:
    """Return True if a text names a server or one of its tools, so that its tools are likely to be used."""
    words = set(re.findall(r"\w+", text.casefold()))
    name = known.settings.name.casefold()
    named = words & {name, *re.split(r"[-_]", name)}
    return (
        bool(named)
        or f"{name}{BETWEEN}" in text.casefold()
        or any(tool.name.casefold() in words for tool in known.tools)
    )


async def _wait_for(known: KnownServer) -> None:
    """Wait until a server has settled, at most `WAIT_S`."""
    with trio.move_on_after(min(WAIT_S, known.settings.section.start_timeout_s)):
        await known.settled.wait()
    known.settled.set()


def _notes(known: KnownServer, chat: str) -> Iterator[Text]:
    """Yield why a server's tools are missing, once for each chat until the server is ready again.

    A server that has ended after it was ready keeps its tools and is started again; the call that it lost
    says so.
    """
    if known.state not in ("starting", "failed") or (known.starts and known.tools):
        return
    error, name = known.error, known.settings.name
    news = (chat, error is not None)
    if news in known.told:
        return
    known.told.add(news)
    if error is not None:
        yield Text(
            "The server {name} did not start, so its tools are missing. {why} {advice}",
            name=name,
            why=error.for_model,
            advice=error.for_people or Text("To see more: rumi mcp test {name}", name=name),
        )
    elif not known.tools:
        yield Text(
            "The server {name} is still starting; its tools are here from your next message on.", name=name
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
        "advice": "" if known.error is None else known.error.advice,
        "tools": [tool.name for tool in known.tools if tool.name not in waits],
        "withheld": waits,
        "changes": changes,
        "unusable": dict(known.unusable),
        "notes": list(known.notes),
        "refused": [
            {"host": str(refusal.address or refusal.host), "times": times}
            for refusal, times in known.asked.refused().items()
        ],
        "calls": known.calls,
        "failures": known.failures,
    }


async def try_once(settings: ServerSettings, home: Path, *, accept: bool, digest: str = "") -> KnownServer:
    """Connect to a server and list its tools, even if Rumi is not running.

    With `accept`, the listed tools are accepted; with a `digest` too, only if it is theirs.

    When a server is listed for the first time, its tools are always accepted. On cancellation, leaves no
    process behind.

    Raises:
        UsageError: The digest is not that of the listed tools.
        McpError: The server cannot be used.
    """
    known = KnownServer(settings)
    await try_known(known, home, accept=accept, digest=digest)
    return known


async def try_known(known: KnownServer, home: Path, *, accept: bool, digest: str = "") -> None:
    """Do the same as `try_once` for a server that keeps what it asked for, also if it cannot be used."""
    settings, accepted, offload = known.settings, AcceptedTools(home), Threads()
    async with opened(settings, home / FOLDER / settings.name, known.asked) as (connection, _):
        await take_tools(known, connection, accepted, offload)
        as_shown = not digest or digest == digest_of_all(known)
        if accept and as_shown:
            left_out = {name: str(why) for name, why in known.unusable.items()}
            known.pin = await offload(partial(accepted.accept, settings, known.tools, left_out))
    if not as_shown:  # not above: an error there would be one of the connection
        raise UsageError(
            "The server {name} describes its tools differently now.", "Read them again.", name=settings.name
        )
