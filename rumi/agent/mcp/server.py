"""The actor that keeps the connection to one server. A connection that ends is a crash: it is made again."""

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
"""How long a server may take to list its tools again."""


class KnownServer:
    """What is known of one server; it outlives the actor's incarnations.

    `tools` are those of the last connection. `pin` is what is accepted, `earlier` what was accepted before
    this connection. `settled` is set when a start has come out, in either way.
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
    """One server. Calls run at once, `concurrency` at most; one more waits for the start of the server."""

    concurrency: ClassVar[int] = 16

    def __init__(
        self,
        directory: KnownServer,
        home: Path,
        accepted: AcceptedTools,
        offload: Offload,
        on_state_change: OnStateChange,
    ) -> None:
        """`home` is the server's own folder. `told` is called when its state changes."""
        self._directory = directory
        self._settings = directory.settings
        self._home = home
        self._accepted = accepted
        self._offload = offload
        self._on_state_change = on_state_change
        self._connection: Connection | None = None
        self._ready = trio.Event()

    async def started(self) -> None:
        """Begin to connect. The actor answers meanwhile."""
        await trio.lowlevel.checkpoint()
        self._set("starting")
        self.start_soon(self._live)

    async def stopped(self, reason: str) -> None:
        """Nothing is left to end: the connection was a task of the incarnation."""
        await trio.lowlevel.checkpoint()
        if reason != "crashed":
            self._set("stopped")

    def activity(self) -> str:
        """Return the server's state, unless it works as it should."""
        state = self._directory.state
        return "" if state == "ready" else state

    def metrics(self) -> Mapping[str, object]:
        """Return how many tools it has, calls it took, and calls that failed."""
        known = self._directory
        return {"tools": len(known.tools), "calls": known.calls, "failures": known.failures}

    @answers(CallTool)
    async def call_tool(self, message: CallTool) -> CallOutcome:
        """Call a tool within the server's time limit."""
        self._directory.calls += 1
        try:
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
        """Keep the connection until the incarnation ends. Raises McpError when the server has ended."""
        try:
            await check_folder(self._settings, self._home, self._offload)
            async with opened(self._settings, self._home) as (connection, start), trio.open_nursery() as own:
                if self._settings.command:
                    own.start_soon(watch_folder, self._settings, self._home, self._offload)
                await self._list(connection)
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
    """Note the server's tools. Those of its first connection are accepted: the configuration names it.

    Raises:
        McpError: The server does not list them, or the file of what is accepted cannot be written.
    """
    settings = known.settings
    tools = await connection.list_tools()
    tools = tuple({tool.name: tool for tool in reversed(tools)}.values())[::-1]  # one of each name
    known.tools = tuple(tool for tool in tools if not settings.tools or tool.name in settings.tools)
    known.pin = known.earlier = await offload(partial(accepted.of, settings))
    if known.pin is None:
        known.pin = await offload(partial(accepted.accept, settings, tools))


@asynccontextmanager
async def opened(settings: ServerSettings, home: Path) -> AsyncIterator[tuple[Connection, trio.CancelScope]]:
    """Connect to a server; end the connection with the block. Cancelled, nothing is left.

    The scope's deadline is that of the server's start, also for the block, which moves it.

    Raises:
        McpError: It cannot be used, was not ready in time, or has ended.
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
    """Import the library, which takes long, and return what connects to a server. Blocks."""
    from rumi.agent.mcp.connection import connected

    return connected


MOST_FILES: Final = 100_000


LOOK_S: Final = 1.0
"""The time between two counts. A count that takes long is made more rarely: a tenth of the time at most."""


async def check_folder(settings: ServerSettings, home: Path, offload: Offload) -> None:
    """Check what a server's folder takes on the disk; holes in files take nothing.

    Raises:
        McpError: It is more than the server may have. The message says what to do.
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
    """Check the folder while the server runs, until it has too much. Raises McpError as `check_folder`."""
    while True:
        began = time.monotonic()
        await check_folder(settings, home, offload)
        await trio.sleep(max(LOOK_S, 10 * (time.monotonic() - began)))
