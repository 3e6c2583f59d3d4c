"""Logins at servers of tools: how they begin, how their answer comes back, and how they end."""

import socket
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from rumi.agent.mcp.messages import LoginNeeded, ServerSettings
from rumi.agent.mcp.oauth import answers
from rumi.agent.mcp.oauth.flow import Attempt
from rumi.agent.mcp.oauth.login import log_out
from rumi.agent.mcp.oauth.logins import StoredLogins
from rumi.agent.mcp.oauth.requests import LoginError, LoginRequests
from rumi.agent.mcp.servers import try_once
from rumi.errors import UsageError
from rumi.platform import redact
from rumi.platform.config.schema import McpSection
from rumi.platform.redact import Redactor
from tests.agent.mcp.oauth_world import Tools, agreeing, logged_in, tools_with_login
from tests.agent.mcp.test_remote import ordinary, served
from tests.agent.mcp.world import house
from tests.fakes.authorization_server import answering


@pytest.fixture
def tools() -> Iterator[Tools]:
    with tools_with_login() as found:
        yield found


async def test_a_login_opens_a_server_that_wants_one(tmp_path: Path, tools: Tools) -> None:
    settings = tools.settings()
    with pytest.raises(LoginNeeded, match="Log in with: rumi mcp login web"):
        await try_once(settings, tmp_path, accept=False)
    login, person = await logged_in(settings, tmp_path)
    assert (login.scope, login.resource, login.issuer) == ("read", tools.address, tools.grants.url)
    assert person.pages == [(200, "", person.pages[0][2])]
    assert "You can close this page." in person.pages[0][2]
    async with house(tmp_path, settings) as here:
        assert (await here.call("web__look")).ok
        assert here.servers.report()[0]["login"]["state"] == "logged in"
    file = tmp_path / "mcp-logins" / "web" / "login.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_a_pasted_address_is_the_answer_too(tmp_path: Path, tools: Tools) -> None:
    pastes = ["not an answer", "http://127.0.0.1:1/callback?code=x&state=wrong", ' "ANSWER#fragment" ']
    login, person = await logged_in(tools.settings(), tmp_path, pastes=pastes)
    assert login.access
    said = [str(error.message) for error in person.complaints]
    assert said == ["This is not the answer of this login."] * 2


@pytest.mark.parametrize("methods", [["client_secret_basic"], ["client_secret_post", "none"], None])
async def test_a_registered_client_proves_itself_as_the_server_wants(
    tmp_path: Path, tools: Tools, methods: list[str] | None
) -> None:
    tools.grants.metadata["token_endpoint_auth_methods_supported"] = methods
    login, _ = await logged_in(tools.settings(), tmp_path)
    assert login.auth == ("client_secret_basic" if methods == ["client_secret_basic"] else "none")
    assert bool(login.client_secret) == (login.auth != "none")


async def test_a_client_of_the_configuration_needs_no_registration(tmp_path: Path, tools: Tools) -> None:
    tools.grants.metadata |= {"registration_endpoint": None}
    with pytest.raises(LoginError, match="registers no programs by itself"):
        await logged_in(tools.settings(), tmp_path)

    def browser(attempt: Attempt) -> Sequence[str]:
        tools.grants.clients["mine"] = {
            "redirect_uris": [attempt.redirect_uri], "client_secret": "hush-hush",
        }  # fmt: skip
        return agreeing(attempt)

    keys = {"client_id": "mine", "client_secret": "$S", "redirect_uri": "http://localhost/back"}
    login, person = await logged_in(tools.settings(**keys), tmp_path, browser)
    assert person.attempt is not None
    assert person.attempt.redirect_uri.startswith("http://localhost:")
    assert person.attempt.redirect_uri.endswith("/back")
    assert (login.client_id, login.auth) == ("mine", "client_secret_basic")
    assert tools.grants.counts("/register") == 0


async def test_the_address_of_a_document_is_a_client_where_the_server_takes_it(
    tmp_path: Path, tools: Tools
) -> None:
    document = "https://rumi.example/client.json"
    settings = tools.settings(client_id=document)
    with pytest.raises(LoginError, match="takes no documents as clients"):
        await logged_in(settings, tmp_path)
    tools.grants.metadata["client_id_metadata_document_supported"] = True

    def browser(attempt: Attempt) -> Sequence[str]:
        tools.grants.clients[document] = {"redirect_uris": [attempt.redirect_uri]}
        return agreeing(attempt)

    assert (await logged_in(settings, tmp_path, browser))[0].client_id == document


async def test_metadata_is_found_where_servers_have_it(tmp_path: Path, tools: Tools) -> None:
    tools.grants.faults["/.well-known/oauth-authorization-server"] = answering(404, {})
    login, _ = await logged_in(tools.settings(), tmp_path)  # OpenID Connect
    assert login.access
    tools.header = "Bearer"  # no address of metadata: the one that RFC 9728 makes of the server's address
    login, _ = await logged_in(tools.settings(), tmp_path)
    assert login.scope == "read write"  # no rights in the challenge: those of the metadata


async def test_a_server_of_an_older_specification_is_its_own_authorization_server(
    tmp_path: Path, tools: Tools
) -> None:
    tools.says, tools.header = None, "Bearer"
    with pytest.raises(LoginError, match="does not say where to log in"):
        await logged_in(tools.settings(), tmp_path)
    tools.is_own, tools.grants.metadata["issuer"] = True, tools.url
    login, _ = await logged_in(tools.settings(), tmp_path)
    assert (login.issuer, login.resource) == (tools.url, tools.address)


async def test_a_server_that_wants_no_login_says_so(tmp_path: Path, tools: Tools) -> None:
    with served(ordinary) as (_, url):
        tools.url = url
        with pytest.raises(UsageError, match="works without a login"):
            await logged_in(tools.settings(), tmp_path)


async def test_an_open_id_server_gives_what_renews_a_login(tmp_path: Path, tools: Tools) -> None:
    tools.grants.metadata["scopes_supported"] = ["openid", "offline_access", "email"]
    login, person = await logged_in(tools.settings(), tmp_path)
    assert login.scope == "read offline_access"
    assert person.attempt is not None
    assert "prompt=consent" in person.attempt.address
    login, _ = await logged_in(tools.settings(scopes=("write",)), tmp_path)
    assert login.scope == "write"  # the configuration decides


async def test_a_logout_revokes_and_deletes(tmp_path: Path, tools: Tools) -> None:
    login, _ = await logged_in(tools.settings(), tmp_path)
    assert tools.grants.takes(login.access, tools.address)
    assert await log_out(tmp_path, "web") is None
    assert tools.grants.takes(login.access, tools.address) is None
    assert StoredLogins(tmp_path).names() == []
    tools.grants.metadata["revocation_endpoint"] = None
    await logged_in(tools.settings(), tmp_path)
    error = await log_out(tmp_path, "web")
    assert "does not offer to revoke" in str(error)
    assert StoredLogins(tmp_path).names() == []


async def test_a_login_is_for_one_address_only(tmp_path: Path, tools: Tools) -> None:
    await logged_in(tools.settings(), tmp_path)
    other = tools.settings().section.model_copy(update={"url": f"{tools.url}/other"})
    moved = tools.settings().__class__("web", other)
    assert StoredLogins(tmp_path).of(moved) is None
    tools.tokens.clear()
    with pytest.raises(LoginNeeded):
        await try_once(moved, tmp_path, accept=False)
    assert set(tools.tokens) == {""}


async def test_everything_that_is_secret_is_hidden_everywhere(tmp_path: Path, tools: Tools) -> None:
    tools.grants.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
    earlier = Redactor(()).remembering()
    login, _ = await logged_in(tools.settings(), tmp_path)
    text = f"{login.access} {login.refresh} {login.client_secret}"
    for redactor in (earlier, Redactor(("another secret",))):
        assert redactor.known(text) == "[hidden] [hidden] [hidden]"
    assert not any(secret in repr(login) for secret in text.split())
    stream = Redactor(()).stream()
    assert login.access not in "".join([stream.feed(text[:20]), stream.feed(text[20:]), stream.end()])
    before = redact.LEARNED.generation
    assert StoredLogins(tmp_path).of(tools.settings()) == login
    assert redact.LEARNED.generation == before  # reading it again costs redactors nothing
    later, _ = await logged_in(tools.settings(), tmp_path)
    assert earlier.known(f"{login.access} {later.access}") == "[hidden] [hidden]"
    said = "It is token-of-another-process, of 2026."
    assert earlier.text(said) == said  # from now on, it is remembered
    file = tmp_path / "mcp-logins" / "web" / "login.json"  # another process renews the login
    file.write_text(file.read_text().replace(later.access, "token-of-another-process"))
    StoredLogins(tmp_path).of(tools.settings())
    assert earlier.text(said) == "It is [hidden], of 2026."


def spoiled(**changes: str | None) -> Any:
    """Return a browser whose answer is changed on its way; None leaves a field out."""

    def browser(attempt: Attempt) -> Sequence[str]:
        (target,) = agreeing(attempt)
        address, _, query = target.partition("?")
        fields = {**dict(parse_qsl(query)), **changes}
        kept = {name: value for name, value in fields.items() if value is not None}
        return [f"{address}?{urlencode(kept)}"]

    return browser


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"iss": "https://evil.example"}, "from another authorization server"),
        ({"iss": None}, "from another authorization server"),
        ({"error": "access_denied"}, "The login was refused."),
        ({"error": "server_error"}, "has answered with an error"),
        ({"code": None}, "has answered with an error"),
        ({"code": "guessed"}, "refuses: invalid_grant"),
    ],
)
async def test_an_answer_that_is_not_the_right_one_gives_no_login(
    tmp_path: Path, tools: Tools, changes: dict[str, str | None], why: str
) -> None:
    with pytest.raises(LoginError, match=why):
        await logged_in(tools.settings(), tmp_path, spoiled(**changes))
    assert StoredLogins(tmp_path).names() == []


async def test_a_wrong_state_ends_nothing_and_the_right_one_counts(tmp_path: Path, tools: Tools) -> None:
    def browser(attempt: Attempt) -> Sequence[str]:
        (wrong,) = spoiled(state="wrong")(attempt)
        address = attempt.redirect_uri
        twice = f"{address}?state={attempt.state}&state={attempt.state}&code=x"
        other = address.replace("/callback", "/other")
        return [address, other, wrong, twice, f"{address}?{'a' * 40_000}", *agreeing(attempt)]

    login, person = await logged_in(tools.settings(), tmp_path, browser)
    assert login.access
    assert [status for status, *_ in person.pages] == [400, 404, 400, 400, 400, 200]


async def test_a_code_is_taken_once(tmp_path: Path, tools: Tools) -> None:
    login, person = await logged_in(tools.settings(), tmp_path)
    assert person.attempt is not None
    (code,) = tools.grants.used_codes
    with pytest.raises(LoginError, match="invalid_grant"):
        await person.attempt.finished(LoginRequests(tools.address), code)
    assert tools.grants.takes(login.access, tools.address) is None  # the server ended what the code gave


async def test_silent_connections_to_the_port_do_not_hold_a_login(tmp_path: Path, tools: Tools) -> None:
    held: list[socket.socket] = []

    def browser(attempt: Attempt) -> Sequence[str]:
        port = urlsplit(attempt.redirect_uri).port or 0
        held.extend(socket.create_connection(("127.0.0.1", port)) for _ in range(5))
        held[0].sendall(b"GET /callback?code=")
        held[1].sendall(b"\x16\x03\x01 no HTTP\r\n\r\n")
        return agreeing(attempt)

    assert (await logged_in(tools.settings(), tmp_path, browser))[0].access
    for one in held:
        assert one.recv(10) == b""  # closed with the login
        one.close()


async def test_a_login_without_an_answer_ends_in_time(
    tmp_path: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "ANSWER_S", 0.05)
    with pytest.raises(LoginError, match="No answer of the login came in time"):
        await logged_in(tools.settings(), tmp_path, lambda attempt: [])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        uri = f"http://127.0.0.1:{taken.getsockname()[1]}/callback"
        with pytest.raises(LoginError, match="cannot be opened: Address already in use"):
            await logged_in(tools.settings(redirect_uri=uri), tmp_path)


@pytest.mark.parametrize(
    "url", ["http://192.168.1.5:8123/mcp", "http://tools.example/mcp", "https://169.254.169.254/"]
)
async def test_no_login_goes_over_a_network_in_the_clear(tmp_path: Path, url: str) -> None:
    settings = ServerSettings("web", McpSection(url=url))
    with pytest.raises(LoginError, match=r"not asked over http|is not public"):
        await logged_in(settings, tmp_path)
