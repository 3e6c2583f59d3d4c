"""HTTP client that hides the URLs of its requests, because Telegram's URLs contain the bot's token.

httpx logs the URL of every request, and its errors and responses refer to the request. So this module's
client shows each URL only up to the host. The request itself uses the complete URL.
"""

from typing import Any

import httpx
from typing_extensions import override

from rumi.platform.redact import HIDDEN


class UnspokenURL(httpx.URL):
    """A URL whose string form shows the host and hides everything after it."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc.decode('ascii')}/{HIDDEN}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class UnspokenClient(httpx.AsyncClient):
    """A client whose requests, and therefore its logs and errors, hide the URL after the host."""

    @override
    def build_request(self, *args: Any, **kwargs: Any) -> httpx.Request:
        request = super().build_request(*args, **kwargs)
        request.url = UnspokenURL(request.url)
        return request
