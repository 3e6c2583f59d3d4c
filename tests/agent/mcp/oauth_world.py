"""Logins in tests: a server of tools that wants one, and a browser of a person who says yes."""

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from rumi.agent.mcp.messages import ServerSettings
from rumi.agent.mcp.oauth.flow import Attempt
from rumi.agent.mcp.oauth.login import log_in
from rumi.agent.mcp.oauth.logins import ServerLogin
from rumi.agent.mcp.oauth.requests import LoginError
from rumi.platform.config.schema import McpSection
from tests.agent.mcp.test_remote import Odd, served
from tests.fakes.authorization_server import AuthorizationServer, authorization_server

PROTECTED = "/.well-known/oauth-protected-resource/mcp"


@dataclass
class Tools:
    """A server of tools that wants tokens of `grants`. `tokens` are those that it got, in their order.

    `says` changes what it says about itself, `header` its challenge. If `is_own`, it has the metadata of the
    authorization server too. A call of `change` needs the right `write`.
    """

    grants: AuthorizationServer
    url: str = ""
    says: dict[str, Any] | None = field(default_factory=dict)
    header: str = ""
    is_own: bool = False
    redirect: tuple[int, str] | None = None
    tokens: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"{self.url}/mcp"

    def settings(self, **keys: Any) -> ServerSettings:
        section = McpSection(url=self.address, start_timeout_s=10.0, timeout_s=10.0, **keys)
        return ServerSettings("web", section, client_secret="hush-hush" if keys.get("client_secret") else "")

    def judge(self, request: Odd, message: dict[str, Any]) -> bool:
        """Answer instead of the server; the oddity of `tests.agent.mcp.test_remote`."""
        if request.command == "GET" and request.path.startswith("/.well-known/"):
            known = {} if self.says is None else {PROTECTED: self.metadata()}
            if self.is_own:
                known["/.well-known/oauth-authorization-server"] = self.grants.says()
            found = known.get(request.path)
            request.send(404 if found is None else 200, found or {})
            return True
        if self.redirect is not None:
            request.send(self.redirect[0], {}, location=self.redirect[1])
            return True
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        self.tokens.append(token)
        grant = self.grants.takes(token, self.address)
        if grant is None:
            header = self.header or f'Bearer resource_metadata="{self.url}{PROTECTED}", scope="read"'
            request.send(401, {}, **{"www-authenticate": header})
            return True
        lacks = message.get("params", {}).get("name") == "change" and "write" not in grant.scope.split()
        if lacks:
            header = 'Bearer error="insufficient_scope", scope="read write"'
            request.send(403, {}, **{"www-authenticate": header})
        return lacks

    def metadata(self) -> dict[str, Any]:
        return {
            "resource": self.address,
            "authorization_servers": [self.grants.url],
            "scopes_supported": ["read", "write"],
            **(self.says or {}),
        }


@contextmanager
def tools_with_login() -> Iterator[Tools]:
    """Run a server of tools and its authorization server until the block ends."""
    with authorization_server() as grants:
        tools = Tools(grants)
        with served(tools.judge) as (_, url):
            tools.url = url
            yield tools


class _Stays(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def visited(address: str) -> tuple[int, str, str]:
    """Open an address as a browser does, without following it on: the status, its target, and the page."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stays)
    try:
        with opener.open(address, timeout=10) as answer:
            return answer.status, "", answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers.get("location", ""), error.read().decode()


Browser = Callable[[Attempt], Sequence[str]]
"""Returns the addresses that a browser opens one after the other, for an attempt."""


def agreeing(attempt: Attempt) -> Sequence[str]:
    """A person who says yes."""
    status, target, _ = visited(attempt.address)
    assert status == 302
    return [target]


class Person:
    """A front end whose person opens addresses, or pastes lines instead."""

    def __init__(self, browser: Browser, pastes: Sequence[str] | None) -> None:
        self._browser = browser
        self._lines = None if pastes is None else iter(pastes)
        self.attempt: Attempt | None = None
        self.complaints: list[LoginError] = []
        self.pages: list[tuple[int, str, str]] = []

    async def show(self, attempt: Attempt) -> None:
        self.attempt = attempt
        await trio.lowlevel.checkpoint()

    async def line(self) -> str | None:
        assert self.attempt is not None
        found = await trio.to_thread.run_sync(self._browser, self.attempt)
        if self._lines is not None:
            return next(self._lines, "").replace("ANSWER", found[-1]) or None
        for address in found:
            self.pages.append(await trio.to_thread.run_sync(visited, address))
        return None

    def complain(self, error: LoginError) -> None:
        self.complaints.append(error)


async def logged_in(
    settings: ServerSettings, home: Path, browser: Browser = agreeing, pastes: Sequence[str] | None = None
) -> tuple[ServerLogin, Person]:
    """Log in as `rumi mcp login` does. Lines that are pasted have the answer's address for `ANSWER`."""
    person = Person(browser, pastes)
    with trio.fail_after(20):
        return await log_in(settings, home, "en", person), person
