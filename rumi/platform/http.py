"""HTTP clients for the servers that the configuration names: models, web searches, Telegram.

The clients use the environment variables `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY` (see
`rumi.platform.proxies`), `SSL_CERT_FILE` and `SSL_CERT_DIR`, because a machine may reach these servers only
through a proxy. Requests to loopback addresses never use a proxy. Redirects are not followed, so that a key
is never sent to another server. For URLs from users, models and pages, `rumi.web` has a separate client,
which uses no proxy. httpx is imported at its first use, because the import is slow.
"""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from rumi.platform.proxied import ProxiedTransport
from rumi.platform.proxies import SetupError as SetupError
from rumi.platform.proxies import proxies

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
C = TypeVar("C", bound="httpx.AsyncClient")

CLOSE_S: Final = 2.0
"""Maximum time to close a connection, in seconds; after this time the kernel closes the connection."""

# Slow imports run in a thread, so that chats do not wait for them; one at a time.
_LOADING: Final = trio.CapacityLimiter(1)


def settings(
    trusted: ssl.SSLContext, *, limits: Any = None, library: ModuleType | None = None
) -> dict[str, Any]:
    """Return the settings that all clients share: the certificates, the proxies, no redirects.

    `limits` are the client's limits of connections, as in httpx. `library` is the library of the client.

    Raises:
        SetupError: The environment's proxy cannot be used.
    """
    known = proxies()
    # The client itself reads no variables: its parser of NO_PROXY fails on ordinary entries.
    shared: dict[str, Any] = {"follow_redirects": False, "trust_env": False, "verify": trusted}
    if known.by_scheme:
        import httpx

        used = httpx if library is None else library
        more = {} if limits is None else {"limits": limits}
        try:
            shared["transport"] = ProxiedTransport(used, known, verify=trusted, **more)
        except (ValueError, used.InvalidURL):  # its text may contain the proxy's password: drop it
            raise SetupError(
                "The proxy of the environment cannot be used.", "Check HTTPS_PROXY and ALL_PROXY."
            ) from None
    return shared


async def loaded(load: Callable[[], T]) -> T:
    """Run `load`, which imports or reads files, in a thread; return its result. One call runs at a time."""
    return await trio.to_thread.run_sync(load, limiter=_LOADING)


class Tls:
    """The trusted TLS certificates, loaded at their first use.

    The certificates come from `context` or `ca_file`, or by default from the environment.
    """

    def __init__(self, context: ssl.SSLContext | None = None, *, ca_file: str | None = None) -> None:
        self._context = context
        self._ca_file = ca_file

    async def context(self) -> ssl.SSLContext:
        """Return the TLS context that all clients share. The first call loads it.

        Raises:
            SetupError: The certificates cannot be read.
        """
        if self._context is None:
            try:
                self._context = await loaded(self._made)
            except OSError as error:
                raise SetupError(
                    "The certificates to trust cannot be read: {error}.", "Check SSL_CERT_FILE.", error=error
                ) from None
        return self._context

    def _made(self) -> ssl.SSLContext:
        import httpx

        if self._ca_file is not None:
            context = ssl.create_default_context(cafile=self._ca_file)
        else:
            context = httpx.create_ssl_context()
        context.set_alpn_protocols(["http/1.1"])
        return context


async def client(
    kind: Callable[[], type[C]], tls: Tls, *, library: ModuleType | None = None, **more: Any
) -> C:
    """Create a client of the class that `kind` returns. `more` are additional settings for the client.

    `library` is the library of the client, by default httpx. The caller must close the client.

    Raises:
        SetupError: The environment's proxy or certificates cannot be used.
    """
    trusted = await tls.context()
    made = await loaded(kind)
    limits = more.get("limits", getattr(made, "limits", None))
    return made(**settings(trusted, limits=limits, library=library), **more)


def plain() -> "type[httpx.AsyncClient]":
    """Import httpx and return its client class."""
    import httpx

    return httpx.AsyncClient


async def close(closing: Callable[[], Awaitable[None]]) -> None:
    """Close a client or a response within `CLOSE_S` seconds, even if the calling task is cancelled."""
    with trio.move_on_after(CLOSE_S, shield=True):
        await closing()


async def unwind(chunks: AsyncIterator[bytes]) -> None:
    """Close a response body that was not read to its end, together with its connection.

    Returns at once if the body was read completely.
    """
    # Nested async generators read the body. `aclose` of the outermost one leaves the others to the garbage
    # collector. If the innermost await is cancelled instead, all of them end in order.
    import httpx

    with trio.CancelScope(shield=True) as scope:
        scope.cancel()
        try:
            async for _ in chunks:
                pass
        except (httpx.HTTPError, httpx.StreamError):
            pass  # it is being discarded
