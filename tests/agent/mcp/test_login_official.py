"""A login at the official library's server, which checks tokens as it checks those of other clients."""

import socket
from functools import partial
from pathlib import Path

import pytest
import trio

from rumi.agent.mcp.messages import LoginNeeded, ServerSettings
from rumi.agent.mcp.servers import try_once
from rumi.platform.config.schema import McpSection
from tests.agent.mcp.oauth_world import logged_in
from tests.agent.mcp.world import house
from tests.fakes.authorization_server import AuthorizationServer, authorization_server


async def serve(grants: AuthorizationServer, task_status: trio.TaskStatus[str]) -> None:
    """Serve one tool to those who are logged in."""
    from hypercorn.config import Config
    from hypercorn.trio import serve
    from mcp.server.auth.provider import AccessToken
    from mcp.server.auth.settings import AuthSettings
    from mcp.server.mcpserver import MCPServer
    from pydantic import AnyHttpUrl

    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    address = f"http://127.0.0.1:{port}/mcp"

    class Verifier:
        async def verify_token(self, token: str) -> AccessToken | None:
            await trio.lowlevel.checkpoint()
            grant = grants.takes(token, address)
            if grant is None:
                return None
            return AccessToken(
                token=token, client_id=grant.client, scopes=grant.scope.split(), resource=address
            )

    auth = AuthSettings(
        issuer_url=AnyHttpUrl(grants.url),
        resource_server_url=AnyHttpUrl(address),
        required_scopes=["read"],
        validate_token_resource=True,
    )
    server = MCPServer("official", token_verifier=Verifier(), auth=auth)

    @server.tool()
    async def echo(text: str) -> str:
        """Return the text."""
        await trio.lowlevel.checkpoint()
        return text

    config = Config()
    config.bind = [f"fd://{listening.detach()}"]
    config.loglevel = "ERROR"
    app = server.streamable_http_app()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, app, config))
        task_status.started(address)


async def test_the_official_server_takes_our_login_and_its_renewal(tmp_path: Path) -> None:
    with authorization_server() as grants:
        async with trio.open_nursery() as nursery:
            url = await nursery.start(serve, grants)
            settings = ServerSettings("web", McpSection(url=url, start_timeout_s=20.0))
            with pytest.raises(LoginNeeded):
                await try_once(settings, tmp_path, accept=False)
            login, _ = await logged_in(settings, tmp_path)
            assert (login.scope, login.resource) == ("read", url)
            async with house(tmp_path, settings) as here:
                assert "hello" in (await here.call("web__echo", text="hello")).content
                grants.grants[0].ends = 0.0
                assert "again" in (await here.call("web__echo", text="again")).content
                assert grants.counts("/token") == 2
            nursery.cancel_scope.cancel()
