"""An HTTP exchange: one request and its answer over one connection, which is closed afterwards."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import h11
import httpcore
import trio

from rumi.platform.http import SetupError, close
from rumi.web.fetch.headers import Headers
from rumi.web.messages import FetchError
from rumi.web.url import Target

_READ_BYTES: Final = 16 * 1024
_MOST_HEAD_BYTES: Final = 64 * 1024  # including 1xx answers before the head
_EVENTS_IN_A_ROW: Final = 50
_MOST_EVENTS: Final = 50_000  # about half a second of work
_BYTES_AN_EVENT: Final = 1024  # average size of an event, for limits that allow more events


class Interrupted(Exception):
    """The server did not send the whole body. The error text is written by Rumi and explains why."""


class HttpExchange:
    """A request and its answer. The answer is parsed by h11 as it arrives.

    Only one piece of the answer is in memory at a time. A checkpoint after every few events lets other tasks
    run, even if the server sends many tiny chunks. `most_bytes` limits the bytes read from the connection.
    """

    def __init__(self, stream: httpcore.AsyncNetworkStream, host: str, most_bytes: int) -> None:
        self._stream = stream
        self._host = host
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD_BYTES)
        self._most_bytes = most_bytes
        self._most_events = max(_MOST_EVENTS, most_bytes // _BYTES_AN_EVENT)
        self._read_bytes = 0
        self._events = 0

    def allow(self, most_bytes: int) -> None:
        """Allow more bytes from the connection, for a body of a kind that may be larger."""
        self._most_bytes = max(self._most_bytes, most_bytes)
        self._most_events = max(self._most_events, most_bytes // _BYTES_AN_EVENT)

    async def send(
        self, method: str, target: Target, headers: Sequence[tuple[str, str]], body: bytes = b""
    ) -> None:
        """Send a request. The server may answer before it has read the whole request.

        Raises:
            FetchError: The URL or the headers cannot be sent over HTTP.
        """
        size = [("Content-Length", str(len(body)))] if body else []
        try:
            request = h11.Request(
                method=method,
                target=target.path_and_query,
                headers=[("Host", target.authority), *headers, *size],
            )
            data = self._http.send(request) or b""
        except h11.LocalProtocolError as error:
            raise FetchError("The URL cannot be requested over HTTP.", "Check how it is written.") from error
        if body:
            data += self._http.send(h11.Data(body)) or b""
        self._http.send(h11.EndOfMessage())
        # A server that answers early may close its side: the write fails, and the answer can still be read.
        with suppress(httpcore.WriteError):
            await self._stream.write(data)

    async def head(self) -> tuple[int, Headers]:
        """Read the status and the headers of the answer.

        Raises:
            FetchError: There is no answer, or it is not HTTP. The error contains no text from the server.
        """
        try:
            while True:
                event = await self._next_event()
                if isinstance(event, h11.Response):
                    return event.status_code, Headers(event.headers)
                if self._read_bytes > 2 * _MOST_HEAD_BYTES:
                    raise FetchError(
                        "{host} sent too much before its answer.", "", host=self._host, answered=True
                    )
                if isinstance(event, h11.ConnectionClosed | h11.EndOfMessage | h11.PAUSED):
                    raise FetchError("{host} sent no answer.", "Try again later.", host=self._host)
        except h11.RemoteProtocolError as error:
            if not self._read_bytes:
                raise FetchError(
                    "{host} closed the connection without an answer.", "Try again later.", host=self._host
                ) from error
            raise FetchError(
                "The answer of {host} is not valid HTTP.", host=self._host, answered=True
            ) from error
        except httpcore.NetworkError as error:
            raise FetchError(
                "The connection to {host} was cut.", "Try again later.", host=self._host
            ) from error

    async def more(self) -> bytes:
        """Return the next piece of the body, still compressed; an empty piece means the end of the body.

        Raises:
            Interrupted: The body is incomplete.
        """
        try:
            while True:
                event = await self._next_event()
                if isinstance(event, h11.Data):
                    if event.data:
                        return bytes(event.data)
                elif self._http.their_state is not h11.SEND_BODY:
                    return b""
        except h11.RemoteProtocolError as error:
            raise Interrupted("the server broke off in the middle") from error
        except httpcore.NetworkError as error:
            raise Interrupted("the connection broke in the middle") from error

    async def _next_event(self) -> object:
        self._events += 1
        if self._events > self._most_events:
            raise Interrupted("the server sent it in too many small pieces")
        if self._events % _EVENTS_IN_A_ROW == 0:
            await trio.lowlevel.checkpoint()
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._read_bytes > self._most_bytes:
                raise Interrupted("the server wrapped it in too much else")
            data = await self._stream.read(_READ_BYTES)
            self._read_bytes += len(data)
            self._http.receive_data(data)
        return event


@asynccontextmanager
async def connected(
    network: httpcore.AsyncNetworkBackend, target: Target, tls: Callable[[], Awaitable[ssl.SSLContext]]
) -> AsyncIterator[httpcore.AsyncNetworkStream]:
    """Connect to a target for a block; always close the connection when the block ends.

    For TLS, the server name and the check of the certificate use the target's host name, not its IP address.

    Raises:
        FetchRefused: The guard refuses the target.
        FetchError: No server answers, or its certificate is invalid.
    """
    stream = tcp = await network.connect_tcp(target.host, target.port)
    try:
        if target.scheme == "https":
            try:
                judged_by = await tls()
            except SetupError as error:
                raise FetchError(error.message, error.advice) from None
            stream = await _start_tls(tcp, target.host, judged_by)
        yield stream
    finally:
        # Closes the socket itself: this also ends TLS, and does not wait for the peer as a TLS close would.
        await close(tcp.aclose)


async def _start_tls(
    tcp: httpcore.AsyncNetworkStream, host: str, tls: ssl.SSLContext
) -> httpcore.AsyncNetworkStream:
    try:
        return await tcp.start_tls(tls, host.removesuffix("."))
    except (httpcore.NetworkError, ssl.SSLError) as error:
        raise _tls_failure(host, error) from error
    except ValueError as error:  # a name that TLS cannot encode
        raise FetchError(
            "{host} is not a valid name for a certificate.", "Check its spelling.", host=host
        ) from error


def _tls_failure(host: str, error: BaseException) -> FetchError:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = cause.verify_message.rstrip(".")
            return FetchError(
                "The certificate of {host} is not valid: {why}.",
                "Do not trust what it says.",
                host=host,
                why=why,
            )
        cause = cause.__cause__ or cause.__context__
    return FetchError(
        "No secure connection to {host}: the TLS handshake failed.", "Try again later.", host=host
    )
