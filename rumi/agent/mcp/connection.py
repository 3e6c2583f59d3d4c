"""A connection to an MCP server through the official client library.

This module is imported only when needed, because the library takes 0.6 s and 41 MB. Rumi uses only the
library's session. Rumi itself owns the process and its pipes (`rumi.agent.mcp.process`) and limits the size
of a server's messages. Requests from a server to its client (for models, forms, folders) are refused, because
no handler is registered.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import mcp_types as wire
import trio
from mcp import Client, MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from rumi import __version__
from rumi.agent.mcp.complaints import MOST_LINE_CHARS, STDOUT, Complaints
from rumi.agent.mcp.failures import SessionLost, ended
from rumi.agent.mcp.hosts import AskedHosts
from rumi.agent.mcp.lines import PARSE_ERROR, RAW, UNREAD, Lines
from rumi.agent.mcp.listing import list_all
from rumi.agent.mcp.messages import CallOutcome, Listing, McpError, Progress, ServerRefused, ServerSettings
from rumi.agent.mcp.oauth.bearer import Bearer
from rumi.agent.mcp.outcomes import outcome_of
from rumi.agent.mcp.process import ServerProcess, running
from rumi.agent.mcp.remote import Heard, failure, may_be_old, over_http
from rumi.agent.mcp.streams import json_of, message_of, read_by
from rumi.platform.threads import Threads

_WAITING: Final = 64
"""Maximum number of buffered messages to a server that does not read its input.

The buffer lets a cancellation notification be queued at once, so that a `/stop` never blocks.
"""


@asynccontextmanager
async def connected(
    settings: ServerSettings, home: Path, complaints: Complaints, asked: AskedHosts
) -> AsyncIterator["LibraryConnection"]:
    """Connect to a server; at the end of the block, end the connection and the server's process.

    If the block is cancelled, the connection and the process end too.

    `home` is the server's own folder. `complaints` gets what its process writes to standard error, `asked`
    the hosts that it may not reach. The caller sets the time limit. If the server exits, the block is
    cancelled.

    Raises:
        McpError: The server cannot be started or reached, or it exited.
    """
    for again in (False, True):
        state, is_open = _State(), False
        try:
            async with _streams(settings, home, complaints, asked, state, again=again) as streams:
                client = Client(
                    _ready(read_by(state.lines, streams) if settings.section.url else streams),
                    client_info=wire.Implementation(name="rumi", version=__version__),
                    message_handler=state.hear,
                    cache=None,
                )
                async with client:
                    is_open = True
                    yield LibraryConnection(client, state, settings)
            return
        except McpError:
            raise
        except Exception as error:  # the library raises exception groups, also for its own bugs
            for own in _own(error):
                raise own from None
            if not is_open and not again and may_be_old(settings, state.heard):
                continue
            if settings.section.url and (known := failure(settings, state.heard, error)) is not None:
                raise known from error
            raise McpError("The connection to the server failed: {error}.", error=_reason(error)) from error


class LibraryConnection:
    """An open connection; see `rumi.agent.mcp.messages.Connection`."""

    def __init__(self, client: Client, state: "_State", settings: ServerSettings) -> None:
        self._settings = settings
        self._hide = settings.redact.known
        self._client = client
        self._state = state

    async def changed(self) -> None:
        """Wait until the server reports that its tools have changed."""
        await self._state.changed()

    async def list_tools(self) -> Listing:
        """Return the server's current tools.

        Raises:
            McpError: The server refused, or its answer cannot be read.
        """

        async def ask(cursor: str | None) -> object:
            params = wire.PaginatedRequestParams(cursor=cursor)
            return _raw(await self._asked(self._client.session.list_tools(params=params))).get("result")

        return await list_all(ask, self._hide)

    async def call(self, tool: str, arguments: Mapping[str, object], show: Progress) -> CallOutcome:
        """Call a tool. On cancellation, sends `notifications/cancelled` to the server.

        Raises:
            McpError: The server refused, or its answer is not a result.
        """

        async def report_progress(progress: float, total: float | None, message: str | None) -> None:
            await trio.lowlevel.checkpoint()
            of = f"{progress:g}/{total:g}" if total else f"{progress:g}"
            show(f"{self._hide(message)} ({of})" if message else of)

        # Not `call_tool`: it validates results against the server's own schema, whose patterns may be slow.
        params = wire.CallToolRequestParams(name=tool, arguments=dict(arguments))
        request = self._client.session.send_request(
            wire.CallToolRequest(params=params), wire.CallToolResult, progress_callback=report_progress
        )
        return outcome_of(_raw(await self._asked(request)), self._hide)

    async def _asked(self, request: Any) -> Any:
        """Return the server's answer to a request that the library sent.

        Raises:
            McpError: The server refused or exited, or its answer is malformed.
        """
        try:
            return await request
        except MCPError as error:
            if self._state.heard.session_lost:
                raise SessionLost from None
            said = error.error.message
            # The library's own words for any status from 400 on.
            of_http = self._state.heard.error(self._settings)
            if said == "Server returned an error response" and of_http is not None:
                raise of_http from None
            if error.error.code == wire.CONNECTION_CLOSED and said == "Connection closed":
                raise self._state.ended or McpError("The server has ended.") from None
            # The library's own words for an answer over HTTP that is not valid JSON.
            if error.error.code == PARSE_ERROR and (said == UNREAD or said.startswith("Failed to parse ")):
                raise McpError("The server's answer cannot be read: it is not valid JSON.") from None
            raise ServerRefused(self._hide(error.error.message)) from None
        except ValidationError:
            raise McpError("The server's answer does not have the form of one.") from None
        except RuntimeError as error:
            raise McpError("The call failed: {error}.", error=_reason(error)) from error


class _State:
    """The state of a connection: the error that `ended` it, and an event that signals changed tools."""

    def __init__(self) -> None:
        self.ended: McpError | None = None
        self.heard = Heard()
        self.lines = Lines()
        self._changed = trio.Event()

    async def hear(self, message: object) -> None:
        await trio.lowlevel.checkpoint()
        if isinstance(message, wire.ToolListChangedNotification):
            self._changed.set()

    async def changed(self) -> None:
        await self._changed.wait()
        self._changed = trio.Event()


@asynccontextmanager
async def _ready(streams: "tuple[Any, Any]") -> AsyncIterator["tuple[Any, Any]"]:
    """Wrap open streams in the context manager that the library expects."""
    await trio.lowlevel.checkpoint()
    yield streams


def _streams(
    settings: ServerSettings,
    home: Path,
    complaints: Complaints,
    asked: AskedHosts,
    state: _State,
    *,
    again: bool,
) -> AbstractAsyncContextManager["tuple[Any, Any]"]:
    if settings.section.command:
        return _of_process(settings, home, complaints, asked, state)
    bearer = Bearer(settings, home.parent.parent, Threads())
    return over_http(settings, state.heard, bearer, again=again)


@asynccontextmanager
async def _of_process(
    settings: ServerSettings, home: Path, complaints: Complaints, asked: AskedHosts, state: _State
) -> AsyncIterator["tuple[Any, Any]"]:
    """Start the server and yield the streams of its messages. If the server exits, the block is cancelled."""
    async with AsyncExitStack() as stack:
        process = await stack.enter_async_context(running(settings, home, complaints, asked))
        # No buffer for incoming messages: a server that sends too fast is slowed down by its own pipe.
        from_server, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, to_server = anyio.create_memory_object_stream[SessionMessage](_WAITING)
        for stream in (from_server, read, write, to_server):
            stack.callback(stream.close)
        async with trio.open_nursery() as nursery:

            async def listen() -> None:
                try:
                    await _listen(process, from_server, settings.section.max_bytes, state.lines)
                except McpError as error:
                    state.ended = error
                except (trio.BrokenResourceError, anyio.BrokenResourceError):
                    pass
                if state.ended is None:
                    code = await process.exit_code()
                    state.ended = ended(settings, complaints.lines(), code, asked)
                nursery.cancel_scope.cancel()

            async def speak() -> None:
                try:
                    async for message in to_server:
                        state.lines.sent(json_of(message))
                        said = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                        await process.send(said.encode() + b"\n")
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return  # the process has closed its input: `listen` reports its end, or calls time out

            nursery.start_soon(listen)
            nursery.start_soon(speak)
            yield read, write
            nursery.cancel_scope.cancel()
        if state.ended is not None:
            raise state.ended from None


async def _listen(process: ServerProcess, from_server: Any, most_bytes: int, lines: Lines) -> None:
    """Forward the messages that a server process writes, until its output ends.

    Raises:
        McpError: A line is too long, or too many lines in a row are not messages.
    """

    async def take(line: bytes) -> None:
        messages = lines.read(line)
        if not messages and line.lstrip()[:1] not in (b"{", b"["):
            process.complaints.hear(STDOUT.encode() + line[:MOST_LINE_CHARS] + b"\n")
        for message in messages:
            await from_server.send(message_of(message))

    await process.read_lines(most_bytes, take)


def _raw(result: Any) -> Mapping[str, Any]:
    """Return a server's answer as it came (`rumi.agent.mcp.lines`)."""
    found = (result.meta or {}).get(RAW)
    return found if isinstance(found, Mapping) else {}


def _own(error: BaseException) -> Iterator[McpError]:
    """Yield the `RumiError`s in an exception or an exception group."""
    if isinstance(error, McpError):
        yield error
    elif isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _own(inner)


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"[:300].rstrip(".")
