"""Sessions of `/mcp`: a new one is let in, and ends the one that has been idle for the longest time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
import pytest
import trio

from rumi.channels.mcp import endpoint
from rumi.channels.mcp.endpoint import MOST_SESSIONS, McpEndpoint
from rumi.channels.mcp.sessions import Sessions

HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "a test", "version": "1"},
    },
}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


class SilentService:
    """No tool of it is called here."""

    language = "en"

    def __getattr__(self, name: str) -> Any:
        async def never(*_: object, **__: object) -> str:
            await trio.lowlevel.checkpoint()
            raise AssertionError(name)

        return never


@asynccontextmanager
async def served() -> AsyncIterator[httpx.AsyncClient]:
    made = McpEndpoint("token-of-a-test", lambda: cast(Any, SilentService()))
    async with made.running() as app:
        transport = httpx.ASGITransport(cast(Any, app))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


async def opened(client: httpx.AsyncClient) -> str:
    """Open a session; return its id, or an empty text if it was refused."""
    answer = await client.post("/mcp", json=HELLO, headers=HEADERS)
    return answer.headers.get("mcp-session-id", "") if answer.is_success else ""


async def lives(client: httpx.AsyncClient, session: str) -> bool:
    answer = await client.post("/mcp", json=PING, headers={**HEADERS, "mcp-session-id": session})
    return answer.is_success


async def test_a_new_session_ends_the_one_that_was_idle_for_the_longest_time() -> None:
    with trio.fail_after(60):
        async with served() as client:
            sessions = [await opened(client) for _ in range(MOST_SESSIONS)]
            assert all(sessions)
            assert await lives(client, sessions[0])  # so the second one is idle for longer
            more = [await opened(client) for _ in range(3)]
            assert all(more)
            assert [await lives(client, session) for session in sessions[:5]] == [
                True,
                False,
                False,
                False,
                True,
            ]
            assert all([await lives(client, session) for session in more])


async def test_sessions_that_end_by_themselves_make_room_too() -> None:
    with trio.fail_after(60):
        async with served() as client:
            sessions = [await opened(client) for _ in range(MOST_SESSIONS)]
            await client.delete("/mcp", headers={**HEADERS, "mcp-session-id": sessions[5]})
            assert not await lives(client, sessions[5])
            assert await opened(client)
            assert await lives(client, sessions[0])


async def test_without_making_room_new_sessions_are_kept_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: the library's own bound."""

    async def evicts_none(self: Sessions, scope: object) -> None:
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(Sessions, "_evict_idle", evicts_none)
    monkeypatch.setattr(endpoint, "MOST_SESSIONS", 4)
    with trio.fail_after(60):
        async with served() as client:
            assert "" in [await opened(client) for _ in range(9)]
