"""The actor that maintains the connection to one MCP server.

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
from rumi.platform.untrusted_text import one_line
from rumi.sandbox.workspace import measure
from rumi.texts import Text

MOST_NAMED: Final = 5
"""Maximum number of withheld tools that the status names."""

MOST_NAME_CHARS: Final = 60

LIST_S: Final = 10.0
"""Maximum time for a running server to list its tools again after they have changed, in seconds."""


class KnownServer:
    """The state of one server that survives restarts of its actor.

    `tools` are the tools that the server listed on the last connection. `unusable` has the reason for each
    tool that no model can be given; `notes` say what else of the list is left out. `pin` records the tool
    descriptions that the user has accepted; `earlier` is the pin from before this connection. `why` is the
    last error. The event `settled` is set once a start has succeeded or failed.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.state: ServerState = "stopped"
        self.why = ""
        self.tools: tuple[RemoteTool, ...] = ()
        self.unusable: Mapping[str, Text] = {}
        self.notes: tuple[Text, ...] = ()
        self.calls = self.failures = 0
        self.settled = trio.Event()
        self.pin: ServerPin | None = None
        self.earlier: ServerPin | None = None

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
        """Return the numbers of tools, of those that are left out, of calls and of failed calls."""
        known = self._directory
        tools = {"tools": len(known.tools), "withheld": len(known.left_out())}
        return {**tools, "calls": known.calls, "failures": known.failures}

    @answers(CallTool)
    async def call_tool(self, message: CallTool) -> CallOutcome:
        """Call a tool within the server's time limit."""
        self._directory.calls += 1
        try:
            # Two time limits: waiting for the server's start does not reduce the time of the call.
            with trio.fail_after(self._settings.section.start_timeout_s):
                await self._ready.wait()
            assert self._connection is not None
            with trio.fail_after(self._settings.section.timeout_s):
                return await self._connection.call(message.tool, message.arguments, message.progress)
        except trio.TooSlowError:
            self._directory.failures += 1
            ready_s = self._settings.section.timeout_s
            late = f"{ready_s:g} s" if self._ready.is_set() else "the time for its start"
            too_late = McpError("The server did not answer within {late}.", late=late)
            too_late.called = self._ready.is_set()
            raise Refused(too_late) from None
        except McpError as error:
            self._directory.failures += 1
            error.called = self._ready.is_set()
            raise Refused(error) from error

    async def _live(self) -> None:
        """Keep the connection open until the current run of this actor ends.

        Raises:
            McpError: The server cannot be used, or it exited.
        """
        try:
            await check_folder(self._settings, self._home, self._offload)
            async with opened(self._settings, self._home) as (connection, start), trio.open_nursery() as own:
                if self._settings.section.command:  # a remote server has no folder on this machine
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
    """Store the server's tools in `known`. On the first connection, accept the tools automatically.

    The user configured the server; this counts as acceptance of the first descriptions that the server sends.

    Raises:
        McpError: The server does not list its tools, or the file of accepted tools cannot be written.
    """
    settings = known.settings
    listing = await connection.list_tools()
    tools, wanted = listing.tools, settings.section.tools
    known.tools = tuple(tool for tool in tools if not wanted or tool.name in wanted)
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
async def opened(settings: ServerSettings, home: Path) -> AsyncIterator[tuple[Connection, trio.CancelScope]]:
    """Connect to a server; close the connection at the end of the block, also on cancellation.

    The deadline of the yielded cancel scope limits the start of the server. The block must set a later
    deadline once the server is ready.

    Raises:
        McpError: The server cannot be used, was not ready in time, or exited.
    """
    if settings.fault is not None:
        raise McpError(settings.fault.message, settings.fault.advice)
    connected = await http.loaded(_connecting)
    with trio.move_on_after(settings.section.start_timeout_s) as start:
        async with connected(settings, home) as connection:
            yield connection, start
    if start.cancelled_caught:
        raise McpError(
            "The server was not ready within {start_timeout_s} s.",
            start_timeout_s=f"{settings.section.start_timeout_s:g}",
        )


def _connecting() -> "Callable[[ServerSettings, Path], AbstractAsyncContextManager[Connection]]":
    """Import the client library, which is slow, and return the function that connects. Blocks."""
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
        "The server's folder has more than {megabytes} MB or {most_files} files, so it was ended.",
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
