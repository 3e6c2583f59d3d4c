"""A login and a logout at a server of tools, for a front end."""

from pathlib import Path
from typing import Protocol

from rumi.agent.mcp.messages import McpError, ServerSettings
from rumi.agent.mcp.oauth.answers import answer_port, code_of
from rumi.agent.mcp.oauth.discovery import challenge_of, discover
from rumi.agent.mcp.oauth.flow import Attempt, begun
from rumi.agent.mcp.oauth.logins import ServerLogin, StoredLogins
from rumi.agent.mcp.oauth.requests import LoginError, LoginRequests
from rumi.agent.mcp.oauth.tokens import revoke
from rumi.errors import UsageError
from rumi.texts import Language


class LoginView(Protocol):
    """What a front end does in a login."""

    async def show(self, attempt: Attempt) -> None:
        """Show the address to open, the authorization server and the rights, and perhaps open a browser."""
        ...

    async def line(self) -> str | None:
        """Return the next line that a person enters, which may be the answer; None if there will be none."""
        ...

    def complain(self, error: LoginError) -> None:
        """Show why a line was not the answer."""
        ...


async def log_in(settings: ServerSettings, home: Path, language: Language, view: LoginView) -> ServerLogin:
    """Log in to a server, and store the login. On cancellation, nothing has changed.

    If the server has lacked rights before, the login asks for them too.

    Raises:
        UsageError: The server works without a login.
        LoginError: The login failed, or was refused.
        McpError: The login cannot be stored.
    """
    name, section = settings.name, settings.section
    requests, logins = LoginRequests(section.url), StoredLogins(home)
    await requests.check(section.url)  # the tokens will go there
    challenge = await challenge_of(settings)
    try:
        server = await discover(requests, section.url, challenge)
    except LoginError:
        if challenge.status < 300:
            raise UsageError(
                "The server {name} works without a login.", "Try it with: rumi mcp test {name}", name=name
            ) from None
        raise
    before = logins.of(settings)
    wanted = f"{before.scope} {before.wanted}".split() if before is not None and before.wanted else []
    async with answer_port(section.redirect_uri) as port:
        attempt = await begun(requests, settings, server, port.redirect_uri, wanted)
        await view.show(attempt)
        code = await code_of(attempt, port, language, view.line, view.complain)
    login = await attempt.finished(requests, code)
    async with logins.locked(name):
        logins.save(name, login)
    return login


async def log_out(home: Path, name: str) -> McpError | None:
    """Revoke a login, if its authorization server offers that, and delete it in any case.

    Return why it could not be revoked, or None.

    Raises:
        McpError: The file of the login cannot be deleted.
    """
    logins = StoredLogins(home)
    async with logins.locked(name):  # a renewal that runs elsewhere ends first, so its tokens are revoked too
        try:
            login = logins.stored(name)
            if login is not None and not login.ended:
                await revoke(LoginRequests(login.url), login)
        except McpError as error:
            return error
        finally:
            logins.forget(name)
    return None
