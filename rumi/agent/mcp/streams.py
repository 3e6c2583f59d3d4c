"""Streams of the client library's messages whose answers `rumi.agent.mcp.lines` reads.

The library parses the messages of servers over HTTP itself; what it cannot parse ends its call with an error.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import mcp_types as wire
from mcp.shared.message import SessionMessage

from rumi.agent.mcp.lines import Lines


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
