"""A model server and its HTTP client, which all models at the server share.

`rumi.platform.http` sets up the client.
"""

from typing import TYPE_CHECKING

import trio

from rumi.models.model import ModelError
from rumi.platform import http
from rumi.platform.config.providers import PROVIDERS, Dialect, KnownModel, Provider
from rumi.platform.redact import Redactor

if TYPE_CHECKING:
    from collections.abc import Callable

    from groq import AsyncGroq

    from rumi.models.client import Client

OWN_SERVER = Provider("custom", "", "", local=True, unknown=KnownModel("*", tools="grammar"))
"""The provider data for servers from the sections `[model.custom.NAME]`."""


class ModelServer:
    """A server and its HTTP client, which all models at the server share. The creator must call `aclose`.

    `name` identifies the server in limits and errors: it is a provider's scheme, or `custom:NAME`. `key_name`
    is the name of the setting for the key, and `url_name` that for the address. `provider` is the server's
    row in the provider table. The clients are created at the first use, and again at the first use after
    `aclose`. `redact` hides secrets in texts from the server; by default, it hides only the key.
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        api_key: str,
        *,
        dialect: Dialect,
        key_name: str = "the key",
        redact: Redactor | None = None,
    ) -> None:
        self.name = name
        self.base_url = base_url
        self.dialect: Dialect = dialect
        self.provider = PROVIDERS.get(name, OWN_SERVER)
        self.key_name = key_name
        self.url_name = f"model.{name.replace(':', '.', 1)}.base_url"
        if name in PROVIDERS:
            self.url_name = self.provider.base_url_variable
        self.api_key = api_key
        self.redact = redact or Redactor((api_key,))
        self.takes_schema = True
        """False once the server has refused a request with a JSON schema; later requests have no schema."""
        self._client: AsyncGroq | None = None
        self._bare: Client | None = None
        self._making = trio.Lock()

    def __repr__(self) -> str:
        return f"<Server {self.name}>"

    async def client(self) -> "AsyncGroq":
        """Return the groq SDK's client; create the client if there is none.

        If this method is cancelled, the next call creates the client.

        Raises:
            ModelError: The environment's proxy or certificates cannot be used.
        """
        if self._client is None:
            # Checked again under the lock: a concurrent first call may have created the client.
            async with self._making:
                if self._client is None:
                    made = await self._made(_class_beside_groq)
                    from groq import AsyncGroq

                    self._client = AsyncGroq(
                        api_key=self.api_key,
                        base_url=self.base_url,
                        max_retries=0,
                        timeout=None,
                        http_client=made,
                    )
        return self._client

    async def bare(self) -> "Client":
        """Return the HTTP client for protocols that the SDK does not speak; create the client if needed.

        Raises:
            ModelError: The environment's proxy or certificates cannot be used.
        """
        if self._bare is None:
            async with self._making:
                if self._bare is None:
                    self._bare = await self._made(_client_class)
        return self._bare

    async def aclose(self) -> None:
        """Close the idle connections, even if cancelled, within the time limit of `http.close`."""
        # Removed before the awaits, so that a concurrent call creates a new client and uses no closed one.
        client, self._client = self._client, None
        bare, self._bare = self._bare, None
        if client is not None:
            await http.close(client.close)
        if bare is not None:
            await http.close(bare.aclose)

    async def _made(self, kind: "Callable[[], type[Client]]") -> "Client":
        try:
            return await http.client(kind, http.Tls())
        except http.SetupError as error:
            raise ModelError("refused", error.message, error.advice, model=self.name) from None


def _class_beside_groq() -> "type[Client]":
    import groq  # noqa: F401  # half a second, here in a thread

    return _client_class()


def _client_class() -> "type[Client]":
    from rumi.models.client import Client

    return Client
