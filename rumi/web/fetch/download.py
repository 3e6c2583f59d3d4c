"""Downloads. A download follows redirects; the guard checks the target of each request."""

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

import httpcore
import trio

from rumi import __version__
from rumi.texts import Text
from rumi.web.fetch.body import PartialBody, read_body
from rumi.web.fetch.cache import LONGEST_S
from rumi.web.fetch.cookies import CookieJar
from rumi.web.fetch.decoding import ACCEPTED
from rumi.web.fetch.headers import Headers
from rumi.web.fetch.http_exchange import HttpExchange, connected
from rumi.web.messages import FetchError, FetchRefused, Method
from rumi.web.url import Target, join_target

USER_AGENT: Final = f"Rumi/{__version__}"
_REDIRECTS: Final = {301, 302, 303, 307, 308}
_ACCEPT: Final = (
    "text/html,application/xhtml+xml,application/json;q=0.9,text/*;q=0.9,application/pdf;q=0.8,*/*;q=0.5"
)
_WRAPPING: Final = 8  # factor for transfer overhead: chunks of one byte take six times the body's size
_BESIDE_BYTES: Final = 512 * 1024  # for the heads, and other bytes outside of the body


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits on fetches: time, size and number. Times are in seconds.

    `timeout_s` covers all network work of a fetch, from the name lookup to the last byte, including
    redirects; it starts when the fetch gets its slot. `wait_s` is the maximum wait for this slot. `reading_s`
    is the maximum time to convert the bytes to text, including the wait for a process. `max_bytes` is the
    maximum size of the decompressed body, and `document_bytes` that of a document, which has pictures too and
    cannot be read without its end. `text_chars` is the maximum length of a page's text; `whole_chars`
    is the maximum length if the whole page is requested.

    At most `at_once` fetches run, `per_host` of them from one host and `per_chat` for one chat. The limits
    `reading_…` and `searches_…` do the same for reading pages and for searches. At most `waiting_per_chat`
    requests of a chat wait for each of these limits.

    Downloads of files have limits of their own, `saving_…`. Such a download has broken if nothing arrives
    within `stall_s`, or less than `pace_bytes` within `pace_s`. After a break it is tried again, with
    `pause_s` before the second try and twice as long before each further one. All tries together are at most
    `tries`, and take at most `saving_s`.
    """

    timeout_s: float = 10
    max_bytes: int = 1_000_000
    document_bytes: int = 10_000_000
    max_redirects: int = 5
    text_chars: int = 40_000
    whole_chars: int = 1_000_000
    reading_s: float = 20
    at_once: int = 32
    per_host: int = 4
    per_chat: int = 8
    reading_at_once: int = 2
    reading_per_chat: int = 1
    searches_at_once: int = 16
    searches_per_chat: int = 4
    waiting_per_chat: int = 64
    wait_s: float = 60
    saving_at_once: int = 8
    saving_per_chat: int = 2
    saving_s: float = 1800
    stall_s: float = 30
    pace_s: float = 60
    pace_bytes: int = 64 * 1024
    tries: int = 6
    pause_s: float = 1


@dataclass(frozen=True, slots=True)
class Response:
    """The answer of a server. `body` is None if it was not requested or not read."""

    status: int
    headers: Headers
    body: PartialBody | None = None

    @property
    def location(self) -> str:
        """The target of a redirect; an empty string if the answer is not a redirect."""
        return self.headers.first("location") if self.status in _REDIRECTS else ""


@dataclass(slots=True)
class Journey:
    """The state of a download: its current target, cache lifetime, time left, cookies, and visits."""

    target: Target
    ttl_s: float = 0
    progress: Callable[[str], None] = lambda step: None
    left_s: float = inf
    redirects: int = 0
    cookies: CookieJar = field(default_factory=CookieJar)
    been_at: set[str] = field(default_factory=set)

    @property
    def visit(self) -> str:
        """The target with the cookies that it gets: with another cookie, a server may answer differently."""
        return f"{self.target.page} {self.cookies.header(self.target)}"


@dataclass(frozen=True, slots=True)
class Download:
    """The last answer of a download, and the target that sent it.

    `ttl_s` is the cache lifetime in seconds, which is the shortest lifetime in the chain of redirects.
    """

    target: Target
    answer: Response
    journey: Journey
    redirects: int = 0
    ttl_s: float = 0


class Downloader:
    """Downloads each URL over a new connection, and closes this connection.

    Downloads share no cookies, no cache and no proxy: a cookie lives for one download. `tls` returns the TLS
    context.
    """

    def __init__(
        self,
        network: httpcore.AsyncNetworkBackend,
        tls: Callable[[], Awaitable[ssl.SSLContext]],
        limits: FetchLimits,
    ) -> None:
        self._network = network
        self._tls = tls
        self._limits = limits
        self._headers = (
            ("User-Agent", USER_AGENT),
            ("Accept", _ACCEPT),
            ("Accept-Encoding", ACCEPTED),
            ("Connection", "close"),
        )

    async def download(
        self,
        target: Target,
        method: Method,
        to_host: Callable[[str], Awaitable[None]],
        progress: Callable[[str], None],
    ) -> Download:
        """Download a target.

        `to_host` is awaited at each redirect, while no connection is open. `progress` gets the redirects, and
        the received size of a large page. The download takes at most `timeout_s`. If the body is incomplete
        by then, it is cut, without an error. On cancellation, closes the connection.

        Raises:
            FetchRefused: The guard refuses the target, or the target of a redirect.
            FetchError: No answer came, or there were too many redirects.
        """
        return await self._go(Journey(target, LONGEST_S, progress, self._limits.timeout_s), method, to_host)

    async def refresh(
        self, download: Download, url: str, to_host: Callable[[str], Awaitable[None]]
    ) -> Download | None:
        """Continue a download at the URL to which its page refers with a refresh, as at a redirect.

        Returns None if the page refers to itself. The time limit is that of the whole download.
        Cancellation and errors are the same as in `download`.
        """
        journey = download.journey
        if replace(journey, target=join_target(journey.target, url)).visit in journey.been_at:
            return None
        redirect(journey, url, self._limits.max_redirects)
        journey.progress(Text("redirected to {host}", host=journey.target.host))
        await to_host(journey.target.host)
        return await self._go(journey, "GET", to_host)

    async def _go(
        self, journey: Journey, method: Method, to_host: Callable[[str], Awaitable[None]]
    ) -> Download:
        started = trio.current_time()
        with trio.move_on_after(max(0.0, journey.left_s)) as scope:
            download = await self._travel(journey, method, to_host, scope)
            journey.left_s -= trio.current_time() - started
            return download
        raise FetchError(
            "{host} did not answer within {timeout_s} s.",
            "Try again later.",
            host=journey.target.host,
            timeout_s=f"{self._limits.timeout_s:g}",
            answered=journey.redirects > 0,
        )

    async def _travel(
        self,
        journey: Journey,
        method: Method,
        to_host: Callable[[str], Awaitable[None]],
        scope: trio.CancelScope,
    ) -> Download:
        while True:
            journey.been_at.add(journey.visit)
            try:
                answer = await self._ask(journey, method, scope)
            except FetchError as error:
                if journey.redirects == 0:
                    raise
                raise on_the_way(error, f"After a redirect to {journey.target.host}") from error
            journey.ttl_s = min(journey.ttl_s, answer.headers.ttl_s(answer.status, LONGEST_S))
            journey.cookies.set(journey.target, answer.headers.all("set-cookie"))
            if not answer.location:
                return Download(journey.target, answer, journey, journey.redirects, journey.ttl_s)
            redirect(journey, answer.location, self._limits.max_redirects)
            journey.progress(Text("redirected to {host}", host=journey.target.host))
            await to_host(journey.target.host)

    async def _ask(self, journey: Journey, method: Method, scope: trio.CancelScope) -> Response:
        """Return the answer to a request on a new connection.

        When the headers have arrived, the deadline of `scope` no longer cancels the download, and only cuts
        the body.
        """
        target, cookies = journey.target, journey.cookies.header(journey.target)
        headers_sent = (*self._headers, ("Cookie", cookies)) if cookies else self._headers
        most_bytes = _WRAPPING * self._limits.max_bytes + _BESIDE_BYTES
        async with connected(self._network, target, self._tls) as stream:
            exchange = HttpExchange(stream, target.host, most_bytes)
            await exchange.send(method, target, headers_sent)
            status, headers = await exchange.head()
            answer = Response(status, headers)
            if method == "HEAD" or answer.location:
                return answer
            # From here on there is a result to show: the deadline cuts the body instead of ending the fetch.
            scope.deadline, deadline_at = inf, scope.deadline
            limits = self._limits
            body = await read_body(
                exchange, headers, limits.max_bytes, limits.document_bytes, deadline_at, journey.progress
            )
            return replace(answer, body=body)


def redirect(journey: Journey, location: str, max_redirects: int) -> None:
    """Continue a download at the target of a redirect.

    Raises:
        FetchError: There were too many redirects, the redirects form a circle, or the target is refused.
    """
    at = journey.target
    if journey.redirects >= max_redirects:
        raise FetchError(
            "{host} redirects once more after {redirects} redirects.",
            "Fetch its final address.",
            host=at.host,
            redirects=journey.redirects,
            answered=True,
        )
    try:
        journey.target = join_target(at, _unicode(location))
    except FetchError as error:
        raise on_the_way(error, f"{at.host} redirects to where nobody is sent") from error
    journey.redirects += 1
    if at.scheme == "https" and journey.target.scheme == "http":
        raise FetchRefused(
            "{host} redirects from https to http, to {target}.",
            "This is not followed: everyone on the network path could read and change it.",
            host=at.host,
            target=journey.target.host,
            answered=True,
        )
    if journey.visit in journey.been_at:
        raise FetchError("{host} redirects in a circle.", host=at.host, answered=True)


def _unicode(header: str) -> str:
    """Decode a header as UTF-8 if possible; `header` is the header's value decoded as Latin-1."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeDecodeError:
        return header


def on_the_way(error: FetchError, where: str, *, answered: bool = True) -> FetchError:
    """Return an error that also names the redirect at which the given error happened."""
    kind = FetchRefused if isinstance(error, FetchRefused) else FetchError
    return kind(f"{where}: {error.message}", error.advice, answered=answered)
