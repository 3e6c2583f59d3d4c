"""The HTTP client of a model server. The first call imports this module, because importing httpx is slow."""

from collections.abc import Mapping
from typing import Any

import httpx

from rumi.platform.direct_http import DirectClient

_CUT = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)


class Client(DirectClient):
    """An HTTP client that resends a request if the server had already closed the reused connection.

    A server may close a keep-alive connection at any time, even while a request is on its way (RFC 9112,
    9.3.1). With llama.cpp's server, this happens to about one request in ten. A request is resent once,
    without delay, and only if it used an existing connection and no part of a response arrived.
    """

    # Permits limit the calls; a limit here would only make them queue a second time, unfairly.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=30.0)

    def __init__(self, **settings: Any) -> None:
        # No timeout here: ChatCompletions and NativeModel time the silence around the whole exchange.
        super().__init__(timeout=None, limits=self.limits, **settings)

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send a request. On cancellation, closes the connection.

        Raises:
            httpx.HTTPError: The request failed, as in `httpx.AsyncClient.send`.
        """
        attempt = _Attempt()
        request.extensions = {**request.extensions, "trace": attempt.trace}
        try:
            return await super().send(request, **options)
        except _CUT:
            # A new connection that fails is a real failure. After response headers the server may have
            # run the request, so sending it again could make the model run twice.
            if attempt.connected or attempt.answered:
                raise
        return await super().send(request, **options)


class _Attempt:
    """A recorder of trace events from httpcore: whether a request opened a connection and got a response."""

    def __init__(self) -> None:
        self.connected = False
        self.answered = False

    async def trace(self, event: str, _: Mapping[str, object]) -> None:
        if event.startswith(("connection.connect_tcp.", "connection.connect_unix_socket.")):
            self.connected = True
        elif event.endswith(".receive_response_headers.complete"):
            self.answered = True
