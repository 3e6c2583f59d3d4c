"""Requests through the guard whose answers are read piece by piece. The requests may have a body."""

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import httpcore

from rumi.platform.http import Tls
from rumi.web.fetch.decoding import Broken, decoder_for
from rumi.web.fetch.download import Journey, Response, on_the_way, redirect
from rumi.web.fetch.http_exchange import HttpExchange, Interrupted, connected
from rumi.web.messages import FetchError, Streamed
from rumi.web.url import Target, parse_target

_OURS: Final = (("Accept-Encoding", "identity"), ("Connection", "close"))


class GuardedStreams:
    """Makes requests, each over a new connection. `network` is a `GuardedNetwork`.

    `tls` has the trusted certificates; by default, httpx's certificates are trusted.
    """

    def __init__(
        self,
        network: httpcore.AsyncNetworkBackend,
        *,
        tls: ssl.SSLContext | None = None,
        max_redirects: int = 5,
    ) -> None:
        self._network = network
        self._tls = Tls(tls).context
        self._max_redirects = max_redirects

    @asynccontextmanager
    async def stream(
        self, url: str, headers: Sequence[tuple[str, str]], *, most_bytes: int, body: bytes | None = None
    ) -> AsyncIterator[Streamed]:
        """Make a request, and yield its answer; see `StreamFetcher.stream`."""
        journey = Journey(parse_target(url))
        async with AsyncExitStack() as stack:
            while True:
                attempt = await stack.enter_async_context(AsyncExitStack())
                try:
                    answer, exchange = await self._ask(attempt, journey.target, headers, most_bytes, body)
                except FetchError as error:
                    if journey.redirects == 0:
                        raise
                    raise on_the_way(error, f"After a redirect to {journey.target.host}") from error
                if not answer.location or body is not None:
                    break
                # Closed before the next request: only one connection is open at a time.
                await attempt.aclose()
                redirect(journey, answer.location, self._max_redirects)

            decoder, left = decoder_for(answer.headers.all("content-encoding")), most_bytes

            async def more() -> bytes:
                nonlocal left
                try:
                    while piece := await exchange.more():
                        if left <= 0:
                            raise Interrupted("it is larger than expected when it is decompressed")
                        if part := decoder.decode(piece, left):
                            left -= len(part)
                            return part
                    if not decoder.whole():
                        raise Interrupted("the compressed data ends too early")
                    return b""
                except Broken as error:
                    raise FetchError(
                        "{host} sent compressed data that is damaged.",
                        "Try again later.",
                        host=journey.target.host,
                        answered=True,
                    ) from error
                except Interrupted as error:
                    raise FetchError(
                        "{host} did not send all of it: {error}.",
                        "Try again later.",
                        host=journey.target.host,
                        error=error,
                        answered=True,
                    ) from error

            yield Streamed(journey.target.page, answer.status, answer.headers.media_type, more)

    async def _ask(
        self,
        attempt: AsyncExitStack,
        target: Target,
        headers: Sequence[tuple[str, str]],
        most_bytes: int,
        body: bytes | None,
    ) -> tuple[Response, HttpExchange]:
        stream = await attempt.enter_async_context(connected(self._network, target, self._tls))
        exchange = HttpExchange(stream, target.host, most_bytes)
        await exchange.send("GET" if body is None else "POST", target, [*headers, *_OURS], body or b"")
        status, received = await exchange.head()
        return Response(status, received), exchange
