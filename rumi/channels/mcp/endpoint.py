"""The MCP endpoint for programs that connect over HTTP to the page's server."""

import hmac
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from rumi.channels.mcp.server import make_server
from rumi.channels.mcp.service import McpService
from rumi.channels.mcp.sessions import Sessions

if TYPE_CHECKING:
    from starlette.types import ASGIApp

MOST_SESSIONS: Final = 32
"""Maximum number of sessions. A new session replaces the one that has been idle for the longest time."""

IDLE_S: Final = 1800.0
"""Time without a request after which a session ends, in seconds."""

MOST_BYTES: Final = 1_000_000
"""Maximum size of a request body, in bytes."""


class McpEndpoint:
    """The endpoint `/mcp`. Programs authenticate with the token in `Authorization: Bearer`, not by cookie.

    `service` is called when the server starts, and returns the `McpService` to offer.
    """

    path = "/mcp"

    def __init__(self, token: str, service: Callable[[], McpService]) -> None:
        self._token = token.encode()
        self._service = service

    def admits(self, authorizations: Iterable[str]) -> bool:
        """Return True if there is exactly one `Authorization` value and it carries the correct token."""
        values = list(authorizations)
        scheme, _, token = (values[0] if len(values) == 1 else "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._token)

    @asynccontextmanager
    async def running(self) -> "AsyncIterator[ASGIApp]":
        """Yield the ASGI application. Its sessions end when the block ends."""
        server = await trio.to_thread.run_sync(make_server, self._service())
        server.streamable_http_app(
            streamable_http_path=self.path,
            max_sessions=2 * MOST_SESSIONS,  # `Sessions` enforces the limit, but requests may overlap
            session_idle_timeout=IDLE_S,
            max_request_body_size=MOST_BYTES,
            host="0.0.0.0",  # the page's guard checks hosts and origins
        )
        async with server.session_manager.run():
            yield Sessions(server.session_manager.handle_request, MOST_SESSIONS)
