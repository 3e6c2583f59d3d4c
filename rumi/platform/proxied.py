"""An HTTP transport that calls each host through the environment's proxy for it, or without one."""

from collections.abc import Awaitable, Callable, Mapping
from math import inf
from types import ModuleType
from typing import Any, Final, Self

import trio

from rumi.platform.proxies import Proxies, Proxy

GREETING_S: Final = 20.0
"""Maximum time for a SOCKS proxy to open a connection, in seconds. httpcore waits for it without a limit."""


class _Greeting:
    """Watches httpcore open a connection through a SOCKS proxy; `scope` limits the time that this takes.

    httpcore itself has no limit for the proxy's answers, and does not close the connection if they fail.
    """

    def __init__(self, inner: Callable[[str, Mapping[str, Any]], Awaitable[None]] | None) -> None:
        self.scope = trio.CancelScope()
        self._inner = inner
        self._stream: Any = None

    async def trace(self, event: str, details: Mapping[str, Any]) -> None:
        """Receive httpcore's trace events, and pass them on."""
        match event.removeprefix("socks."):
            case "setup_socks5_connection.started":
                self._stream = details["stream"]
                self.scope.deadline = trio.current_time() + GREETING_S
            case "setup_socks5_connection.complete":
                self._stream, self.scope.deadline = None, inf
        if self._inner is not None:
            await self._inner(event, details)

    async def aclose(self) -> None:
        """Close the connection if it was not opened completely, even when cancelled."""
        if self._stream is not None:
            with trio.CancelScope(shield=True) as scope:
                scope.cancel()  # it closes at once, without TLS
                await self._stream.aclose()


class ProxiedTransport:
    """A transport for clients of `library`, which is httpx or a library with its interface.

    `settings` are those of its transports: certificates and limits of connections. The library raises
    ValueError or its InvalidURL if it cannot use a proxy's address.
    """

    def __init__(self, library: ModuleType, proxies: Proxies, **settings: Any) -> None:
        def made(proxy: Proxy | None) -> Any:
            if proxy is None:
                return library.AsyncHTTPTransport(trust_env=False, **settings)
            # The certificates that are trusted for servers are trusted for a proxy that speaks TLS too.
            tls = {"ssl_context": settings.get("verify")} if proxy.url.startswith("https:") else {}
            through = library.Proxy(proxy.url, **tls)
            return library.AsyncHTTPTransport(trust_env=False, proxy=through, **settings)

        self._library = library
        self._proxies = proxies
        self._transports = {proxy: made(proxy) for proxy in (None, *proxies.by_scheme.values())}

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request; the response's body is read later.

        Raises:
            HTTPError: The request failed; `ProxyError` if the proxy did.
        """
        url = request.url
        proxy = self._proxies.to(url.scheme, url.host, url.port)
        transport = self._transports[proxy]
        if proxy is None or not proxy.socks:
            return await transport.handle_async_request(request)
        return await self._through_socks(transport, request)

    async def _through_socks(self, transport: Any, request: Any) -> Any:
        import socksio

        greeting = _Greeting(request.extensions.get("trace"))
        request.extensions = {**request.extensions, "trace": greeting.trace}
        try:
            with greeting.scope:
                return await transport.handle_async_request(request)
        # httpcore lets the parser's errors pass, and asserts the kinds of its answers.
        except (socksio.SOCKSError, AssertionError):
            pass
        finally:
            await greeting.aclose()
        what = "did not answer in time" if greeting.scope.cancelled_caught else "does not speak SOCKS 5"
        raise self._library.ProxyError(f"the proxy {what}", request=request)

    async def aclose(self) -> None:
        """Close all connections."""
        for transport in self._transports.values():
            await transport.aclose()

    async def __aenter__(self) -> Self:
        """Open the transports."""
        for transport in self._transports.values():
            await transport.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        """Close all connections."""
        for transport in self._transports.values():
            await transport.__aexit__(*error)
