"""Streams of the client library's messages whose answers `rumi.agent.mcp.lines` reads.

The library parses the messages of servers over HTTP itself, so their bodies and events are read before.
"""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import httpx2
import mcp_types as wire
from mcp.shared.message import SessionMessage

from rumi.agent.mcp.lines import Lines, enveloped
from rumi.platform import http


def read_by(lines: Lines, streams: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the streams from and to a server, with all answers in the form that `lines` gives them."""
    read, write = streams
    return _Reading(read, lines), _Writing(write, lines)


def json_of(message: SessionMessage) -> dict[str, Any]:
    """Return a message of the library as JSON."""
    return message.message.model_dump(by_alias=True, exclude_unset=True)


def message_of(json: Mapping[str, Any]) -> SessionMessage:
    """Return a message in the form of JSON-RPC (`rumi.agent.mcp.lines`) for the library."""
    return SessionMessage(wire.jsonrpc_message_adapter.validate_python(json, by_name=False))


class _Stream:
    """A stream of the library's messages, with the same methods as the stream `inner` (its `ReadStream`)."""

    def __init__(self, inner: Any, lines: Lines) -> None:
        self._inner = inner
        self._lines = lines

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def __aenter__(self) -> Any:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._inner.__aexit__(*error)


class _Reading(_Stream):
    """The messages of a server over HTTP, in the form that `Lines` gives to those of a process."""

    def __aiter__(self) -> "_Reading":
        return self

    async def __anext__(self) -> Any:
        while True:
            item = await anext(self._inner)
            if not isinstance(item, SessionMessage):
                return item
            answer = self._lines.answer(json_of(item))
            if answer is not None:
                return replace(item, message=message_of(answer).message)


class _Writing(_Stream):
    async def send(self, item: SessionMessage) -> None:
        self._lines.sent(json_of(item))
        await self._inner.send(item)


async def read_whole(request: httpx2.Request, response: httpx2.Response, most_bytes: int) -> httpx2.Response:
    """Return the response to a request of JSON-RPC with all messages in a form that the library takes.

    Other responses stay as they are. Of an event, at most about `most_bytes` are held.
    """
    id_ = _id_of(request)
    if id_ is None or response.status_code != 200:
        return response
    kind = response.headers.get("content-type", "").lower()
    if kind.startswith("text/event-stream"):
        response.stream = _Events(response.stream, id_, most_bytes)
    elif kind.startswith("application/json"):
        body = await response.aread()
        whole = enveloped(body, id_)
        if whole != body:
            headers = {"content-type": "application/json"}
            session = response.headers.get("mcp-session-id")
            headers |= {"mcp-session-id": session} if session else {}
            return httpx2.Response(200, headers=headers, content=whole, request=request)
    return response


def _id_of(request: httpx2.Request) -> int | str | None:
    """Return the id of the request of JSON-RPC in an HTTP request; None if it has none."""
    if request.method != "POST":
        return None
    try:
        message = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return None
    id_ = message.get("id") if isinstance(message, dict) and "method" in message else None
    return id_ if isinstance(id_, int | str) else None


class _Events(httpx2.AsyncByteStream):
    """An event stream whose events have messages that the library takes."""

    def __init__(self, inner: Any, id_: int | str, most_bytes: int) -> None:
        self._inner = inner
        self._id = id_
        self._most_bytes = most_bytes
        self._data: list[bytes] = []

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest, held = b"", 0
        chunks = aiter(self._inner)
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            if lines:
                yield b"".join(map(self._read, lines))
            held = held + len(chunk) if self._data or rest else 0
            if held > self._most_bytes:
                await http.unwind(chunks)
                raise httpx2.StreamError("The answer is too long.")
        yield self._read(rest) + self._read(b"")

    def _read(self, line: bytes) -> bytes:
        """Return what to pass on after a line: the lines of an event's data are passed on at its end."""
        field, _, data = line.partition(b":")
        if field == b"data":
            self._data.append(data.strip())
            return b""
        if line.strip() or not self._data:
            return line + b"\n"
        whole, self._data = b"\n".join(self._data), []
        if whole.startswith((b"{", b"[")):
            whole = enveloped(whole, self._id)
        return b"".join(b"data: " + part + b"\n" for part in whole.split(b"\n")) + b"\n"

    async def aclose(self) -> None:
        await self._inner.aclose()
