"""The actor that maintains the connection to one server.

A lost connection crashes the actor, so that its supervisor restarts it with a new connection.
"""

import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

import trio

from actors import Actor, Refused, answers
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
from rumi.platform.threads import Offload
from rumi.sandbox.workspace import measure

LIST_S: Final = 10.0
"""Maximum time for a running server to list its changed tools, in seconds."""


class KnownServer:
    """The state of one server that survives restarts of its actor.

    `tools` are the tools of the last connection. `pin` is the accepted state, `earlier` the state that was
    accepted before this connection. `why` is the last error. `settled` is set once a start has succeeded or
    failed.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.state: ServerState = "stopped"
        self.why = ""
        self.tools: tuple[RemoteTool, ...] = ()
        self.calls = self.failures = 0
        self.settled = trio.Event()
        self.pin: ServerPin | None = None
        self.earlier: ServerPin | None = None


OnStateChange = Callable[[KnownServer], None]


class McpServer(Actor[McpMessage]):
    """One server. At most `concurrency` calls run at the same time; calls wait while the server starts."""

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

    async def started(self) -> None:
        """Start to connect, in the background: the actor accepts calls meanwhile."""
        await trio.lowlevel.checkpoint()
        self._set("starting")
        self.start_soon(self._live)

    async def stopped(self, reason: str) -> None:
        """Publish the state `stopped`. The connection has ended already with the incarnation's tasks."""
        await trio.lowlevel.checkpoint()
        # After a crash the state stays `failed`, with its reason, until the next incarnation starts.
        if reason != "crashed":
            self._set("stopped")

    def activity(self) -> str:
        """Return the server's state; empty if the server is ready."""
        state = self._directory.state
        return "" if state == "ready" else state

    def metrics(self) -> Mapping[str, object]:
        """Return the numbers of tools, calls and failed calls."""
        known = self._directory
        return {"tools": len(known.tools), "calls": known.calls, "failures": known.failures}

    @answers(CallTool)
    async def call_tool(self, message: CallTool) -> CallOutcome:
        """Call a tool within the server's time limit."""
        self._directory.calls += 1
        try:
            # Two time limits: waiting for the server's start does not reduce the time of the call.
            with trio.fail_after(self._settings.start_timeout_s):
                await self._ready.wait()
            assert self._connection is not None
            with trio.fail_after(self._settings.timeout_s):
                return await self._connection.call(message.tool, message.arguments, message.progress)
        except trio.TooSlowError:
            self._directory.failures += 1
            late = f"{self._settings.timeout_s:g} s" if self._ready.is_set() else "the time for its start"
            raise Refused(McpError(f"The server did not answer within {late}.")) from None
        except McpError as error:
            self._directory.failures += 1
            raise Refused(error) from error

    async def _live(self) -> None:
        """Hold the connection until the incarnation ends.

        Raises:
            McpError: The server cannot be used, or it exited.
        """
        try:
            await check_folder(self._settings, self._home, self._offload)
            async with opened(self._settings, self._home) as (connection, start), trio.open_nursery() as own:
                if self._settings.command:  # a remote server has no folder on this machine
                    own.start_soon(watch_folder, self._settings, self._home, self._offload)
                await self._list(connection)
                # The server is ready: from here on the time limit of its start must not end the connection.
                start.deadline = math.inf
                self._connection = connection
                self._ready.set()
                self._set("ready")
                await self._keep_list(connection)
        except (McpError, ExceptionGroup) as error:
            only = single(error)
            if isinstance(only, McpError):
                self._directory.why = str(only)
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
            known.why = ""
        if state in ("ready", "failed"):
            known.settled.set()
        self._on_state_change(known)


async def take_tools(
    known: KnownServer, connection: Connection, accepted: AcceptedTools, offload: Offload
) -> None:
    """Store the server's tools in `known`. The tools of the first connection are accepted at once.

    The user has configured the server, which counts as acceptance of its initial descriptions.

    Raises:
        McpError: The server does not list its tools, or the file of accepted tools cannot be written.
    """
    settings = known.settings
    tools = await connection.list_tools()
    tools = tuple({tool.name: tool for tool in reversed(tools)}.values())[::-1]  # the first one of each name
    known.tools = tuple(tool for tool in tools if not settings.tools or tool.name in settings.tools)
    known.pin = known.earlier = await offload(partial(accepted.of, settings))
    if known.pin is None:
        known.pin = await offload(partial(accepted.accept, settings, tools))


@asynccontextmanager
async def opened(settings: ServerSettings, home: Path) -> AsyncIterator[tuple[Connection, trio.CancelScope]]:
    """Connect to a server; end the connection with the block, also if cancelled.

    The yielded scope has the deadline of the server's start. The block must move the deadline once the server
    is ready.

    Raises:
        McpError: The server cannot be used, was not ready in time, or exited.
    """
    if settings.fault is not None:
        raise McpError(settings.fault.message, settings.fault.advice)
    connected = await http.loaded(_connecting)
    with trio.move_on_after(settings.start_timeout_s) as start:
        async with connected(settings, home) as connection:
            yield connection, start
    if start.cancelled_caught:
        raise McpError(f"The server was not ready within {settings.start_timeout_s:g} s.")


def _connecting() -> "Callable[[ServerSettings, Path], AbstractAsyncContextManager[Connection]]":
    """Import the client library, which is slow, and return the function that connects. Blocks."""
    from rumi.agent.mcp.connection import connected

    return connected


MOST_FILES: Final = 100_000


LOOK_S: Final = 1.0
"""Minimum time between two measurements, in seconds. Slow ones are rarer, a tenth of the time at most."""


async def check_folder(settings: ServerSettings, home: Path, offload: Offload) -> None:
    """Check the disk usage of a server's folder. Holes in files do not count.

    Raises:
        McpError: The folder exceeds its limits. The advice says what to do.
    """
    use = await offload(partial(measure, home, stop_after=MOST_FILES))
    if use.bytes <= settings.max_folder_bytes and use.files < MOST_FILES:
        return
    megabytes = settings.max_folder_bytes // 1_000_000
    raise McpError(
        f"The server's folder has more than {megabytes} MB or {MOST_FILES} files, so it was ended.",
        f"Delete files in {home}, or set a larger mcp.{settings.name}.max_folder_mb.",
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
