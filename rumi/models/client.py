"""The HTTP client of a model server. Imported at the first call, because httpx takes long to import."""

from collections.abc import Mapping
from typing import Any

import httpx

_CUT = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)


class Client(httpx.AsyncClient):
    """Sends a request once more if the server had closed the kept connection that it used.

    A server may close a connection that is kept open at any time, and its close and our request may cross
    (RFC 9112, 9.3.1): llama.cpp's server does so with about one request in ten. Only a request on a
    connection that had served others, and to which nothing was answered, is sent again, once and at once.
    """

    def __init__(self, **settings: Any) -> None:
        # Permits bound the calls; a bound here would only make them queue a second time, unfairly.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=30.0)
        # No timeout: the silence is measured around everything, see ChatCompletions.
        super().__init__(timeout=None, limits=limits, **settings)

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send a request; cancelled, its connection is closed.

        Raises:
            httpx.HTTPError: As in `httpx.AsyncClient.send`.
        """
        attempt = _Attempt()
        request.extensions = {**request.extensions, "trace": attempt.trace}
        try:
            return await super().send(request, **options)
        except _CUT:
            if attempt.connected or attempt.answered:
                raise
        return await super().send(request, **options)


class _Attempt:
    """httpcore's events of one request: it has opened a connection, and an answer has begun."""

    def __init__(self) -> None:
        self.connected = False
        self.answered = False

    async def trace(self, event: str, _: Mapping[str, object]) -> None:
        if event.startswith(("connection.connect_tcp.", "connection.connect_unix_socket.")):
            self.connected = True
        elif event.endswith(".receive_response_headers.complete"):
            self.answered = True
