"""Limit on the sessions of `/mcp`. At the limit, a new session replaces the one that was idle longest."""

import logging
from collections.abc import MutableMapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER: Final = b"mcp-session-id"

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Session:
    """State of a session. `used` is the sequence number of its last request, counted over all sessions.

    `at_work` is the number of the session's requests in progress. A stream that a client keeps open to listen
    does not count.
    """

    used: int
    at_work: int = 0


class Sessions:
    """Passes requests to an application with at most `most` sessions. Ends idle sessions for new ones."""

    def __init__(self, app: "ASGIApp", most: int) -> None:
        self._app = app
        self._most = most
        self._known: dict[bytes, _Session] = {}
        self._turns = count()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Handle a request. If it may open a session and the limit is reached, first end an idle session."""
        name = next((value for key, value in scope["headers"] if key.lower() == HEADER), None)
        if name is None:
            # Only a request without a session id can open a session.
            await self._evict_idle(scope)
            await self._app(scope, receive, self._tracking(scope, send))
            return
        session = self._known.get(name)
        # A GET is the stream that a client keeps open to listen; it must not prevent eviction.
        working = session if scope["method"] == "POST" else None
        if session is not None:
            session.used = next(self._turns)
        if working is not None:
            working.at_work += 1
        try:
            await self._app(scope, receive, self._tracking(scope, send, name))
        finally:
            if working is not None:
                working.at_work -= 1
                working.used = next(self._turns)

    def _tracking(self, scope: "Scope", send: "Send", name: bytes | None = None) -> "Send":
        """Return a `send` callable that also records which sessions the responses open or end."""

        async def sending(message: "Message") -> None:
            if message["type"] == "http.response.start":
                opened = next((value for key, value in message["headers"] if key.lower() == HEADER), None)
                if name is None and opened is not None and message["status"] < 400:
                    self._known[opened] = _Session(next(self._turns))
                elif name is not None and (message["status"] == 404 or scope["method"] == "DELETE"):
                    self._known.pop(name, None)
            await send(message)

        return sending

    async def _evict_idle(self, scope: "Scope") -> None:
        while len(self._known) >= self._most:
            idle = [name for name, session in self._known.items() if not session.at_work]
            if not idle:
                return
            oldest = min(idle, key=lambda name: self._known[name].used)
            # Before the await, so that concurrent requests do not end the same session twice.
            del self._known[oldest]
            logger.info("a session of /mcp was ended for a new one")
            await self._end(oldest, scope)

    async def _end(self, name: bytes, scope: "Scope") -> None:
        """End a session with a `DELETE` request, as its client would do."""
        kept = [(key, value) for key, value in scope["headers"] if key.lower() in (b"host", b"authorization")]
        ending: MutableMapping[str, Any] = {**scope, "method": "DELETE", "headers": [*kept, (HEADER, name)]}

        async def receive() -> "Message":
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: "Message") -> None:
            return

        await self._app(ending, receive, send)
