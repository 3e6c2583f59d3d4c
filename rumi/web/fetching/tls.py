"""What servers' certificates are judged by."""

import ssl

import trio


class Tls:
    """A context for connections, made when it is first needed: that takes some tens of milliseconds."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self._context = context
        self._lock = trio.Lock()

    async def context(self) -> ssl.SSLContext:
        """The context, the same for all. Cancelled, the next one who asks begins anew."""
        async with self._lock:
            if self._context is None:
                self._context = await trio.to_thread.run_sync(
                    _as_httpx_makes_it, limiter=trio.CapacityLimiter(1)
                )
            return self._context


def _as_httpx_makes_it() -> ssl.SSLContext:
    """certifi's authorities, or those that SSL_CERT_FILE and SSL_CERT_DIR name; HTTP/1.1 only."""
    import httpx

    context = httpx.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
