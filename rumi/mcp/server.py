"""The actor that keeps the connection to one server. A connection that ends is a crash: it is made again."""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import ClassVar, Final

import trio

from actors import Actor, Refused, answers
from rumi import http
from rumi.mcp.pins import AcceptedTools, Pin
from rumi.mcp.types import CallTool, Connection, McpError, McpMessage, Outcome, RemoteTool, ServerSettings
from rumi.mcp.types import ServerState as State
from rumi.offload import Offload

logger = logging.getLogger(__name__)

LIST_S: Final = 10.0
"""How long a server may take to list its tools again."""


class Directory:
    """What is known of one server; it outlives the actor's incarnations.

    `tools` are those of the last connection. `settled` is set when a start has come out, in either way.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.state: State = "stopped"
        self.why = ""
        self.tools: tuple[RemoteTool, ...] = ()
        self.calls = self.failures = 0
        self.settled = trio.Event()
        self.pin: Pin | None = None


Told = Callable[[Directory], None]


class McpServer(Actor[McpMessage]):
    """One server. Calls run at once, `concurrency` at most; one more waits for the start of the server."""

    concurrency: ClassVar[int] = 16

    def __init__(
        self, directory: Directory, home: Path, accepted: AcceptedTools, offload: Offload, told: Told
    ) -> None:
        """`home` is the server's own folder. `told` is called when its state changes."""
        self._directory = directory
        self._settings = directory.settings
        self._home = home
        self._accepted = accepted
        self._offload = offload
        self._told = told
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
    async def call_tool(self, message: CallTool) -> Outcome:
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
            if self._settings.fault is not None:
                raise McpError(self._settings.fault.message, self._settings.fault.advice)
            connected = await http.loaded(connecting)
            with trio.CancelScope(deadline=self._by()) as scope:
                async with connected(self._settings, self._home) as connection:
                    await self._list(connection)
                    scope.deadline = float("inf")
                    self._connection = connection
                    self._ready.set()
                    self._set("ready")
                    await self._keep_list(connection)
            raise McpError(f"The server was not ready within {self._settings.start_timeout_s:g} s.")
        except McpError as error:
            self._directory.why = str(error)
            self._set("failed")
            raise

    def _by(self) -> float:
        return trio.current_time() + self._settings.start_timeout_s

    async def _list(self, connection: Connection) -> None:
        """Note the server's tools. Those of its first connection are accepted: the configuration names it."""
        known = self._directory
        tools = await connection.list_tools()
        known.tools = tuple(t for t in tools if not self._settings.tools or t.name in self._settings.tools)
        known.pin = await self._offload(lambda: self._accepted.of(self._settings))
        if known.pin is None:
            known.pin = await self._offload(lambda: self._accepted.accept(self._settings, tools))

    async def _keep_list(self, connection: Connection) -> None:
        while True:
            await connection.changed()
            try:
                with trio.fail_after(LIST_S):
                    await self._list(connection)
            except trio.TooSlowError:
                raise McpError("The server did not list its tools in time.") from None
            self._told(self._directory)

    def _set(self, state: State) -> None:
        known = self._directory
        known.state = state
        if state == "ready":
            known.why = ""
        if state in ("ready", "failed"):
            known.settled.set()
        self._told(known)


def connecting() -> "Callable[[ServerSettings, Path], AbstractAsyncContextManager[Connection]]":
    """Import the library, which takes long, and return what connects to a server. Blocks."""
    from rumi.mcp.connection import connected

    return connected
