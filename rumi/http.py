"""HTTP to servers that the configuration names, for models, searches, Telegram: the one set-up of clients.

`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`, `SSL_CERT_FILE` and `SSL_CERT_DIR` of the environment
are honoured, for a machine may reach these servers through a proxy only; this machine's own loopback never
goes through one. Redirects are not followed, so that no key goes where it was not sent. What a user, a model
or a page names is fetched by `rumi.web` instead. httpx is imported on first use, which takes a while.
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
"""How long closing a connection may take; after that it is left to the kernel."""

# What takes a while to load is loaded in a thread, so that chats do not wait for it.
_LOADING: Final = trio.CapacityLimiter(1)


class SetupError(RumiError):
    """The environment's proxy or certificates cannot be used. No address and no password is in it."""


def settings() -> dict[str, Any]:
    """Return what every client is made with: where it never goes."""
    loopback = ("all://localhost", "all://127.0.0.1", "all://[::1]")
    return {"follow_redirects": False, "mounts": dict.fromkeys(loopback)}


async def loaded(load: Callable[[], T]) -> T:
    """Return what `load` returns, which imports or reads files; in a thread, one at a time."""
    return await trio.to_thread.run_sync(load, limiter=_LOADING)


class Tls:
    """What servers' certificates are judged by; made when it is first needed.

    These are `context` if that is given, the certificates in `ca_file`, or else those of the environment.
    """

    def __init__(self, context: ssl.SSLContext | None = None, *, ca_file: str | None = None) -> None:
        self._context = context
        self._ca_file = ca_file

    async def context(self) -> ssl.SSLContext:
        """Return the context, the same for all. Cancelled, the next call begins again.

        Raises:
            SetupError: the certificates cannot be read.
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
        SetupError: the environment's proxy or certificates cannot be used.
    """
    trusted = await tls.context()
    made = await loaded(kind)
    try:
        return made(verify=trusted, **settings(), **more)
    except (ValueError, ImportError, _invalid_url()):  # their words may have the proxy's password
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
    """End a body that was not read to its end.

    Several async generators stand inside each other below it, and closing the outermost leaves the others to
    the garbage collector. Cancelled at the innermost await, all of them end in order, and the connection with
    them. One that has ended already ends at once.
    """
    import httpx

    with trio.CancelScope(shield=True) as scope:
        scope.cancel()
        try:
            async for _ in chunks:
                pass
        except (httpx.HTTPError, httpx.StreamError):
            pass  # it is being thrown away
