"""Checks of every request's Host and Origin headers and login session, before any handler runs."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rumi.channels.http.address import BoundSocket
from rumi.channels.page.login import Door

OPEN: Final = frozenset({"/login", "/healthz", "/metrics"})
"""Paths that need no session. The handler of `/metrics` checks access itself."""

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
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
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
    header is required only for requests that change something); the browser does not report another site as
    the source; and its cookie belongs to a session.
    """

    def __init__(
        self,
        app: ASGIApp,
        bound: BoundSocket,
        door: Door,
        refuse: Callable[[Scope, Receive, Send], Awaitable[None]],
        programs: "Programs | None" = None,
    ) -> None:
        self._app = app
        self._bound = bound
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
        else:
            await send({"type": "websocket.close"})  # before the handshake, this is a 403

    async def _program(self, programs: "Programs", scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a program's request.

        The request's Host must name this page, the request must contain the token, and it must not come from
        a browser.
        """
        headers = scope["headers"]
        reached = scope["server"][0] if scope["server"] else ""
        hosts = _all(headers, b"host")
        if len(hosts) != 1 or not self._bound.is_own(hosts[0], reached) or _all(headers, b"origin"):
            await _FOREIGN(scope, receive, send)
        elif not programs.admits(_all(headers, b"authorization")):
            await _NO_TOKEN(scope, receive, send)
        else:
            await programs.app(scope, receive, send)

    def _is_own(self, scope: Scope) -> bool:
        """Return True if the request comes from this page, or from a user who opened its URL directly."""
        headers = scope["headers"]
        reached = scope["server"][0] if scope["server"] else ""
        hosts, origins = _all(headers, b"host"), _all(headers, b"origin")
        if len(hosts) != 1 or not self._bound.is_own(hosts[0], reached):
            return False
        if scope["http_version"] not in ("1.0", "1.1"):
            return False  # browsers use no other version without TLS
        if any(origin != f"http://{hosts[0]}" for origin in origins):
            return False
        if scope["method"] not in ("GET", "HEAD") and len(origins) != 1:
            return False
        if scope["path"] == "/login" and scope["method"] == "GET":
            return True  # the terminal may run in a browser: a click there is a cross-site request
        return all(site in ("same-origin", "none") for site in _all(headers, b"sec-fetch-site"))

    def _may_enter(self, scope: Scope) -> bool:
        path = scope["path"]
        return path in OPEN or path.startswith(OPEN_BELOW) or self._door.knows(session_of(scope, self._bound))


def cookie_name(bound: BoundSocket) -> str:
    """Return the name of the session cookie.

    Browsers send a cookie to every port of a host, so each Rumi on a host uses a different cookie name.
    """
    return f"rumi_{bound.port}"


def session_of(scope: Scope, bound: BoundSocket) -> str:
    """Return the session secret in a request's cookie; empty if there is none."""
    for line in _all(scope["headers"], b"cookie"):
        for pair in line.split(";"):
            name, _, value = pair.strip().partition("=")
            if name == cookie_name(bound):
                return value
    return ""


def with_headers(send: Send) -> Send:
    """Return a `send` callable that adds the headers that every response must have."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            ours = {name for name, _ in HEADERS}
            theirs = [pair for pair in message["headers"] if pair[0].lower() not in ours]
            policies = [pair for pair in message["headers"] if tuple(pair) == FILE_POLICY]
            general = [pair for pair in HEADERS if not policies or pair[0] != FILE_POLICY[0]]
            message = {**message, "headers": [*theirs, *policies, *general]}
        await send(message)

    return sending


def _all(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]
