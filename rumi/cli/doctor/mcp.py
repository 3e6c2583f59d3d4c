"""Checks of servers that bring tools. They start no server: `rumi mcp test` does."""

from rumi.agent.mcp.bwrap import find
from rumi.agent.mcp.messages import ServerSettings
from rumi.app.settings import mcp_settings_of
from rumi.cli.doctor.check import Check
from rumi.errors import RumiError
from rumi.platform.config.cascade import Loaded


def mcp(loaded: Loaded) -> list[Check]:
    """Check that each server's command and variables are there; warn of those without a sandbox. Blocking."""
    return [_checked(server) for server in mcp_settings_of(loaded)]


def _checked(server: ServerSettings) -> Check:
    name = f"mcp {server.name}"
    try:
        if server.fault is not None:
            raise server.fault
        if server.command:
            find(server.command)
    except RumiError as error:
        return Check(name, "failure", error.message, error.advice)
    if server.command and not server.sandbox:
        found = f"{server.name} runs without a sandbox and can read and change all that this user can"
        return Check(name, "warning", found, f"In config.toml: [mcp.{server.name}] sandbox = true")
    if server.url and server.url.startswith("http://") and server.headers and "//127.0.0.1" not in server.url:
        found = f"{server.name} gets its headers over http, which others may read on the way"
        return Check(name, "warning", found, "Use https.")
    return Check(name, "ok", f"configured; rumi mcp test {server.name} tries it")
