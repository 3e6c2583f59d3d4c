"""`rumi mcp login` and `rumi mcp logout`."""

import os
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from rumi.cli import run_async
from rumi.cli.asking import when_free
from rumi.cli.mcp_servers import named, servers_of
from rumi.cli.printing import echo
from rumi.cli.speaking import reader, say, translate
from rumi.errors import RumiError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rumi.agent.mcp.messages import ServerSettings
    from rumi.agent.mcp.oauth.flow import Attempt
    from rumi.agent.mcp.oauth.requests import LoginError
    from rumi.platform.home import Home

OPEN_S: Final = 5.0
"""Maximum time to start a browser, in seconds."""


@click.command()
@click.argument("name")
@click.option("--no-browser", is_flag=True, help="Open no browser, only print the address.")
def login(name: str, no_browser: bool) -> None:
    """Log in to server NAME, which has an address (OAuth).

    The address to open is printed. On a machine without a browser, open it elsewhere, and paste the address
    at which the browser ends.
    """
    from rumi.platform.extras import require_extra
    from rumi.platform.home import Home

    root, servers = servers_of()
    settings = named(servers, name)
    _check(settings)
    require_extra("mcp")
    from rumi.agent.mcp.oauth.login import log_in

    home = Home(root).make()
    done = run_async(log_in, settings, home.root, reader(), _Terminal(name, browser=not no_browser))
    until = done.report()["until"]
    if done.refresh or not until:
        say("Logged in to {name}. Rumi renews the login by itself.", name=name)
    else:
        say("Logged in to {name} until {until}. Then log in again.", name=name, until=until)
    _reconnect(home, name)


@click.command()
@click.argument("name")
def logout(name: str) -> None:
    """Revoke and delete the login at server NAME."""
    from rumi.platform.home import Home

    root, _ = servers_of()
    home = Home(root).make()
    if not forget_login(home, name):
        raise UsageError("There is no login at {name}.", "rumi mcp list shows the logins.", name=name)
    say("Logged out of {name}.", name=name)


def forget_login(home: "Home", name: str) -> bool:
    """Revoke the login at a server, if its authorization server offers that, and delete it.

    Return False if there is none.
    """
    from rumi.agent.mcp.oauth.logins import StoredLogins

    if name not in StoredLogins(home.root).names():
        return False
    from rumi.platform.extras import require_extra

    require_extra("mcp")
    from rumi.agent.mcp.oauth.login import log_out

    if (error := run_async(log_out, home.root, name)) is not None:
        say("The login was not revoked, so its tokens end by themselves. {why}", why=error.text, err=True)
    return True


def _check(settings: "ServerSettings") -> None:
    if not settings.section.url:
        raise UsageError(
            "The server {name} is a command, which gets its secrets in variables.",
            "See docs/mcp.md: env.",
            name=settings.name,
        )
    if settings.fault is not None:
        raise settings.fault
    if any(header.lower() == "authorization" for header in settings.section.headers):
        raise UsageError(
            "The server {name} gets the header Authorization of config.toml, so it needs no login.",
            "Remove it from mcp.{name}.headers to log in instead.",
            name=settings.name,
        )


class _Terminal:
    """The front end of a login: it prints, reads lines, and opens a browser; see `LoginView`."""

    def __init__(self, name: str, *, browser: bool) -> None:
        from rumi.channels.terminal.streams import InputStream

        self._name = name
        self._browser = browser
        self._input = InputStream(0)

    async def show(self, attempt: "Attempt") -> None:
        """Print where to log in, with what rights, and how the answer comes back."""
        from rumi.agent.mcp.oauth.discovery import shown_scopes

        scopes = shown_scopes(attempt.scope.split())
        say("{name} wants you to log in at {issuer}.", name=self._name, issuer=attempt.login.issuer)
        if scopes:
            say("It asks for these rights: {scopes}", scopes=scopes)
        say("Open this address in a browser:")
        echo(f"\n{attempt.address}\n")
        say(
            "Waiting for the answer. A browser on another machine ends at an address that begins with "
            "{redirect_uri}, and shows an error: paste that address here.",
            redirect_uri=attempt.redirect_uri,
        )
        if self._browser:
            await _open(attempt.address)

    async def line(self) -> str | None:
        """Return the next line of the standard input."""
        return await self._input.line()

    def complain(self, error: "LoginError") -> None:
        """Print why a line was not the answer."""
        echo(translate(error.text), err=True)


async def _open(address: str) -> None:
    """Open the user's browser if this machine has a screen: one in the terminal would hide the address."""
    import trio

    if sys.platform != "darwin" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return
    import webbrowser

    with trio.move_on_after(OPEN_S):
        await trio.to_thread.run_sync(webbrowser.open, address, abandon_on_cancel=True)


def _reconnect(home: "Home", name: str) -> None:
    """Have a running Rumi use the login at once."""
    if not home.lock_holder():
        return
    try:
        state: Any = run_async(when_free, home, "mcp", _nothing, {"do": "reconnect", "name": name})
    except RumiError as error:  # a Rumi that was started before the server was added
        echo(translate(error.text), err=True)
        return
    if state:
        say("The running Rumi uses it.")


async def _nothing(home: "Home", request: "Mapping[str, object]") -> object:
    import trio

    await trio.lowlevel.checkpoint()
    return {}
