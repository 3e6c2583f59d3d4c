"""A model server, and the one client for it that all its models share.

Environment: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY` and `SSL_CERT_FILE` are honoured, for
a machine may reach its model server through a proxy only; this machine's own loopback never goes
through one. Redirects are not followed, so neither key nor conversation goes where nobody sent it.
"""

import importlib
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import trio

if TYPE_CHECKING:
    from groq import AsyncGroq

Dialect: TypeAlias = Literal["groq", "openai"]
"""Groq's own API, or the one that others copied: they differ in the path and in a few names."""

CLOSE_S: Final = 2.0
"""How long closing a connection may take; after that it is left to the kernel."""

_LOOPBACK: Final = ("all://localhost", "all://127.0.0.1", "all://[::1]")
# The groq SDK takes half a second to import: in a thread, so that other chats do not wait for it.
_IMPORTS: Final = trio.CapacityLimiter(1)


class Server:
    """A server and the one client for it, which its models share. Whoever made it closes it.

    `name` is how limits and errors call it: `groq`, or `custom:NAME`. `key_name` says where its key is
    set. The client is made on first use, and again on the first use after `aclose`.
    """

    def __init__(
        self, name: str, base_url: str, api_key: str, *, dialect: Dialect, key_name: str = "the key"
    ) -> None:
        self.name = name
        self.base_url = base_url
        self.dialect: Dialect = dialect
        self.key_name = key_name
        self.api_key = api_key
        self._client: AsyncGroq | None = None
        self._making = trio.Lock()

    def __repr__(self) -> str:
        return f"<Server {self.name}>"

    async def client(self) -> "AsyncGroq":
        """The client, made when there is none. Cancelled, it leaves none half made."""
        if self._client is None:
            async with self._making:
                if self._client is None:
                    await trio.to_thread.run_sync(importlib.import_module, "groq", limiter=_IMPORTS)
                    self._client = self._make()
        return self._client

    async def aclose(self) -> None:
        """Close the idle connections; bounded, also when cancelled."""
        client, self._client = self._client, None
        if client is not None:
            with trio.move_on_after(CLOSE_S, shield=True):
                await client.close()

    def _make(self) -> "AsyncGroq":
        import httpx
        from groq import AsyncGroq

        from rumi.models.client import Client

        http = Client(
            timeout=None,  # the silence is measured around everything, see ChatCompletions
            # Permits bound the calls; a bound here would only make them queue a second time, unfairly.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=30.0),
            follow_redirects=False,
            mounts=dict.fromkeys(_LOOPBACK),
        )
        return AsyncGroq(
            api_key=self.api_key, base_url=self.base_url, max_retries=0, timeout=None, http_client=http
        )
