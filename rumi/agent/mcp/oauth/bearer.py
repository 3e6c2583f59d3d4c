"""The tokens of one server's requests: added, renewed before they end, and renewed when they are refused."""

import logging
import math
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import httpx2
import trio

from rumi.agent.mcp.messages import McpError, ServerSettings
from rumi.agent.mcp.oauth.discovery import challenge_in
from rumi.agent.mcp.oauth.logins import ServerLogin, StoredLogins, needed
from rumi.agent.mcp.oauth.requests import LoginRequests
from rumi.agent.mcp.oauth.tokens import LoginRefused, refresh
from rumi.platform.grace import with_grace
from rumi.platform.threads import Offload
from rumi.texts import Text

logger = logging.getLogger(__name__)

EARLY_S: Final = 10.0
"""A token is renewed this long before it ends, in seconds, so that it does not end on its way."""

GRACE_S: Final = 5.0
"""Maximum time that a renewal continues after a cancellation, in seconds.

The authorization server may have made the old tokens invalid already: a lost answer ends the login.
"""

AGAIN_S: Final = 10.0
"""A renewal that could not be made is not tried again for this long, in seconds.

Otherwise each of many requests would wait for an authorization server that does not answer.
"""

MOST_WANTED_CHARS: Final = 2000


class Bearer:
    """Gives a server's requests their tokens. The tokens are read for each request: a login may change them.

    No token goes to another origin than that of the server's address.
    """

    def __init__(self, settings: ServerSettings, home: Path, offload: Offload) -> None:
        self._settings = settings
        self._logins = StoredLogins(home)
        self._offload = offload
        self._own = _origin(httpx2.URL(settings.section.url))
        self._uses_headers = any(name.lower() == "authorization" for name in settings.headers)
        self._trouble: McpError | None = None
        self._not_before = -math.inf

    async def authorize(self, request: httpx2.Request) -> str:
        """Put the token of the login into a request; return it, or an empty text if there is none.

        Renews a token that is about to end. If that fails, the request gets the token that there is.
        """
        if self._uses_headers or _origin(request.url) != self._own:
            return ""
        login = self._login()
        if login is None or not login.access:
            return ""
        if login.expires is not None and login.expires - time.time() < EARLY_S and login.refresh:
            login = await self._renewed(login.access) or login
        if login.access:
            request.headers["Authorization"] = f"Bearer {login.access}"
        return login.access

    async def renew(self, refused: str) -> bool:
        """Renew the token that the server has refused; return True if there is another one now."""
        return await self._renewed(refused) is not None

    async def _renewed(self, used: str) -> ServerLogin | None:
        """Return the login with another token than `used`, or None if there is none.

        One renewal runs at a time, also if other processes use the login: the others take its tokens.
        """
        try:
            async with self._logins.locked(self._settings.name):
                login = self._logins.of(self._settings)
                if login is None or login.ended:
                    return None
                if login.access != used:
                    self._trouble = None
                    return login
                if trio.current_time() < self._not_before:
                    return None
                return await with_grace(partial(self._renew, login), GRACE_S)
        except McpError as error:
            logger.warning("%s: the login is not renewed: %s", self._settings.name, error)
            self._trouble = error
            self._not_before = trio.current_time() + AGAIN_S
            return None

    async def _renew(self, login: ServerLogin) -> ServerLogin:
        """Replace the tokens of a login. The new ones are stored before they are used."""
        name, section = self._settings.name, self._settings.section
        if login.client_id == section.client_id:
            login = replace(login, client_secret=self._settings.client_secret)
        try:
            if not login.refresh:
                raise LoginRefused("The authorization server has given nothing to renew the login with.")
            renewed = await refresh(LoginRequests(section.url), login)
        except LoginRefused:
            ended = replace(login, access="", refresh="", ended=True)
            await self._offload(partial(self._logins.save, name, ended))
            raise
        await self._offload(partial(self._logins.save, name, renewed))
        self._trouble = None
        return renewed

    def _login(self) -> ServerLogin | None:
        try:
            return self._logins.of(self._settings)
        except McpError as error:
            self._trouble = error
            return None

    async def trouble(self, response: httpx2.Response) -> McpError | None:
        """Return why a server refused a request, if that is about its login; None if it is not.

        Rights that the login lacks are stored, so that the next login asks for them.
        """
        name = self._settings.name
        if self._uses_headers:
            return None
        login = self._login()
        if response.status_code == 401:
            if login is None and self._trouble is not None:
                return self._trouble
            if login is None:
                wants = bool(challenge_in(response).metadata_url)
                return needed(name, Text("The server wants you to log in (HTTP 401).")) if wants else None
            if login.ended:
                return needed(name, Text("The login at the server has ended."))
            if self._trouble is not None:
                return McpError(
                    "The login at the server could not be renewed: {why}",
                    "Try again later.",
                    why=self._trouble.message,
                )
            return needed(name, Text("The server does not accept the login (HTTP 401)."))
        if response.status_code == 403 and login is not None:
            scope = challenge_in(response).scope
            if not scope:
                return McpError("The server does not allow this to the account of the login (HTTP 403).")
            with suppress(McpError):  # without the stored rights, the advice is the same
                await self._want(scope)
            return needed(name, Text("The login lacks rights that the server wants for this (HTTP 403)."))
        return None

    async def _want(self, scope: str) -> None:
        """Store rights that a call needed. A server names them, so people see them at the next login."""
        async with self._logins.locked(self._settings.name):
            login = self._logins.of(self._settings)
            if login is None:
                return
            wanted = " ".join(dict.fromkeys(f"{login.wanted} {scope}".split()))
            if wanted == login.wanted or len(wanted) > MOST_WANTED_CHARS:
                return
            login = replace(login, wanted=wanted)
            await self._offload(partial(self._logins.save, self._settings.name, login))


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    default = {"http": 80, "https": 443}.get(url.scheme)
    return url.scheme, url.host, url.port or default
