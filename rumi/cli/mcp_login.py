"""`rumi mcp login` and `rumi mcp logout`."""

import os
import sys
from typing import TYPE_CHECKING, Any

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
    from rumi.agent.mcp.oauth.logins import Login
    from rumi.agent.mcp.oauth.requests import LoginError
    from rumi.platform.home import Home


@click.command()
@click.argument("name")
@click.option("--no-browser", is_flag=True, help="Open no browser, only print the address.")
def login(name: str, no_browser: bool) -> None:
    """Log in to server NAME, which has an address (OAuth).

    The address to open is printed. On a machine without a browser, open it elsewhere, and paste the address
    at which the browser ends.
    """
    from rumi.platform.home import Home

    root, servers = servers_of()
    settings = named(servers, name)
    _check(settings)
    home = Home(root).make()
    done = run_async(_log_in, settings, home, not no_browser)
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
    return run_async(_log_out, home, name)


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


async def _log_in(settings: "ServerSettings", home: "Home", browser: bool) -> "Login":
    from rumi.agent.mcp.oauth.answers import answer_port, code_of
    from rumi.agent.mcp.oauth.discovery import challenge_of, discover
    from rumi.agent.mcp.oauth.flow import begun
    from rumi.agent.mcp.oauth.logins import Logins
    from rumi.agent.mcp.oauth.requests import LoginError, LoginRequests
    from rumi.channels.terminal.streams import InputStream

    logins, section = Logins(home.root), settings.section
    requests = LoginRequests(section.url)
    challenge = await challenge_of(settings)
    try:
        server = await discover(requests, section.url, challenge)
    except LoginError:
        if challenge.status < 300:
            raise UsageError(
                "The server {name} works without a login.",
                "Try it with: rumi mcp test {name}",
                name=settings.name,
            ) from None
        raise
    before = logins.of(settings)
    wanted = f"{before.scope} {before.wanted}".split() if before is not None and before.wanted else []
    async with answer_port(section.redirect_uri) as port:
        attempt = await begun(requests, settings, server, port.redirect_uri, wanted)
        _show(settings, attempt, port.redirect_uri)
        if browser:
            await _open(attempt.address)
        code = await code_of(attempt, port, reader(), InputStream(0).line, _complain)
    done = await attempt.finished(requests, code)
    async with logins.locked(settings.name):
        logins.save(settings.name, done)
    return done


def _show(settings: "ServerSettings", attempt: "Attempt", redirect_uri: str) -> None:
    """Print where to log in, with what rights, and how the answer comes back."""
    from rumi.agent.mcp.oauth.discovery import shown_scopes

    scopes = shown_scopes(attempt.scope.split())
    say("{name} wants you to log in at {issuer}.", name=settings.name, issuer=attempt.login.issuer)
    if scopes:
        say("It asks for these rights: {scopes}", scopes=scopes)
    say("Open this address in a browser:")
    echo("")
    echo(attempt.address)
    echo("")
    say(
        "Waiting for the answer. A browser on another machine ends at an address that begins with "
        "{redirect_uri}, and shows an error: paste that address here.",
        redirect_uri=redirect_uri,
    )


def _complain(error: "LoginError") -> None:
    echo(translate(error.text), err=True)


async def _open(address: str) -> None:
    """Open the user's browser if this machine has a screen: one in the terminal would hide the address."""
    import trio

    if sys.platform != "darwin" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return
    import webbrowser

    with trio.move_on_after(OPEN_S):
        await trio.to_thread.run_sync(webbrowser.open, address, abandon_on_cancel=True)


OPEN_S = 5.0


async def _log_out(home: "Home", name: str) -> bool:
    from rumi.agent.mcp.oauth.logins import Logins
    from rumi.agent.mcp.oauth.requests import LoginError, LoginRequests

    logins = Logins(home.root)
    if name not in logins.names():
        return False
    async with logins.locked(name):
        try:
            stored = logins.stored(name)
            if stored is not None and not stored.ended:
                from rumi.agent.mcp.oauth.tokens import revoke

                await revoke(LoginRequests(stored.url), stored)
        except LoginError as error:
            say("The login was not revoked, so its tokens end by themselves. {why}", why=error.text, err=True)
        except RumiError as error:
            echo(translate(error.text), err=True)
        finally:
            logins.forget(name)
    return True


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
