"""The actor that maintains the connection to one MCP server.

A lost connection crashes the actor, so that its supervisor restarts it with a new connection.
"""

import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

import trio

from actors import Actor, Refused, answers
from rumi.agent.mcp.complaints import Complaints
from rumi.agent.mcp.failures import SessionLost, is_unreached, late
from rumi.agent.mcp.hosts import AskedHosts, Refusal, allowed_by, named_hosts
from rumi.agent.mcp.messages import (
    CallOutcome,
    CallTool,
    Connection,
    McpError,
    McpMessage,
    RemoteTool,
    ServerSettings,
    ServerState,
)
from rumi.agent.mcp.pins import AcceptedTools, ServerPin
from rumi.errors import single
from rumi.platform import http
from rumi.platform.extras import MissingExtra, require_extra
from rumi.platform.threads import Offload
from rumi.platform.untrusted_text import one_line
from rumi.sandbox.workspace import measure
from rumi.texts import Text
from rumi.web.outbound import read_host

MOST_NAMED: Final = 5
"""Maximum number of withheld tools that the status names."""

MOST_NAME_CHARS: Final = 60

MOST_READ: Final = 10_000
"""Maximum number of characters of a result that are searched for an error of the network."""

LIST_S: Final = 10.0
"""Maximum time for a running server to list its tools again after they have changed, in seconds."""


class KnownServer:
    """The state of one server that survives restarts of its actor.

    `tools` are the tools that the server listed on the last connection; before the first one, those that it
    listed in an earlier process (`remember`). `unusable` has the reason for each tool that no model can be
    given; `notes` say what else of the list is left out. `pin` records the tool descriptions that the user
    has accepted; `earlier` is the pin from before this connection. `error` is the last error, and `why` its
    message. The event `settled` is set once a start has succeeded or failed; `starts` is the number of
    successful ones. `asked` are the hosts that the server asked for and may not reach. `told` are the chats
    that know that it is starting (False), or the error (True).
    """

    def __init__(
        self,
        settings: ServerSettings,
        on_refusal: "Callable[[KnownServer, Refusal], None]" = lambda known, refusal: None,
    ) -> None:
        """`on_refusal` is called when the server is first refused a host."""
        self.settings = settings
        self.state: ServerState = "stopped"
        self.error: McpError | None = None
        self.told = set[tuple[str, bool]]()
        self.tools: tuple[RemoteTool, ...] = ()
        self.unusable: Mapping[str, Text] = {}
        self.notes: tuple[Text, ...] = ()
        self.calls = self.failures = self.starts = 0
        self.asked = AskedHosts(partial(on_refusal, self))
        self.settled = trio.Event()
        self.pin: ServerPin | None = None
        self.earlier: ServerPin | None = None

    @property
    def why(self) -> str:
        """The message of the last error; empty if there is none."""
        return "" if self.error is None else self.error.message

    def remember(self, pin: ServerPin | None) -> None:
        """Take the accepted tools as the server's tools, so that they can be offered before it runs.

        Does nothing if the descriptions of some tools are not stored.
        """
        self.pin = pin
        if pin is None:
            return
        tools = remembered(pin)
        if len(tools) == len(pin.tools):
            self.tools = self.wanted(tools)

    def wanted(self, tools: Sequence[RemoteTool]) -> tuple[RemoteTool, ...]:
        """Return the tools that the configuration names; if it names none, all."""
        named = self.settings.section.tools
        return tuple(tool for tool in tools if not named or tool.name in named)

    def check(self, name: str) -> RemoteTool:
        """Return a tool that the running server has as it was accepted.

        Raises:
            McpError: The server has no such tool any more, or has changed its description.
        """
        tool = next((tool for tool in self.tools if tool.name == name), None)
        if tool is None:
            raise McpError(
                "The server {server} has no tool {name} any more.", server=self.settings.name, name=name
            )
        if self.pin is not None and not self.pin.takes(tool):
            raise McpError(
                "The tool's description has changed since the user accepted it, so it was not called. To see "
                "the change: rumi mcp test {server} --accept",
                server=self.settings.name,
            )
        return tool

    def waiting(self) -> list[RemoteTool]:
        """Return the tools whose current description the user has not accepted."""
        return [tool for tool in self.tools if self.pin is None or not self.pin.takes(tool)]

    def left_out(self) -> dict[str, Text]:
        """Return the tools that models do not get, with the reasons."""
        accepted = self.pin.tools if self.pin is not None else {}
        new = Text("It is new, and you have not accepted it.")
        changed = Text("It has changed since you accepted it.")
        waiting = {tool.name: changed if tool.name in accepted else new for tool in self.waiting()}
        return {**self.unusable, **waiting}


def remembered(pin: ServerPin) -> tuple[RemoteTool, ...]:
    """Return the accepted tools of a server; without those whose descriptions are not stored."""
    found = []
    for name, said in pin.said.items():
        parameters, destructive = said.get("parameters"), said.get("destructive")
        tool = RemoteTool(
            name,
            str(said.get("description", "")),
            parameters if isinstance(parameters, Mapping) else {},
            read_only=said.get("read_only") is True,
            open_world=said.get("open_world") is not False,
            destructive=destructive if isinstance(destructive, bool) else None,
        )
        if pin.takes(tool):
            found.append(tool)
    return tuple(found)


OnStateChange = Callable[[KnownServer], None]


class McpServer(Actor[McpMessage]):
    """The actor of one server.

    Calls wait until the server has started. At most `concurrency` calls run at the same time.
    """

    concurrency: ClassVar[int] = 16

    def __init__(
        self,
        directory: KnownServer,
        home: Path,
        accepted: AcceptedTools,
        offload: Offload,
        on_state_change: OnStateChange,
    ) -> None:
        """`home` is the server's own folder. `on_state_change` is called when the server's state changes."""
        self._directory = directory
        self._settings = directory.settings
        self._home = home
        self._accepted = accepted
        self._offload = offload
        self._on_state_change = on_state_change
        self._connection: Connection | None = None
        self._ready = trio.Event()
        self._lost = trio.Event()

    async def started(self) -> None:
        """Start to connect in the background, so that the actor can accept calls in the meantime."""
        await trio.lowlevel.checkpoint()
        self._set("starting")
        self.start_soon(self._live)

    async def stopped(self, reason: str) -> None:
        """Publish the state `stopped`. The connection has already ended with the actor's tasks."""
        await trio.lowlevel.checkpoint()
        # After a crash the state stays `failed`, with its reason, until the next incarnation starts.
        if reason != "crashed":
            self._set("stopped")

    def activity(self) -> str:
        """Return the server's state as text for the status, or the tools that are left out if it is ready."""
        state, left_out = self._directory.state, [*self._directory.left_out()]
        if state != "ready" or not left_out:
            return "" if state == "ready" else state
        names = [one_line(name, MOST_NAME_CHARS) for name in left_out[:MOST_NAMED]]
        more = len(left_out) - len(names)
        return f"withheld: {', '.join(names)}{f' and {more} more' if more else ''}"

    def metrics(self) -> Mapping[str, object]:
        """Return the numbers of tools, of those left out, of calls, of failed calls and of refused hosts."""
        known = self._directory
        tools = {"tools": len(known.tools), "withheld": len(known.left_out())}
        counted = {"calls": known.calls, "failures": known.failures}
        return {**tools, **counted, "refused hosts": known.asked.count}

    @answers(CallTool)
    async def call_tool(self, message: CallTool) -> CallOutcome:
        """Call a tool within the server's time limit.

        If the server has lost the session, a new one is opened, and a call that only reads is made again.
        """
        self._directory.calls += 1
        try:
            connection = await self._opened()
            tool = self._directory.check(message.tool)
            try:
                return await self._called(connection, message)
            except SessionLost:
                self._renew(connection)
                if not tool.read_only:
                    raise
            return await self._called(await self._opened(), message)
        except McpError as error:
            self._directory.failures += 1
            raise Refused(error) from error

    async def _opened(self) -> Connection:
        """Return the connection, once it is open. Its time limit does not reduce that of the call."""
        seconds = self._settings.section.start_timeout_s
        with trio.move_on_after(seconds):
            await self._ready.wait()
        if self._connection is None:
            raise self._directory.error or McpError(
                "The server did not answer within {late}.", late=Text("the time for its start")
            )
        return self._connection

    async def _called(self, connection: Connection, message: CallTool) -> CallOutcome:
        seconds = self._settings.section.timeout_s
        asked = self._directory.asked
        before = asked.count

        def refused(texts: Iterable[str] = ()) -> tuple[Text, ...]:
            found = asked.since(before) or unreached(self._settings, texts)
            return tuple(one.text(self._settings.name) for one in found[-MOST_NAMED:])

        try:
            with trio.move_on_after(seconds):
                outcome = await connection.call(message.tool, message.arguments, message.progress)
                return replace(outcome, refused=refused(part.text for part in outcome.parts))
            raise McpError("The server did not answer within {late}.", late=f"{seconds:g} s")
        except SessionLost:
            raise
        except McpError as error:
            error.called = True
            error.refused = refused([getattr(error, "words", "")])
            raise

    def _renew(self, connection: Connection) -> None:
        """Replace a connection whose session is lost; a second call that noticed the same changes nothing."""
        if self._connection is connection:
            self._connection = None
            self._ready = trio.Event()
            self._lost.set()

    async def _live(self) -> None:
        """Keep the connection open until the current run of this actor ends.

        Raises:
            McpError: The server cannot be used, or it exited.
        """
        while True:
            self._lost = trio.Event()
            await self._live_once(self._lost)

    async def _live_once(self, lost: trio.Event) -> None:
        """Open a connection and keep it until its session is lost."""
        try:
            await check_folder(self._settings, self._home, self._offload)
            async with (
                opened(self._settings, self._home, self._directory.asked) as (connection, start),
                trio.open_nursery() as own,
            ):
                if self._settings.section.command:  # a remote server has no folder on this machine
                    own.start_soon(watch_folder, self._settings, self._home, self._offload)
                await self._list(connection)
                # The server is ready: from here on the time limit of its start must not end the connection.
                start.deadline = math.inf
                self._connection = connection
                self._ready.set()
                self._set("ready")
                own.start_soon(self._keep_list, connection)
                await lost.wait()
                own.cancel_scope.cancel()
        except (McpError, ExceptionGroup) as error:
            only = single(error)
            if isinstance(only, McpError):
                self._directory.error = only
                self._set("failed")
            raise only from None

    async def _list(self, connection: Connection) -> None:
        await take_tools(self._directory, connection, self._accepted, self._offload)

    async def _keep_list(self, connection: Connection) -> None:
        while True:
            await connection.changed()
            try:
                with trio.fail_after(LIST_S):
                    await self._list(connection)
            except trio.TooSlowError:
                raise McpError("The server did not list its tools in time.") from None
            self._on_state_change(self._directory)

    def _set(self, state: ServerState) -> None:
        known = self._directory
        known.state = state
        if state == "ready":
            known.error = None
            known.starts += 1
            known.told.clear()
        if state in ("ready", "failed"):
            known.settled.set()
        self._on_state_change(known)


def unreached(settings: ServerSettings, texts: Iterable[str]) -> tuple[Refusal, ...]:
    """Return the loopback addresses that a server's configuration names and that it may not reach.

    Programs use no proxy for these, so the gateway does not see that they were asked for. The result is empty
    unless one of the `texts` of the server says that a host was not reached.
    """
    section = settings.section
    if section.network or not section.sandbox or not any(is_unreached(text[:MOST_READ]) for text in texts):
        return ()
    hosts = map(read_host, named_hosts([*section.args, *settings.env.values()]))
    allowed = allowed_by(section)
    return tuple(Refusal(host) for host in hosts if host.is_loopback and host not in allowed)


async def take_tools(
    known: KnownServer, connection: Connection, accepted: AcceptedTools, offload: Offload
) -> None:
    """Store the server's tools in `known`. On the first connection, accept the tools automatically.

    The user configured the server; this counts as acceptance of the first descriptions that the server sends.

    Raises:
        McpError: The server does not list its tools, or the file of accepted tools cannot be written.
    """
    settings = known.settings
    listing = await connection.list_tools()
    tools, wanted = listing.tools, settings.section.tools
    known.tools = known.wanted(tools)
    known.unusable = {name: why for name, why in listing.unusable.items() if not wanted or name in wanted}
    known.notes = listing.notes
    known.pin = known.earlier = await offload(partial(accepted.of, settings))
    if known.pin is None:
        left_out = {name: str(why) for name, why in known.unusable.items()}
        known.pin = await offload(partial(accepted.accept, settings, tools, left_out))
    else:
        left_out = {name: str(why) for name, why in known.left_out().items()}
        known.pin = await offload(partial(accepted.note, settings, known.pin, tools, left_out))


@asynccontextmanager
async def opened(
    settings: ServerSettings, home: Path, asked: AskedHosts
) -> AsyncIterator[tuple[Connection, trio.CancelScope]]:
    """Connect to a server; close the connection at the end of the block, also on cancellation.

    `asked` gets the hosts that the server may not reach.

    The deadline of the yielded cancel scope limits the start of the server. The block must set a later
    deadline once the server is ready.

    Raises:
        McpError: The server cannot be used, was not ready in time, or exited.
    """
    if settings.fault is not None:
        raise McpError(settings.fault.message, settings.fault.advice)
    try:
        connected = await http.loaded(_connecting)
    except MissingExtra as error:
        raise McpError(error.message, error.advice) from None
    complaints = Complaints(settings, home.parent.parent)
    with trio.move_on_after(settings.section.start_timeout_s) as start:
        async with connected(settings, home, complaints, asked) as connection:
            yield connection, start
    if start.cancelled_caught:
        raise late(settings, complaints.lines(), asked)


def _connecting() -> (
    "Callable[[ServerSettings, Path, Complaints, AskedHosts], AbstractAsyncContextManager[Connection]]"
):
    """Import the client library, which is slow, and return the function that connects. Blocks.

    Raises:
        MissingExtra: It is not installed.
    """
    require_extra("mcp")
    from rumi.agent.mcp.connection import connected

    return connected


MOST_FILES: Final = 100_000


LOOK_S: Final = 1.0
"""Minimum time between two measurements of a server's folder, in seconds.

Slow measurements are made less often, so that they take at most a tenth of the time.
"""


async def check_folder(settings: ServerSettings, home: Path, offload: Offload) -> None:
    """Check the disk usage of a server's folder. Holes in sparse files do not count.

    Raises:
        McpError: The folder exceeds its limits. The error tells the user what to do.
    """
    use = await offload(partial(measure, home, stop_after=MOST_FILES))
    if use.bytes <= settings.section.max_folder_bytes and use.files < MOST_FILES:
        return
    megabytes = settings.section.max_folder_bytes // 1_000_000
    raise McpError(
        "The server's folder has more than {megabytes} MB or {most_files} files, so Rumi ended it.",
        "Delete files in {home}, or set a larger mcp.{name}.max_folder_mb.",
        megabytes=megabytes,
        most_files=MOST_FILES,
        home=home,
        name=settings.name,
    )


async def watch_folder(settings: ServerSettings, home: Path, offload: Offload) -> None:
    """Check the server's folder repeatedly while the server runs.

    Raises:
        McpError: The folder exceeds its limits.
    """
    while True:
        began = time.monotonic()
        await check_folder(settings, home, offload)
        await trio.sleep(max(LOOK_S, 10 * (time.monotonic() - began)))
