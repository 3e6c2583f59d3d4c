"""Requests to authorization servers. A server of tools names them, so the guard checks each address."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlencode

from rumi.agent.mcp.messages import McpError
from rumi.errors import RumiError
from rumi.web.referrals import ReferralAnswer, Referrals

_JSON: Final = ("Accept", "application/json")


class LoginError(McpError):
    """A login failed, or could not be renewed. The message contains none of a server's own text."""


class LoginRequests:
    """Makes the requests about the login at the server of tools with the address `url`.

    `referrals` makes the connections; by default, those that `url` may refer to.
    """

    def __init__(self, url: str, referrals: Referrals | None = None) -> None:
        self._referrals = referrals or Referrals(url)

    async def check(self, url: str) -> None:
        """Check an address to which a browser or a token is sent.

        Raises:
            LoginError: The address is not https, or the guard refuses it.
        """
        with _explained():
            await self._referrals.check(url)

    async def get(self, url: str) -> ReferralAnswer:
        """Return the answer to a GET.

        Raises:
            LoginError: The address is refused, or there was no complete answer.
        """
        with _explained():
            return await self._referrals.ask(url, [_JSON])

    async def post_form(
        self, url: str, form: Mapping[str, str], headers: Iterable[tuple[str, str]] = ()
    ) -> ReferralAnswer:
        """Send a form. Raises `LoginError`: see `get`."""
        kind = ("Content-Type", "application/x-www-form-urlencoded")
        with _explained():
            return await self._referrals.ask(url, [_JSON, kind, *headers], urlencode(form).encode())

    async def post_json(self, url: str, body: bytes) -> ReferralAnswer:
        """Send a JSON text. Raises `LoginError`: see `get`."""
        with _explained():
            return await self._referrals.ask(url, [_JSON, ("Content-Type", "application/json")], body)


@contextmanager
def _explained() -> Iterator[None]:
    """Turn errors of a request into a `LoginError`."""
    try:
        yield
    except RumiError as error:
        raise LoginError(error.message, error.advice) from error
