"""What every request passes before anything looks at it: its Host, its Origin, and its session."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rumi.channels.http.address import BoundSocket
from rumi.channels.page.login import Door

OPEN: Final = frozenset({"/login", "/healthz", "/metrics"})
"""Paths that need no session. `/metrics` judges for itself who asks."""

OPEN_BELOW: Final = "/static/"
"""The program's own files, the same for everybody."""

FILE_POLICY: Final = (
    b"content-security-policy",
    b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox",
)
"""The policy of a chat's files. A drawing (SVG) that is opened by itself runs nothing and loads nothing."""

HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
    # Not "no-referrer": with that, a browser says `Origin: null` when a form is sent.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
"""The headers of every answer."""


_FOREIGN = PlainTextResponse("403: this request is not from this page.\n", 403)
_NO_TOKEN = PlainTextResponse(
    "401: send the token as `Authorization: Bearer …`.\n", 401, {"www-authenticate": "Bearer"}
)


@dataclass(frozen=True, slots=True)
class Programs:
    """An application for programs below the page: its path, and who may use it by their `Authorization`."""

    path: str
    admits: Callable[[Iterable[str]], bool]
    app: ASGIApp


class PageGuard:
    """Passes allowed requests on to `app`; `refuse` answers requests to this page without a login.

    A request passes if its Host names this page, its Origin (where the browser says one, and always when it
    would change something) is this page's, the browser does not say that another site made it, and its
    cookie is a session's.
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
        """Serve one request, or the server's own beginning and end."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            send = with_headers(send)
            if self._programs is not None and scope["path"] == self._programs.path:
                await self._program(self._programs, scope, receive, send)
            elif not self._is_own(scope):
                await _FOREIGN(scope, receive, send)
            elif not self._may_enter(scope):
                await self._refuse(scope, receive, send)
            else:
                await self._app(scope, receive, send)
        else:
            await send({"type": "websocket.close"})  # before it is accepted, that is a 403

    async def _program(self, programs: "Programs", scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a program's request: its Host names this page, no browser made it, and it has the token."""
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
        """Return True if it comes from this page, or from somebody who typed its address."""
        headers = scope["headers"]
        reached = scope["server"][0] if scope["server"] else ""
        hosts, origins = _all(headers, b"host"), _all(headers, b"origin")
        if len(hosts) != 1 or not self._bound.is_own(hosts[0], reached):
            return False
        if scope["http_version"] not in ("1.0", "1.1"):
            return False  # browsers speak no other version without TLS
        if any(origin != f"http://{hosts[0]}" for origin in origins):
            return False
        if scope["method"] not in ("GET", "HEAD") and len(origins) != 1:
            return False
        if scope["path"] == "/login" and scope["method"] == "GET":
            return True  # the terminal with the link may itself be a page, and a click there another site's
        return all(site in ("same-origin", "none") for site in _all(headers, b"sec-fetch-site"))

    def _may_enter(self, scope: Scope) -> bool:
        path = scope["path"]
        return path in OPEN or path.startswith(OPEN_BELOW) or self._door.knows(session_of(scope, self._bound))


def cookie_name(bound: BoundSocket) -> str:
    """Return the session cookie's name. Cookies ignore ports, so each Rumi of a host has its own name."""
    return f"rumi_{bound.port}"


def session_of(scope: Scope, bound: BoundSocket) -> str:
    """Return the session's secret that a request brings, empty if it brings none."""
    for line in _all(scope["headers"], b"cookie"):
        for pair in line.split(";"):
            name, _, value = pair.strip().partition("=")
            if name == cookie_name(bound):
                return value
    return ""


def with_headers(send: Send) -> Send:
    """Return a function that sends as `send` does, with the headers that every answer has."""

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
