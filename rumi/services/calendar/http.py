"""Bounded requests to the servers of calendars.

The owner has chosen the server, so it may be in a private network, as models' servers may. Its credentials go
to its own origin only: redirects within the origin, and from http to https of the same host, are followed.
Other redirects are an error; a file without credentials is fetched there through the guard for addresses.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urljoin, urlsplit

import trio

from rumi.platform import http
from rumi.services.calendar.errors import CalendarError, Unsettled
from rumi.texts import Text

if TYPE_CHECKING:
    import httpx

TIMEOUT_S: Final = 60.0
"""Maximum time of one request with its redirects, in seconds. Small servers expand long series slowly."""

MOST_BYTES: Final = 20_000_000
"""Maximum size of an answer, in bytes."""

MOST_REDIRECTS: Final = 5
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_NO_PASSWORD: Final = Text("Check user and password: many services want an app password here.")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The answer of a server. `url` is the address after redirects, and header names are in small letters."""

    status: int
    url: str
    headers: Mapping[str, str]
    body: bytes


class Elsewhere(Exception):
    """A redirect to another origin."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url


@dataclass(slots=True)
class ServerConnection:
    """A client of one server; use it with `async with`.

    `host` names the server in errors, which contain no address: an address may be private.
    """

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    timeout_s: float = TIMEOUT_S
    _client: "httpx.AsyncClient | None" = None
    _digest: Any = None

    @property
    def host(self) -> str:
        """The host of the server, for people."""
        return host_of(self.url)

    async def __aenter__(self) -> Self:
        self._client = await http.client(http.plain, http.Tls(), timeout=self.timeout_s)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await http.close(self._client.aclose)

    async def request(
        self,
        method: str,
        url: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> HttpAnswer:
        """Send a request and return the answer. On cancellation, closes the connection.

        Raises:
            CalendarError: The server does not answer in time, or refuses the user; `Unsettled` if it may have
                carried out the request.
            Elsewhere: The server redirects to another origin.
        """
        import httpx

        sent = False
        try:
            with trio.fail_after(self.timeout_s):
                for _ in range(MOST_REDIRECTS + 1):
                    sent = True
                    answer = await self._exchange(method, url, body, headers or {}, most_bytes)
                    sent = False
                    if answer.status not in _REDIRECTS or "location" not in answer.headers:
                        return self._checked(answer)
                    url = self._target(url, answer.headers["location"])
        except trio.TooSlowError:
            what = Text(
                "{host} did not answer within {seconds} s.", host=self.host, seconds=f"{self.timeout_s:g}"
            )
            raise _failed(method, what, sent=sent) from None
        except httpx.ConnectError:
            raise CalendarError(
                "{host} cannot be reached.", "Check its address and the network.", host=self.host
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, zlib.error):
            # The library's errors contain addresses, which may be private.
            raise _failed(
                method, Text("The connection to {host} broke off.", host=self.host), sent=sent
            ) from None
        raise CalendarError("{host} redirects in a circle.", "Check the address.", host=self.host)

    async def _exchange(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], most_bytes: int
    ) -> HttpAnswer:
        answer = await self._sent(method, url, body, headers, most_bytes, self._auth())
        if (
            answer.status == 401
            and self.user
            and "digest" in answer.headers.get("www-authenticate", "").lower()
        ):
            import httpx

            # This library's digest asks once without the password, and then again.
            self._digest = self._digest or httpx.DigestAuth(self.user, self.password)
            answer = await self._sent(method, url, body, headers, most_bytes, self._digest)
        return answer

    async def _sent(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], most_bytes: int, auth: Any
    ) -> HttpAnswer:
        assert self._client is not None
        given = {"Accept-Encoding": "identity", "User-Agent": "Rumi", **headers}
        request = self._client.build_request(method, url, content=body, headers=given)
        response = await self._client.send(request, stream=True, auth=auth)
        try:
            data = bytearray()
            # Compressed answers are unpacked piece by piece, so that the limit also bounds the memory.
            packed = response.headers.get("content-encoding", "identity").lower() in (
                "gzip",
                "x-gzip",
                "deflate",
            )
            unpacker = zlib.decompressobj(wbits=47) if packed else None
            with trio.CancelScope() as enough:  # cancelled, so that the generators below end in order
                async for chunk in response.aiter_raw():
                    data += chunk if unpacker is None else unpacker.decompress(chunk, most_bytes + 1)
                    if len(data) > most_bytes:
                        enough.cancel()
        finally:
            await http.close(response.aclose)
        if len(data) > most_bytes:
            raise CalendarError(
                "{host} sent more than {most} MB.", "", host=self.host, most=max(1, most_bytes // 1_000_000)
            )
        names = {name.lower(): value for name, value in response.headers.items()}
        return HttpAnswer(response.status_code, url, names, bytes(data))

    def _auth(self) -> Any:
        """Return the credentials: None for a server that needs none."""
        if not self.user:
            return None
        if self._digest is not None:
            return self._digest
        import httpx

        return httpx.BasicAuth(self.user, self.password)

    def _target(self, url: str, location: str) -> str:
        """Return the address of a redirect.

        Raises:
            Elsewhere: It is not of this server.
        """
        target = urljoin(url, location)
        old, new = origin(url), origin(target)
        upgrades = old[:2] == ("http", new[1]) and new[0] == "https" and new[2] == 443
        if old != new and not upgrades:
            raise Elsewhere(target)
        return target

    def _checked(self, answer: HttpAnswer) -> HttpAnswer:
        if answer.status == 401:
            raise CalendarError("{host} refuses the user or the password.", _NO_PASSWORD, host=self.host)
        if answer.status >= 500 or answer.status == 429:
            raise unexpected(self.host, answer.status)
        return answer


def _failed(method: str, what: Text, *, sent: bool) -> CalendarError:
    """Return the error of a request without an answer."""
    if sent and method in ("PUT", "DELETE"):
        return Unsettled(
            "{what} Nobody knows whether it has stored the change.", "Look into the calendar.", what=what
        )
    return CalendarError("{what}", "Try again later.", what=what)


def unexpected(host: str, status: int) -> CalendarError:
    """Return the error for a status that is neither a success nor explained otherwise."""
    if status == 403:
        return CalendarError("{host} does not allow this.", "Check the rights of the user there.", host=host)
    return CalendarError("{host} answers with status {status}.", "Try again later.", host=host, status=status)


def origin(url: str) -> tuple[str, str, int]:
    """Return the scheme, host and port of an address; empty if it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return "", "", 0
    return parts.scheme, (parts.hostname or "").rstrip("."), port


def host_of(url: str) -> str:
    """Return the host of an address, with its port if it is not the usual one; for people."""
    scheme, host, port = origin(url)
    return host if port == {"http": 80, "https": 443}.get(scheme) else f"{host}:{port}"
