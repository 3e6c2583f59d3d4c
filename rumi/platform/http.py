"""HTTP to servers that the configuration names (models, searches, Telegram): the one set-up of clients.

`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`, `SSL_CERT_FILE` and `SSL_CERT_DIR` of the environment
are honoured, because a machine may reach these servers only through a proxy; loopback never goes through one.
Redirects are not followed, so that a key reaches only its own server. `rumi.web` fetches addresses from
users, models and pages instead. httpx is imported at its first use, because that takes long.
"""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from rumi.errors import RumiError

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
C = TypeVar("C", bound="httpx.AsyncClient")

CLOSE_S: Final = 2.0
"""How long closing a connection may take; after that the kernel closes it."""

# Slow imports happen in a thread, so that chats do not wait for them.
_LOADING: Final = trio.CapacityLimiter(1)


class SetupError(RumiError):
    """The environment's proxy or certificates cannot be used. The error contains no secret."""


def settings() -> dict[str, Any]:
    """Return the settings of every client: no proxy for loopback, no redirects."""
    loopback = ("all://localhost", "all://127.0.0.1", "all://[::1]")
    return {"follow_redirects": False, "mounts": dict.fromkeys(loopback)}


async def loaded(load: Callable[[], T]) -> T:
    """Return what `load` returns, which imports or reads files; in a thread, one at a time."""
    return await trio.to_thread.run_sync(load, limiter=_LOADING)


class Tls:
    """The certificates by which servers are judged; loaded when they are first needed.

    These are `context` if that is given, the certificates in `ca_file`, or else those of the environment.
    """

    def __init__(self, context: ssl.SSLContext | None = None, *, ca_file: str | None = None) -> None:
        self._context = context
        self._ca_file = ca_file

    async def context(self) -> ssl.SSLContext:
        """Return the context, the same for all. Cancelled, the next call begins again.

        Raises:
            SetupError: The certificates cannot be read.
        """
        if self._context is None:
            try:
                self._context = await loaded(self._made)
            except OSError as error:
                raise SetupError(
                    f"The certificates to trust cannot be read: {error}.", "Check SSL_CERT_FILE."
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


async def client(kind: Callable[[], type[C]], tls: Tls, **more: Any) -> C:
    """Return a client of the class that `kind` imports, with `more` settings; the caller closes it.

    Raises:
        SetupError: The environment's proxy or certificates cannot be used.
    """
    trusted = await tls.context()
    made = await loaded(kind)
    try:
        return made(verify=trusted, **settings(), **more)
    except (ValueError, ImportError, _invalid_url()):  # their text may contain the proxy's password
        raise SetupError(
            "The proxy of the environment cannot be used.", "Check HTTPS_PROXY and ALL_PROXY."
        ) from None


def plain() -> "type[httpx.AsyncClient]":
    """Import httpx and return its client."""
    import httpx

    return httpx.AsyncClient


def _invalid_url() -> type[Exception]:
    import httpx

    return httpx.InvalidURL


async def close(closing: Callable[[], Awaitable[None]]) -> None:
    """Close a client or a response: bounded by `CLOSE_S`, also when cancelled."""
    with trio.move_on_after(CLOSE_S, shield=True):
        await closing()


async def unwind(chunks: AsyncIterator[bytes]) -> None:
    """Close a body that was not read to its end.

    Several nested async generators read it, and closing the outermost leaves the others to the garbage
    collector. If the innermost await is cancelled, all of them end in order, and the connection with them. A
    generator that has ended already ends at once.
    """
    import httpx

    with trio.CancelScope(shield=True) as scope:
        scope.cancel()
        try:
            async for _ in chunks:
                pass
        except (httpx.HTTPError, httpx.StreamError):
            pass  # it is being discarded
