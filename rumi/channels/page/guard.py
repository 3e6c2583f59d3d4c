"""Checks of every request's Host and Origin headers and login session, before any handler runs."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rumi.channels.page.address import PageAddress, header_values, session_of
from rumi.channels.page.login import Door
from rumi.channels.page.static_files import KEPT, REVALIDATE

OPEN: Final = frozenset({"/login", "/healthz", "/metrics", "/manifest.webmanifest"})
"""Paths that need no session. The handler of `/metrics` checks access itself. Browsers ask for the manifest
without cookies.
"""

OPEN_BELOW: Final = "/static/"
"""Path prefix of the program's static files, which are the same for all users."""

FILE_POLICY: Final = (
    b"content-security-policy",
    b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox",
)
"""Content security policy for files of a chat. An SVG drawing that is opened directly can run no script and
load nothing.
"""

HEADERS: Final = (
    (
        b"content-security-policy",
        # `blob:` is for pictures that the page's own script has fetched, such as the pages of a PDF.
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
        b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; manifest-src 'self'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
    # Not "no-referrer": with that, a browser sends `Origin: null` with a form.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
"""Headers of every response."""


_FOREIGN = PlainTextResponse("403: this request is not from this page.\n", 403)
_NO_TOKEN = PlainTextResponse(
    "401: send the token as `Authorization: Bearer …`.\n", 401, {"www-authenticate": "Bearer"}
)


@dataclass(frozen=True, slots=True)
class Programs:
    """An ASGI application for programs, served below the page at `path`.

    `admits` checks the values of a request's `Authorization` header.
    """

    path: str
    admits: Callable[[Iterable[str]], bool]
    app: ASGIApp


class PageGuard:
    """Passes allowed requests to `app`. Requests that lack only a valid session go to `refuse`.

    A request is allowed if four conditions hold: its Host names this page; its Origin is this page (the
    header is required only for WebSockets and for requests that change something); the browser does not
    report another site as the source; and its cookie belongs to a session. A WebSocket that is not allowed
    is closed before its handshake, which the browser sees as status 403.
    """

    def __init__(
        self,
        app: ASGIApp,
        address: PageAddress,
        door: Door,
        refuse: Callable[[Scope, Receive, Send], Awaitable[None]],
        programs: "Programs | None" = None,
    ) -> None:
        self._app = app
        self._address = address
        self._door = door
        self._refuse = refuse
        self._programs = programs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or the server's startup and shutdown."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            send = with_headers(send)
            # Programs are checked first: they send neither an Origin nor a cookie, only their token.
            if self._programs is not None and scope["path"] == self._programs.path:
                await self._program(self._programs, scope, receive, send)
            elif not self._is_own(scope):
                await _FOREIGN(scope, receive, send)
            elif not self._may_enter(scope):
                await self._refuse(scope, receive, send)
            else:
                await self._app(scope, receive, send)
        elif self._is_own(scope) and self._has_session(scope):
            await self._app(scope, receive, send)
        else:
            await send({"type": "websocket.close"})  # before the handshake, this is a 403

    async def _program(self, programs: "Programs", scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a program's request.

        The request's Host must name this page, the request must contain the token, and it must not come from
        a browser.
        """
        if self._address.origin_of(scope) is None or header_values(scope, b"origin"):
            await _FOREIGN(scope, receive, send)
        elif not programs.admits(header_values(scope, b"authorization")):
            await _NO_TOKEN(scope, receive, send)
        else:
            await programs.app(scope, receive, send)

    def _is_own(self, scope: Scope) -> bool:
        """Return True if the request comes from this page, or from a user who opened its URL directly."""
        own, origins = self._address.origin_of(scope), header_values(scope, b"origin")
        if own is None or any(origin != own for origin in origins):
            return False
        if scope["http_version"] not in ("1.0", "1.1"):
            return False  # browsers use no other version without TLS, and proxies none to this page
        # Browsers let every site open a WebSocket to every other; only its Origin tells them apart.
        method = scope.get("method", "WebSocket")
        if method not in ("GET", "HEAD") and len(origins) != 1:
            return False
        if scope["path"] == "/login" and method == "GET":
            return True  # the terminal may run in a browser: a click there is a cross-site request
        return all(site in ("same-origin", "none") for site in header_values(scope, b"sec-fetch-site"))

    def _may_enter(self, scope: Scope) -> bool:
        path = scope["path"]
        return path in OPEN or path.startswith(OPEN_BELOW) or self._has_session(scope)

    def _has_session(self, scope: Scope) -> bool:
        """Return True if the request has a valid session, and extend the session."""
        return self._door.sessions.use(session_of(scope, self._address)) is not None


def with_headers(send: Send) -> Send:
    """Return a `send` callable that adds the headers that every response must have.

    A response may choose only `FILE_POLICY`, `REVALIDATE` and `KEPT` in their place.
    """

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            ours = {name for name, _ in HEADERS}
            theirs = [pair for pair in message["headers"] if pair[0].lower() not in ours]
            chosen = [pair for pair in message["headers"] if tuple(pair) in (FILE_POLICY, REVALIDATE, KEPT)]
            names = {name for name, _ in chosen}
            general = [pair for pair in HEADERS if pair[0] not in names]
            message = {**message, "headers": [*theirs, *chosen, *general]}
        await send(message)

    return sending
