"""The HTTP connection to a server of tools: limits, lost sessions, and why it does not work."""

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Final, cast

import httpx2
import trio
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from rumi.agent.mcp.messages import McpError, ServerSettings
from rumi.agent.mcp.oauth.bearer import Bearer
from rumi.agent.mcp.streams import read_whole
from rumi.platform import http
from rumi.texts import Text

SESSION: Final = "mcp-session-id"
PROBE_S: Final = 5.0
_CONNECT_S: Final = 10.0
_QUIET_S: Final = 300.0
_MOST_PROBED: Final = 1 << 16
_KNOWN_TYPES: Final = ("application/json", "text/event-stream")


class Heard:
    """What the HTTP answers of a server said so far.

    `trouble` is the last answer that was neither a success nor about a lost session. `page` is True if an
    answer was a web page. `session_lost` is True if the server does not know the session any more. `login` is
    the error if `trouble` is about the login.
    """

    def __init__(self) -> None:
        self.trouble: httpx2.Response | None = None
        self.page = False
        self.session_lost = False
        self.login: McpError | None = None

    def error(self, settings: ServerSettings) -> McpError | None:
        """Return the error that the last trouble means; None if there was none."""
        if self.trouble is None:
            return None
        about_login = self.trouble.status_code in (401, 403)
        return (self.login if about_login else None) or of_status(settings, self.trouble)


def may_be_old(settings: ServerSettings, heard: Heard) -> bool:
    """Return True if a refusal of streamable HTTP may mean that the server has the older transport."""
    status = heard.trouble.status_code if heard.trouble is not None else 0
    return bool(settings.section.url) and status in (400, 404, 405)


@asynccontextmanager
async def over_http(
    settings: ServerSettings, heard: Heard, bearer: Bearer, *, again: bool = False
) -> AsyncIterator["tuple[Any, Any]"]:
    """Yield the streams of a server's messages over streamable HTTP, or over the older HTTP with SSE.

    The older transport is tried first for an address that ends in `/sse`, and otherwise if a server has
    refused streamable HTTP (`again`), as the specification says (Backwards Compatibility). `bearer` has the
    tokens of the server's login.
    """
    url, most = settings.section.url, settings.section.max_bytes
    may_be = again or httpx2.URL(url).path.rstrip("/").endswith("/sse")
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
    client.most_bytes, client.heard, client.bearer = most, heard, bearer
    try:
        if may_be and await _is_old(client, url):
            # The library would open and close the client, which is open already.
            async with sse_client(url, httpx_client_factory=lambda **_: nullcontext(client)) as streams:  # type: ignore[arg-type]
                yield streams
        else:
            async with streamable_http_client(url, http_client=client, max_sse_event_size=most) as streams:
                yield streams
    finally:
        await http.close(client.aclose)


async def _is_old(client: httpx2.AsyncClient, url: str) -> bool:
    """Return True if the address sends the event `endpoint`, with which the older transport begins."""
    begin = b""
    with trio.move_on_after(PROBE_S):
        async with client.stream("GET", url, headers={"Accept": "text/event-stream"}) as response:
            if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
                return False
            chunks = aiter(response.aiter_raw())
            async for chunk in chunks:
                begin += chunk
                if len(begin) > _MOST_PROBED or b"\n\n" in begin.replace(b"\r", b""):
                    break
            await http.unwind(chunks)
    return b"event: endpoint" in begin or b"event:endpoint" in begin


class _BoundedClient(httpx2.AsyncClient):
    """An HTTP client that rejects compressed responses and responses longer than `most_bytes`.

    A compressed response could exceed the limit once it is decompressed. Event streams have no length limit;
    the library limits each event. `heard` gets what the responses say about the server.
    """

    most_bytes = 0
    heard = Heard()
    bearer: Bearer

    async def send(self, request: httpx2.Request, **more: Any) -> httpx2.Response:
        """Send a request with the token of the login, and apply the limits of this class to the response."""
        used = await self.bearer.authorize(request)
        response = await super().send(request, **more)
        if response.status_code == 401 and used and await self.bearer.renew(used):
            await response.aclose()
            await self.bearer.authorize(request)
            response = await super().send(request, **more)
        if response.status_code in (401, 403):
            self.heard.login = await self.bearer.trouble(response)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.DecodingError("The answer is compressed, which was not asked for.", request=request)
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _Bounded(response.stream, self.most_bytes)
        if request.method == "POST":
            await self._hear(request, response)
        return await read_whole(request, response, self.most_bytes)

    async def _hear(self, request: httpx2.Request, response: httpx2.Response) -> None:
        """Note what a response says about the server; correct the type of JSON with another type."""
        status = response.status_code
        if status in (400, 404) and SESSION in request.headers:
            body = await response.aread()
            if status == 404 or b"session" in body.lower():
                self.heard.session_lost = True
                return
        if status >= 300:
            self.heard.trouble = response
            return
        kind = response.headers.get("content-type", "").lower()
        if status == 200 and not kind.startswith(_KNOWN_TYPES):
            body = await response.aread()
            self.heard.page = kind.startswith("text/html")
            if body.lstrip()[:1] in (b"{", b"["):
                response.headers["content-type"] = "application/json"


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


def failure(settings: ServerSettings, heard: Heard, error: BaseException) -> McpError | None:
    """Return why a server cannot be reached over HTTP, and what to do; None if the HTTP part says nothing."""
    for one in _causes(error):
        if isinstance(one, httpx2.TimeoutException):
            return _unreachable(Text("It did not answer in time."))
        if isinstance(one, httpx2.ConnectError | httpx2.ProxyError | OSError):
            return _unreachable(_why_unreachable(error))
    if heard.page:
        return McpError(
            "There is a web page at {url}, and no server of tools.",
            "Correct the address: it often ends in /mcp.",
            url=_address(settings),
        )
    return heard.error(settings)


def _unreachable(why: Text) -> McpError:
    return McpError(
        "The connection to the server failed: {error}",
        "Check the address, and that the server runs.",
        error=why,
    )


def _why_unreachable(error: BaseException) -> Text:
    said = " ".join(str(one) for one in _causes(error))
    if "WRONG_VERSION_NUMBER" in said or "record layer failure" in said:
        return Text("It does not speak https; its address may begin with http://.")
    if (
        any(isinstance(one, ssl.SSLCertVerificationError) for one in _causes(error))
        or "certificate" in said.lower()
    ):
        return Text("Its certificate is not trusted here; SSL_CERT_FILE names further certificates.")
    if (
        "Name or service" in said
        or "name resolution" in said
        or "getaddrinfo" in said
        or "No address" in said
    ):
        return Text("No address is known for its host.")
    return Text("Nothing answers there.")


def of_status(settings: ServerSettings, response: httpx2.Response) -> McpError:
    """Return the error for a response with an HTTP status that is no success."""
    status, url, name = response.status_code, _address(settings), settings.name
    if status < 400:
        location = response.headers.get("location", "")
        target = httpx2.URL(url).join(location) if location else httpx2.URL(url)
        if target.scheme == "http" and url.startswith("https:"):
            target = target.copy_with(scheme="https")
        return McpError(
            "The address of the server has moved to {location} (HTTP {status}).",
            "If you trust that address, set it in config.toml: [mcp.{name}] url.",
            location=str(target.copy_with(userinfo=b"", query=None, fragment=None)),
            status=status,
            name=name,
        )
    if status in (401, 403) and settings.headers:
        return McpError(
            "The server does not accept the credentials (HTTP {status}).",
            "Check the token in mcp.{name}.headers, and what it is allowed to do.",
            status=status,
            name=name,
        )
    if status in (401, 403):
        return McpError(
            "The server wants credentials (HTTP {status}).",
            "Log in with: rumi mcp login {name}. Or get a token from its service. Then: rumi config set "
            '{variable} -, and in config.toml: [mcp.{name}.headers] Authorization = "Bearer ${variable}"',
            status=status,
            name=name,
            variable=f"{name.upper().replace('-', '_')}_TOKEN",
        )
    if status in (404, 405, 410):
        return McpError(
            "There is no server of tools at {url} (HTTP {status}).",
            "Correct the address: it often ends in /mcp, and for older servers (SSE) in /sse.",
            url=url,
            status=status,
        )
    if status == 429:
        return McpError("The server gets too many requests (HTTP 429).", "Try again later.")
    if status >= 500:
        return McpError(
            "The server has an error of its own (HTTP {status}).",
            "Look into its log, or try again later.",
            status=status,
        )
    return McpError("The server refuses our requests (HTTP {status}).", "Check its address.", status=status)


def _address(settings: ServerSettings) -> str:
    return str(httpx2.URL(settings.section.url).copy_with(userinfo=b"", query=None, fragment=None))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, the members of groups, and the causes of each."""
    left, seen = [error], set[int]()
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, BaseExceptionGroup):
            left += one.exceptions
        left += [other for other in (one.__cause__, one.__context__) if other is not None]
