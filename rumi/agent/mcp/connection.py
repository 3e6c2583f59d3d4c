"""A connection to an MCP server through the official client library.

This module is imported only when needed, because the library takes 0.6 s and 41 MB. Rumi uses only the
library's session. Rumi itself owns the process and its pipes (`rumi.agent.mcp.process`) and limits the size
of a server's messages. Requests from a server to its client (for models, forms, folders) are refused, because
no handler is registered.
"""

import base64
import binascii
import json
import mimetypes
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import anyio
import mcp_types as wire
import trio
from mcp import Client, MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from rumi import __version__
from rumi.agent.mcp.complaints import MOST_LINE_CHARS, Complaints
from rumi.agent.mcp.failures import SessionLost, ended
from rumi.agent.mcp.messages import CallOutcome, McpError, Progress, RemoteTool, ResultPart, ServerSettings
from rumi.agent.mcp.process import MOST_RUBBISH, ServerProcess, running
from rumi.agent.mcp.remote import Heard, failure, may_be_old, over_http
from rumi.platform.redact import Redactor

MOST_TOOLS: Final = 1000
MOST_PAGES: Final = 20
MOST_SCHEMA_CHARS: Final = 20_000
_WAITING: Final = 64
"""Maximum number of buffered messages to a server that does not read its input.

The buffer lets a cancellation notification be queued at once, so that a `/stop` never blocks.
"""


@asynccontextmanager
async def connected(
    settings: ServerSettings, home: Path, complaints: Complaints
) -> AsyncIterator["LibraryConnection"]:
    """Connect to a server; at the end of the block, end the connection and the server's process.

    If the block is cancelled, the connection and the process end too.

    `home` is the server's own folder. `complaints` gets what its process writes to standard error. The caller
    sets the time limit. If the server exits, the block is
    cancelled.

    Raises:
        McpError: The server cannot be started or reached, or it exited.
    """
    for again in (False, True):
        state, is_open = _State(), False
        try:
            async with _streams(settings, home, complaints, state, again=again) as streams:
                client = Client(
                    _ready(streams),
                    client_info=wire.Implementation(name="rumi", version=__version__),
                    message_handler=state.hear,
                    cache=None,
                )
                async with client:
                    is_open = True
                    yield LibraryConnection(client, state, settings.redact)
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

    def __init__(self, client: Client, state: "_State", redact: Redactor) -> None:
        self._hide = redact.known
        self._client = client
        self._state = state

    async def changed(self) -> None:
        """Wait until the server reports that its tools have changed."""
        await self._state.changed()

    async def list_tools(self) -> tuple[RemoteTool, ...]:
        """Return the server's current tools, at most `MOST_TOOLS`.

        Raises:
            McpError: The server refused, or its answer is not a list of tools.
        """
        found: list[RemoteTool] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await self._asked(self._client.list_tools(cursor=cursor))
            found += (_tool(tool, self._hide) for tool in page.tools)
            cursor = page.next_cursor
            if not cursor or len(found) >= MOST_TOOLS:
                break
        return tuple(found[:MOST_TOOLS])

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
        result = await self._asked(request)
        parts = [_part(block) for block in result.content]
        if not parts and result.structured_content is not None:
            parts = [ResultPart(json.dumps(result.structured_content, ensure_ascii=False))]
        hidden = (replace(part, text=self._hide(part.text)) for part in parts)
        return CallOutcome(tuple(hidden), failed=result.is_error)

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
            if error.error.code == wire.CONNECTION_CLOSED and error.error.message == "Connection closed":
                raise self._state.ended or McpError("The server has ended.") from None
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
    settings: ServerSettings, home: Path, complaints: Complaints, state: _State, *, again: bool
) -> AbstractAsyncContextManager["tuple[Any, Any]"]:
    if settings.section.command:
        return _of_process(settings, home, complaints, state)
    return over_http(settings, state.heard, again=again)


@asynccontextmanager
async def _of_process(
    settings: ServerSettings, home: Path, complaints: Complaints, state: _State
) -> AsyncIterator["tuple[Any, Any]"]:
    """Start the server and yield the streams of its messages. If the server exits, the block is cancelled."""
    async with AsyncExitStack() as stack:
        process = await stack.enter_async_context(running(settings, home, complaints))
        # No buffer for incoming messages: a server that sends too fast is slowed down by its own pipe.
        from_server, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, to_server = anyio.create_memory_object_stream[SessionMessage](_WAITING)
        for stream in (from_server, read, write, to_server):
            stack.callback(stream.close)
        async with trio.open_nursery() as nursery:

            async def listen() -> None:
                try:
                    await _listen(process, from_server, settings.section.max_bytes)
                except McpError as error:
                    state.ended = error
                except (trio.BrokenResourceError, anyio.BrokenResourceError):
                    pass
                if state.ended is None:
                    code = await process.exit_code()
                    state.ended = ended(settings, complaints.lines(), code)
                nursery.cancel_scope.cancel()

            async def speak() -> None:
                try:
                    async for message in to_server:
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


async def _listen(process: ServerProcess, from_server: Any, most_bytes: int) -> None:
    """Forward the messages that a server process writes, until its output ends.

    Raises:
        McpError: A line is too long, or too many lines in a row are not messages.
    """
    rubbish = 0

    async def take(line: bytes) -> None:
        nonlocal rubbish
        if not line.strip():
            return
        try:
            message = wire.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            rubbish += 1
            process.complaints.hear(line[:MOST_LINE_CHARS] + b"\n")
            if rubbish >= MOST_RUBBISH:
                raise McpError("The server writes lines that are no messages, so it was ended.") from None
            return
        rubbish = 0
        await from_server.send(SessionMessage(message))

    await process.read_lines(most_bytes, take)


class ServerRefused(McpError):
    """The server answered with an error. `words` is the server's untrusted text."""

    def __init__(self, words: str) -> None:
        super().__init__("The server refused.")
        self.words = words


def _tool(tool: wire.Tool, hide: Callable[[str], str]) -> RemoteTool:
    hints = tool.annotations or wire.ToolAnnotations()
    return RemoteTool(
        hide(tool.name),
        hide(tool.description or hints.title or tool.title or ""),
        _schema(tool.input_schema),
        read_only=hints.read_only_hint is True,
        open_world=hints.open_world_hint is not False,
        destructive=hints.destructive_hint,
    )


def _schema(schema: Mapping[str, object]) -> Mapping[str, object]:
    """Return a tool's argument schema, or a general schema if it is too long or models would refuse it."""
    fits = schema.get("type") == "object" and len(json.dumps(schema)) <= MOST_SCHEMA_CHARS
    return schema if fits else {"type": "object", "properties": {}}


def _part(content: wire.ContentBlock) -> ResultPart:
    match content:
        case wire.TextContent():
            return ResultPart(content.text)
        case wire.ImageContent() | wire.AudioContent():
            return _file(content.data, content.mime_type, content.type)
        case wire.EmbeddedResource(resource=wire.TextResourceContents() as resource):
            return ResultPart(f"{resource.uri}:\n{resource.text}")
        case wire.EmbeddedResource(resource=wire.BlobResourceContents() as blob):
            return _file(blob.blob, blob.mime_type or "", str(blob.uri))
        case wire.ResourceLink():
            return ResultPart(f"{content.name}: {content.uri}")
        case _:
            return ResultPart(f"({content.type}, not shown)")


def _file(data: str, media_type: str, name: str) -> ResultPart:
    """Return a file whose name is the last component of the path `name`.

    If that component has no extension, the extension of the media type is appended.
    """
    try:
        body = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return ResultPart(f"({name}, {media_type}: it cannot be read)")
    stem = name.rstrip("/").rpartition("/")[2] or "file"
    ending = "" if "." in stem else mimetypes.guess_extension(media_type) or ""
    return (
        ResultPart(data=body, media_type=media_type, name=f"{stem}{ending}")
        if body
        else ResultPart("(an empty file)")
    )


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
