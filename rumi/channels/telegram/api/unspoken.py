"""HTTP to secret addresses: Telegram's contain the bot's token.

httpx logs the address of every request, and its errors and responses carry the request with them. So the
requests made here show an address that ends after the host. The wire gets the complete one.
"""

from typing import Any

import httpx

from rumi.platform.redact import HIDDEN


class UnspokenURL(httpx.URL):
    """An address that shows the server, and hides the rest."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc.decode('ascii')}/{HIDDEN}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class UnspokenClient(httpx.AsyncClient):
    """A client whose requests, and therefore its logs and errors, show such addresses."""

    def build_request(self, *args: Any, **kwargs: Any) -> httpx.Request:
        """See `httpx.AsyncClient.build_request`."""
        request = super().build_request(*args, **kwargs)
        request.url = UnspokenURL(request.url)
        return request
