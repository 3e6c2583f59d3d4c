"""HTTP to addresses that must not be said: Telegram's contain the bot's token.

httpx logs the address of every request, and its errors and responses carry the request with them. So the
requests made here have an address whose text ends behind the host. What goes over the wire is the whole one.
"""

from typing import Any

import httpx

from rumi.redact import HIDDEN


class UnspokenURL(httpx.URL):
    """An address that tells where the server is, and hides what is asked of it."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc.decode('ascii')}/{HIDDEN}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class UnspokenClient(httpx.AsyncClient):
    """A client whose requests have such addresses, and with them its logs and its errors."""

    def build_request(self, *args: Any, **kwargs: Any) -> httpx.Request:
        """See `httpx.AsyncClient.build_request`."""
        request = super().build_request(*args, **kwargs)
        request.url = UnspokenURL(request.url)
        return request
