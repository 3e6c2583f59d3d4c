"""Search providers that need a key, and their HTTP client, which limits time and size."""

import json
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import trio

from rumi import __version__
from rumi.platform import http
from rumi.platform.network_state import is_offline
from rumi.platform.text_decoding import decode
from rumi.texts import os_error
from rumi.web.codings import is_packed
from rumi.web.messages import FetchError, SearchResult
from rumi.web.search.provider import MAX_ANSWER_BYTES, Fields, SearchQuery, found, malformed

if TYPE_CHECKING:
    import httpx

Json: TypeAlias = Mapping[str, object]

_FORBIDDEN: Final = frozenset(" ;,")
"""Characters that would end a key too early in a header."""


class Api:
    """A client for a provider's endpoint. `key_name` is the environment variable that contains the key.

    `timeout_s` limits a whole request, in seconds. `ca_file` contains the certificates to trust instead of
    the default certificates.
    """

    def __init__(
        self, provider: str, url: str, key: str, key_name: str, *, timeout_s: float, ca_file: str | None
    ) -> None:
        self._provider = provider
        self._url = url
        self._key = key.strip()
        self._key_name = key_name
        self._timeout_s = timeout_s
        self._tls = http.Tls(ca_file=ca_file)

    def __repr__(self) -> str:
        return f"<Api {self._provider}>"

    async def ask(self, body: Json) -> Json:
        """Send a POST request with a JSON body; return the answer. On cancellation, closes the connection.

        Raises:
            FetchError: There is no usable answer within the time limit. The error contains neither the key
                nor text of the answer.
        """
        headers = {"Authorization": f"Bearer {self._key}", "Accept": "application/json"}
        data = await self._settled("POST", headers, {"json": body})
        try:
            answer = json.loads(decode(data, "utf-8"))
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise malformed(self._provider)
        return answer

    async def page(self, cookie: str, query: Mapping[str, str]) -> str:
        """Return the HTML page for a query. The key is sent as a cookie with the name `cookie`.

        Errors and cancellation are the same as in the method `ask`.
        """
        headers = {
            "Cookie": f"{cookie}={self._key}",
            "Accept": "text/html",
            "User-Agent": f"Rumi/{__version__}",
        }
        return (await self._settled("GET", headers, {"params": query})).decode("utf-8", "replace")

    async def _settled(self, method: str, headers: Mapping[str, str], more: Mapping[str, Any]) -> bytes:
        outcome = await self._in_time(method, headers, more)
        if isinstance(outcome, FetchError):
            # Raised here and not in an `except`: exceptions in its context would hold requests with the key.
            raise outcome
        return outcome

    async def _in_time(
        self, method: str, headers: Mapping[str, str], more: Mapping[str, Any]
    ) -> bytes | FetchError:
        if not self._key.isascii() or not self._key.isprintable() or not _FORBIDDEN.isdisjoint(self._key):
            return FetchError(
                "The key for {provider} has characters that are not allowed in a key.",
                "Check {key_name}.",
                provider=self._provider,
                key_name=self._key_name,
            )
        with trio.move_on_after(self._timeout_s):
            return await self._attempt(method, headers, more)
        return FetchError(
            "{provider} did not answer in {timeout_s} s.",
            provider=self._provider,
            timeout_s=f"{self._timeout_s:g}",
        )

    async def _attempt(
        self, method: str, headers: Mapping[str, str], more: Mapping[str, Any]
    ) -> bytes | FetchError:
        try:
            client = await http.client(http.plain, self._tls, timeout=None)
        except http.SetupError as error:
            return FetchError(error.message, error.advice)
        import httpx

        try:
            return await self._exchange(client, method, headers, more)
        except httpx.ConnectError as error:
            return FetchError(
                "{provider} could not be reached: {error}.", provider=self._provider, error=_reason(error)
            )
        except httpx.ProxyError:
            return FetchError(
                "The proxy does not lead to {provider}.", "Check HTTPS_PROXY.", provider=self._provider
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            what = type(error).__name__
            return FetchError(
                "The connection to {provider} broke ({what}).",
                provider=self._provider,
                what=what,
                answered=True,
            )
        finally:
            await http.close(client.aclose)

    async def _exchange(
        self, client: "httpx.AsyncClient", method: str, headers: Mapping[str, str], more: Mapping[str, Any]
    ) -> bytes | FetchError:
        # Uncompressed, so that the limit on received bytes also limits the memory.
        headers = {**headers, "Accept-Encoding": "identity"}
        async with client.stream(method, self._url, headers=headers, **more) as response:
            if response.status_code != 200:
                return self._failed(response.status_code)
            if is_packed(response.headers.get_list("content-encoding")):
                return malformed(self._provider)
            data = bytearray()
            # Cancelled instead of left with `break`, so that the generators below the loop end in order.
            with trio.CancelScope() as enough:
                async for chunk in response.aiter_raw():
                    data += chunk
                    if len(data) > MAX_ANSWER_BYTES:
                        enough.cancel()
        if len(data) > MAX_ANSWER_BYTES:
            size = f"{MAX_ANSWER_BYTES // 1000} KB"
            return FetchError(
                "{provider} answered with more than {size}.",
                provider=self._provider,
                size=size,
                answered=True,
            )
        return bytes(data)

    def _failed(self, status: int) -> FetchError:
        if status in (401, 403):
            return FetchError(
                "{provider} refused the key (HTTP {status}).",
                "Check {key_name}.",
                provider=self._provider,
                status=status,
                key_name=self._key_name,
                answered=True,
            )
        if status in (402, 429, 432, 433):  # Tavily sends the last two if a plan is used up
            return FetchError(
                "{provider} has reached its limit (HTTP {status}).",
                provider=self._provider,
                status=status,
                answered=True,
            )
        if 300 <= status < 400:
            return FetchError(
                "{provider} redirected the request (HTTP {status}). Rumi does not send the key there.",
                provider=self._provider,
                status=status,
                answered=True,
            )
        return FetchError(
            "{provider} failed (HTTP {status})."
            if status >= 500
            else "{provider} refused the request (HTTP {status}).",
            provider=self._provider,
            status=status,
            answered=True,
        )


class _Keyed:
    """Base class of the providers that need a key; see `SearchProvider`."""

    TITLE: ClassVar[str]
    URL: ClassVar[str]
    KEY_NAME: ClassVar[str]

    def __init__(self, key: str, *, timeout_s: float, url: str = "", ca_file: str | None = None) -> None:
        where = url or self.URL
        self._api = Api(self.TITLE, where, key, self.KEY_NAME, timeout_s=timeout_s, ca_file=ca_file)


class Tavily(_Keyed):
    """Tavily's search, https://docs.tavily.com/documentation/api-reference/endpoint/search."""

    name = "tavily"
    TITLE = "Tavily"
    URL = "https://api.tavily.com/search"
    KEY_NAME = "TAVILY_API_KEY"
    _FIELDS: Final = Fields(url="url", snippet="content", date="published_date")

    async def search(self, query: SearchQuery) -> tuple[SearchResult, ...]:
        """Return Tavily's results. Only results for the topic `news` have dates."""
        answer = await self._api.ask(
            {"query": query.text, "topic": query.topic, "max_results": query.max_results}
        )
        return found(self.TITLE, answer.get("results"), self._FIELDS, query.max_results)


class Kagi(_Keyed):
    """Kagi's search, version 1, https://kagi.com/api/docs/openapi/search."""

    name = "kagi"
    TITLE = "Kagi"
    URL = "https://kagi.com/api/v1/search"
    KEY_NAME = "KAGI_API_KEY"
    _FIELDS: Final = Fields(url="url", snippet="snippet", date="time")

    async def search(self, query: SearchQuery) -> tuple[SearchResult, ...]:
        """Search under the settings of the account that the key belongs to, and return Kagi's results."""
        workflow = "news" if query.topic == "news" else "search"
        answer = await self._api.ask({"query": query.text, "workflow": workflow, "limit": query.max_results})
        data = answer.get("data")
        if not isinstance(data, dict):
            raise malformed(self.TITLE)
        # Each kind of result has its own list; an empty list may be missing.
        return found(self.TITLE, data.get(workflow) or [], self._FIELDS, query.max_results)


def _reason(error: BaseException) -> str:
    """Return an error's root cause, because the HTTP client's text omits that a certificate is untrusted."""
    words = ""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, socket.gaierror):
            return "this machine has no network" if is_offline() else "its name could not be looked up"
        if isinstance(cause, OSError) and cause.strerror:
            return os_error(cause)
        words = words or str(cause)
        cause = cause.__cause__ or cause.__context__
    return words or type(error).__name__
