"""A connection to an MCP server through the official client library.

This module is imported only when needed, because the library takes 0.6 s and 41 MB. Rumi uses only the
library's session. Rumi itself owns the process and its pipes (`rumi.agent.mcp.process`) and limits the size
of a server's messages. Requests from a server to its client (for models, forms, folders) are refused, because
no handler is registered.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, cast

import anyio
import httpx2
import mcp_types as wire
import trio
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from rumi import __version__
from rumi.agent.mcp.lines import PARSE_ERROR, RAW, UNREAD, Lines
from rumi.agent.mcp.listing import list_all
from rumi.agent.mcp.messages import CallOutcome, Listing, McpError, Progress, ServerRefused, ServerSettings
from rumi.agent.mcp.outcomes import outcome_of
from rumi.agent.mcp.process import ServerProcess, running
from rumi.agent.mcp.streams import json_of, message_of, read_by, read_whole
from rumi.platform import http
from rumi.platform.openat import shown
from rumi.platform.redact import Redactor
from rumi.texts import Text

_WAITING: Final = 64
"""Maximum number of buffered messages to a server that does not read its input.

The buffer lets a cancellation notification be queued at once, so that a `/stop` never blocks.
"""

_CONNECT_S: Final = 10.0
_QUIET_S: Final = 300.0


@asynccontextmanager
async def connected(settings: ServerSettings, home: Path) -> AsyncIterator["LibraryConnection"]:
    """Connect to a server; at the end of the block, end the connection and the server's process.

    If the block is cancelled, the connection and the process end too.

    `home` is the server's own folder. The caller sets the time limit. If the server exits, the block is
    cancelled.

    Raises:
        McpError: The server cannot be started or reached, or it exited.
    """
    try:
        state = _State()
        async with _streams(settings, home, state) as streams:
            client = Client(
                _ready(read_by(state.lines, streams) if settings.section.url else streams),
                client_info=wire.Implementation(name="rumi", version=__version__),
                message_handler=state.hear,
                cache=None,
            )
            async with client:
                yield LibraryConnection(client, state, settings.redact)
    except McpError:
        raise
    except Exception as error:  # the library raises exception groups, also for its own bugs
        for own in _own(error):
            raise own from None
        raise McpError("The connection to the server failed: {error}.", error=_reason(error)) from error


class LibraryConnection:
    """An open connection; see `rumi.agent.mcp.messages.Connection`."""

    def __init__(self, client: Client, state: "_State", redact: Redactor) -> None:
        self._hide = redact.known
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
            said = error.error.message
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
    settings: ServerSettings, home: Path, state: _State
) -> AbstractAsyncContextManager["tuple[Any, Any]"]:
    return _of_process(settings, home, state) if settings.section.command else _of_url(settings)


@asynccontextmanager
async def _of_process(
    settings: ServerSettings, home: Path, state: _State
) -> AsyncIterator["tuple[Any, Any]"]:
    """Start the server and yield the streams of its messages. If the server exits, the block is cancelled."""
    async with AsyncExitStack() as stack:
        process = await stack.enter_async_context(running(settings, home))
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
                await trio.sleep(0.05)  # the reason on its standard error may not have been read yet
                state.ended = state.ended or McpError(
                    _complained("The server has ended", process, settings.redact)
                )
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
        for message in lines.read(line):
            await from_server.send(message_of(message))

    await process.read_lines(most_bytes, take)


def _complained(what: str, process: ServerProcess, redact: Redactor) -> Text:
    lines = [line for line in redact.text(process.complaint).splitlines() if line.strip()]
    said = shown(lines[-1].strip())[-300:] if lines else ""
    return Text("{what}: {said}", what=what, said=said) if said else Text("{what}.", what=what)


@asynccontextmanager
async def _of_url(settings: ServerSettings) -> AsyncIterator["tuple[Any, Any]"]:
    """Yield the streams of a server's messages over streamable HTTP."""
    client = cast(
        "_BoundedClient",
        await http.client(
            cast("Any", lambda: _BoundedClient),
            http.Tls(),
            library=httpx2,
            headers={**settings.headers, "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(_CONNECT_S, read=_QUIET_S),
        ),
    )
    client.most_bytes = settings.section.max_bytes
    try:
        opened = streamable_http_client(
            settings.section.url, http_client=client, max_sse_event_size=settings.section.max_bytes
        )
        async with opened as streams:
            yield streams
    finally:
        await http.close(client.aclose)


class _BoundedClient(httpx2.AsyncClient):
    """An HTTP client that rejects compressed responses and responses longer than `most_bytes`.

    A compressed response could exceed the limit once it is decompressed. Event streams have no length limit;
    the library limits each event.
    """

    most_bytes = 0

    async def send(self, request: httpx2.Request, **more: Any) -> httpx2.Response:
        """Send a request, with the limits of this class applied to the response."""
        response = await super().send(request, **more)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.DecodingError("The answer is compressed, which was not asked for.", request=request)
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _Bounded(response.stream, self.most_bytes)
        return await read_whole(request, response, self.most_bytes)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: Any, most_bytes: int) -> None:
        self._inner = inner
        self._left = most_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = aiter(self._inner)
        async for chunk in chunks:
            self._left -= len(chunk)
            if self._left < 0:
                await http.unwind(chunks)
                raise httpx2.StreamError("The answer is too long.")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


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
