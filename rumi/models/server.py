"""A model server, and its one client, which all its models share; `rumi.http` sets the client up."""

from typing import TYPE_CHECKING, Literal, TypeAlias

import trio

from rumi import http
from rumi.models.types import ModelError

if TYPE_CHECKING:
    from groq import AsyncGroq

    from rumi.models.client import Client

Dialect: TypeAlias = Literal["groq", "openai"]
"""Groq's own API, or OpenAI's as others implement it: they differ in the path and in a few names."""


class Server:
    """A server and its one client, which its models share. Its maker closes it.

    `name` is the name in limits and errors: `groq`, or `custom:NAME`. `key_name` says where its key is set.
    The client is made at the first use, and again at the first use after `aclose`.
    """

    def __init__(
        self, name: str, base_url: str, api_key: str, *, dialect: Dialect, key_name: str = "the key"
    ) -> None:
        self.name = name
        self.base_url = base_url
        self.dialect: Dialect = dialect
        self.key_name = key_name
        self.api_key = api_key
        self.takes_schema = True
        """Whether it sees to the form of an answer, as far as is known: it has not refused such a request."""
        self._client: AsyncGroq | None = None
        self._making = trio.Lock()

    def __repr__(self) -> str:
        return f"<Server {self.name}>"

    async def client(self) -> "AsyncGroq":
        """Return the client; make it if there is none. Cancelled, it leaves no incomplete client.

        Raises:
            ModelError: The environment's proxy or certificates cannot be used.
        """
        if self._client is None:
            async with self._making:
                if self._client is None:
                    try:
                        self._client = await self._make()
                    except http.SetupError as error:
                        raise ModelError("refused", error.message, error.advice, model=self.name) from None
        return self._client

    async def aclose(self) -> None:
        """Close the idle connections; bounded, also when cancelled."""
        client, self._client = self._client, None
        if client is not None:
            await http.close(client.close)

    async def _make(self) -> "AsyncGroq":
        client = await http.client(_client_class, http.Tls())
        from groq import AsyncGroq

        return AsyncGroq(
            api_key=self.api_key, base_url=self.base_url, max_retries=0, timeout=None, http_client=client
        )


def _client_class() -> "type[Client]":
    import groq  # noqa: F401  # half a second, here in a thread

    from rumi.models.client import Client

    return Client
