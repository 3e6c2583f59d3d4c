"""Tokens of logins in use: renewal, rotation, missing rights, ended logins, and where tokens go."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
import trio
import trio.testing

from actors import Backoff
from rumi.agent.mcp import servers
from rumi.agent.mcp.messages import McpError, ServerSettings
from rumi.agent.mcp.oauth import bearer
from rumi.agent.mcp.oauth.logins import StoredLogins
from rumi.agent.mcp.servers import try_once
from rumi.platform.caller import TERMINAL, Caller, NotAllowed
from rumi.platform.chat_ids import LOCAL
from rumi.platform.threads import Threads
from tests.agent.mcp.oauth_world import Tools, logged_in, tools_with_login
from tests.agent.mcp.test_remote import Odd, served
from tests.agent.mcp.world import House, house, until
from tests.fakes.authorization_server import answering


@pytest.fixture
def tools() -> Iterator[Tools]:
    with tools_with_login() as found:
        yield found


async def aged(settings: ServerSettings, home: Path, tools: Tools, *, known: bool = True) -> None:
    """Let the access token end; if not `known`, without Rumi's knowledge."""
    tools.grants.grants[0].ends = 0.0
    logins = StoredLogins(home)
    login = logins.of(settings)
    assert login is not None
    if known:
        logins.save("web", replace(login, expires=time.time()))


async def looked(house: House) -> None:
    assert (await house.call("web__look")).ok


@pytest.mark.parametrize("known", [True, False])
async def test_a_token_that_ends_is_renewed_once_for_all_calls(
    tmp_path: Path, tools: Tools, known: bool
) -> None:
    settings = tools.settings()
    await logged_in(settings, tmp_path)
    async with house(tmp_path, settings) as here, house(tmp_path, settings) as other:
        assert (await here.call("web__look")).ok
        assert (await other.call("web__look")).ok
        for turn in range(2):
            await aged(settings, tmp_path, tools, known=known)
            async with trio.open_nursery() as nursery:
                for place in [here, other] * 3:
                    nursery.start_soon(looked, place)
            # A second renewal with the same token would have ended the login.
            assert tools.grants.counts("/token") == 2 + turn
    login = StoredLogins(tmp_path).of(settings)
    assert login is not None
    assert (login.access, login.refresh) == (tools.grants.grants[0].access, tools.grants.grants[0].refresh)
    assert login.scope == "read"


async def test_a_token_is_stored_before_it_is_used(tmp_path: Path, tools: Tools) -> None:
    settings = tools.settings()
    await logged_in(settings, tmp_path)
    await aged(settings, tmp_path, tools)
    seen = []
    judge = tools.grants.takes

    def takes(token: str, resource: str) -> object:
        seen.append((token, json.loads((tmp_path / "mcp-logins/web/login.json").read_text())["access"]))
        return judge(token, resource)

    tools.grants.takes = takes  # type: ignore[assignment,method-assign]
    await try_once(settings, tmp_path, accept=False)
    assert seen
    assert all(sent == stored for sent, stored in seen)


async def test_a_renewal_that_is_cancelled_keeps_its_tokens(tmp_path: Path, tools: Tools) -> None:
    settings, asked, answered = tools.settings(), trio.Event(), trio.Event()
    await logged_in(settings, tmp_path)
    await aged(settings, tmp_path, tools)
    token = trio.lowlevel.current_trio_token()

    def slow(request: object) -> None:
        token.run_sync_soon(asked.set)
        time.sleep(0.2)
        given = tools.grants.gives(tools.grants.heard[-1][1], "")
        token.run_sync_soon(answered.set)
        request.send(*given)  # type: ignore[attr-defined]

    tools.grants.faults["/token"] = slow
    async with trio.open_nursery() as nursery:

        async def trying() -> None:
            await try_once(settings, tmp_path, accept=False)

        nursery.start_soon(trying)
        await asked.wait()
        nursery.cancel_scope.cancel()
    await answered.wait()  # from now on, the first tokens are invalid
    login = StoredLogins(tmp_path).of(settings)
    assert login is not None
    assert login.refresh == tools.grants.grants[0].refresh


async def test_a_server_that_does_not_rotate_keeps_the_first_token(tmp_path: Path, tools: Tools) -> None:
    settings, tools.grants.rotates = tools.settings(), False
    login, _ = await logged_in(settings, tmp_path)
    await aged(settings, tmp_path, tools)
    await try_once(settings, tmp_path, accept=False)
    renewed = StoredLogins(tmp_path).of(settings)
    assert renewed is not None
    assert renewed.refresh == login.refresh
    assert renewed.access != login.access


async def test_a_refused_renewal_ends_the_login_and_says_what_to_do(tmp_path: Path, tools: Tools) -> None:
    settings = tools.settings()
    await logged_in(settings, tmp_path)
    async with house(tmp_path, settings) as here:
        assert (await here.call("web__look")).ok
        tools.grants.grants.clear()
        result = await here.call("web__look")
        assert not result.ok
        assert "The login at the server has ended." in result.content
        assert "IGNORE" not in result.content
        assert result.advice == "Log in with: rumi mcp login web"
        assert here.servers.report()[0]["login"]["state"] == "needs login"
        text = (tmp_path / "mcp-logins/web/login.json").read_text()
        assert "access-" not in text
        assert "refresh-" not in text
        count = tools.grants.counts("/token")
        assert not (await here.call("web__look")).ok
        assert tools.grants.counts("/token") == count  # what has ended is not tried again


@pytest.mark.parametrize(
    "fault",
    [answering(503, {}), answering(429, {}), answering(200, b"<html>"), answering(302, {}, location="/x")],
)
async def test_an_authorization_server_in_trouble_ends_no_login(
    tmp_path: Path, tools: Tools, fault: object
) -> None:
    settings = tools.settings()
    await logged_in(settings, tmp_path)
    await aged(settings, tmp_path, tools)
    tools.grants.faults["/token"] = fault  # type: ignore[assignment]
    with pytest.raises(McpError, match="could not be renewed"):
        await try_once(settings, tmp_path, accept=False)
    del tools.grants.faults["/token"]
    await try_once(settings, tmp_path, accept=False)


async def test_missing_rights_are_asked_for_at_the_next_login(tmp_path: Path, tools: Tools) -> None:
    settings = tools.settings()
    await logged_in(settings, tmp_path)
    async with house(tmp_path, settings) as here:
        result = await here.call("web__change")
        assert not result.ok
        assert "The login lacks rights" in result.content
        assert result.advice == "Log in with: rumi mcp login web"
        login, person = await logged_in(settings, tmp_path)
        assert person.attempt is not None
        assert (person.attempt.scope, login.scope) == ("read write", "read write")
        assert (await here.call("web__change")).ok  # the running server has the new tokens


async def test_a_running_server_takes_a_login_without_a_restart(
    tmp_path: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "BACKOFF", Backoff(first_s=3600.0, factor=1.0, cap_s=3600.0))
    settings = tools.settings()
    async with house(tmp_path, settings) as here:
        assert await here.tools() == {}
        assert here.servers.report()[0]["login"]["state"] == "needs login"
        await logged_in(settings, tmp_path)
        with pytest.raises(NotAllowed):
            await here.servers.reconnect(Caller("telegram", "tg7", "all"), name="web")
        report = await here.servers.reconnect(TERMINAL, name="web")
        assert report["state"] == "ready"  # type: ignore[index]
        assert (await here.call("web__look")).ok


async def test_only_the_owner_of_the_home_forgets_its_logins(tmp_path: Path, tools: Tools) -> None:
    settings = tools.settings()
    await logged_in(settings, tmp_path)
    async with house(tmp_path, settings) as here:
        assert await here.servers.forget_logins("tg7") == 0
        assert StoredLogins(tmp_path).names() == ["web"]
        assert await here.servers.forget_logins(LOCAL) == 1
        assert StoredLogins(tmp_path).names() == []
        assert await here.servers.forget_logins(LOCAL) == 0


async def test_a_logout_waits_for_a_renewal_and_nothing_comes_back(tmp_path: Path, tools: Tools) -> None:
    settings = tools.settings()
    await logged_in(settings, tmp_path)
    logins = StoredLogins(tmp_path)
    async with house(tmp_path, settings) as here, trio.open_nursery() as nursery:
        async with logins.locked("web"):
            nursery.start_soon(here.servers.forget_logins, LOCAL)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert logins.names() == ["web"]
        await until(lambda: not logins.names())


async def test_no_token_goes_to_another_origin(tmp_path: Path, tools: Tools) -> None:
    settings = tools.settings()
    await logged_in(settings, tmp_path)
    guarded = bearer.Bearer(settings, tmp_path, Threads())
    for url in ("http://127.0.0.1:1/mcp", tools.url.replace("http", "https"), "http://localhost:80/mcp"):
        request = httpx2.Request("POST", url)
        assert await guarded.authorize(request) == ""
        assert "authorization" not in request.headers
    request = httpx2.Request("POST", f"{tools.url}/elsewhere")
    assert await guarded.authorize(request)
    with_header = bearer.Bearer(replace(settings, headers={"authorization": "Bearer x"}), tmp_path, Threads())
    assert await with_header.authorize(httpx2.Request("POST", tools.address)) == ""


async def test_no_redirect_takes_a_token_along(tmp_path: Path, tools: Tools) -> None:
    settings, seen = tools.settings(), []
    await logged_in(settings, tmp_path)

    def elsewhere(request: Odd, message: object) -> bool:
        seen.append(request.headers.get("authorization"))
        return False

    with served(elsewhere) as (_, url):
        for status in (301, 302, 307, 308):
            tools.redirect = (status, f"{url}/mcp")
            with pytest.raises(McpError, match=r"has moved to http://127\.0\.0\.1"):
                await try_once(settings, tmp_path, accept=False)
    assert not any(seen)


async def test_a_login_that_cannot_be_read_is_told(tmp_path: Path, tools: Tools) -> None:
    settings = tools.settings()
    await logged_in(settings, tmp_path)
    (tmp_path / "mcp-logins/web/login.json").write_text("{")
    with pytest.raises(McpError, match=r"login\.json cannot be read"):
        await try_once(settings, tmp_path, accept=False)
