"""`rumi mcp serve`, and the MCP endpoint for programs that connect over HTTP."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import click

from rumi.cli import run_async
from rumi.cli.chat import attach_to_home
from rumi.cli.daemon import Launch, attached_to_daemon, launch_daemon
from rumi.cli.research import connected_to

if TYPE_CHECKING:
    from rumi.channels.attach.client import RemoteChat
    from rumi.channels.attach.connection import ControlClient
    from rumi.channels.mcp import McpEndpoint
    from rumi.platform.config.cascade import Loaded
    from rumi.platform.home import Home
    from rumi.texts import Language

T = TypeVar("T")

LEAST_TOKEN: Final = 16
"""Minimum length of a token, in characters."""


@click.command()
@click.option("--trusted", is_flag=True, help="What the program says counts as what you say.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def serve(trusted: bool, debug: bool) -> None:
    """Serve one program over standard input and output, until it closes them.

    Its tools are ask, research_web, research_repo, tasks, remember and recall. What the program says counts
    as words from outside, and what needs your yes is refused. Programs that come over HTTP use the page's
    server: set MCP_TOKEN in the environment or in .env, and start Rumi with --web.
    """
    run_async(_serve, launch_daemon("mcp", {}), trusted)


async def _serve(launch: Launch, trusted: bool) -> None:
    import trio

    from rumi.platform.extras import require_extra

    require_extra("mcp")
    from rumi.channels.mcp import MOST_CALLS, McpService, serve_stdio

    daemon = _DaemonAccess(launch.home, launch.language, launch)
    await serve_stdio(McpService(daemon, launch.language, trusted, trio.CapacityLimiter(MOST_CALLS)))


def endpoint_of(home: "Home", loaded: "Loaded", language: "Language") -> "McpEndpoint | None":
    """Return the MCP endpoint for programs that connect over HTTP; None if no token is configured.

    Raises:
        ConfigError: The token is too short, or not ASCII.
        MissingExtra: The extra `mcp` is not installed.
    """
    if loaded.secrets.mcp_token is None:
        return None
    import trio

    from rumi.errors import ConfigError
    from rumi.platform.extras import require_extra

    require_extra("mcp")
    from rumi.channels.mcp import MOST_CALLS, McpEndpoint, McpService

    token = loaded.secrets.mcp_token.reveal()
    if len(token) < LEAST_TOKEN or not token.isascii():
        raise ConfigError(
            "MCP_TOKEN is too short, or it has characters that are not ASCII.",
            "Make one with: openssl rand -hex 32",
        )

    def service() -> McpService:
        return McpService(_DaemonAccess(home, language), language, False, trio.CapacityLimiter(MOST_CALLS))

    return McpEndpoint(token, service)


@dataclass(frozen=True, slots=True)
class _DaemonAccess:
    """Access to the daemon. If `launch` is True, each call starts a daemon if none runs."""

    home: "Home"
    language: "Language"
    launch: Launch | None = None

    def client(self) -> "AbstractAsyncContextManager[ControlClient]":
        """Connect to the daemon's control socket with a program's rights, limited to its owner's data."""
        from rumi.platform.caller import PROGRAM

        return self._connected(partial(connected_to, PROGRAM))

    def attach(self, chat: str, *, tainted: bool) -> "AbstractAsyncContextManager[RemoteChat]":
        """Attach a program to a chat. `tainted` is True if the program's messages are untrusted."""
        from rumi.channels.attach.client import OpenRequest
        from rumi.platform.caller import PROGRAM

        request = OpenRequest(chat, person=False, language=self.language, single=True, tainted=tainted)
        return self._connected(partial(attach_to_home, PROGRAM, request))

    @asynccontextmanager
    async def _connected(
        self, attach: "Callable[[Home], AbstractAsyncContextManager[T]]"
    ) -> "AsyncIterator[T]":
        if self.launch is None:
            async with attach(self.home) as found:
                yield found
            return
        async with attached_to_daemon(self.launch, attach) as reached:
            assert reached is not None, "nobody leaves while it waits"
            yield reached
