"""All clients of the process through real proxies on loopback; no name is resolved here."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx
import httpx2
import pytest
import trio
import trustme
from trio.testing import MockClock

from rumi.channels.telegram.api.bot import introduce, open_bot
from rumi.models.chain import Chain, ChainStep
from rumi.models.chat_completions import ChatCompletions
from rumi.models.model import Message, ModelError, ModelRequest
from rumi.models.server import ModelServer
from rumi.platform import http
from rumi.web.search.api import Tavily
from rumi.web.search.provider import SearchQuery
from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.groq_replies import Answer
from tests.fakes.groq_server import serve_groq
from tests.fakes.proxy_servers import Fault, serve_proxy
from tests.fakes.search_servers import Give, serve_api
from tests.fakes.telegram_server import serve_telegram

HELLO = ModelRequest((Message("user", "hi"),))
QUERY = SearchQuery("pan casero", 5, "general")
Kind = Literal["socks", "http"]
SCHEMES: dict[Kind, str] = {"socks": "socks5h", "http": "http"}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@asynccontextmanager
async def model_named(url: str) -> AsyncIterator[Chain]:
    server = ModelServer("custom:far", url, "", dialect="openai")
    try:
        yield Chain([ChainStep(ChatCompletions(server, "m", name="custom:far", timeout_s=60))], chat="c")
    finally:
        await server.aclose()


@pytest.mark.parametrize("kind", ["socks", "http"])
async def test_a_model_is_called_through_the_proxy_by_its_name(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_groq(Answer("far"), key=None) as fake:
        port = int(fake.base_url.rpartition(":")[2])
        async with serve_proxy(kind, port, user="me", password="p@ss") as proxy:
            monkeypatch.setenv("ALL_PROXY", f"{SCHEMES[kind]}://me:p%40ss@{proxy.address}")
            monkeypatch.setenv("NO_PROXY", "[::1],fd00::/8,10.0.0.0/8,localhost:80,<local>")
            async with model_named("http://models.example/v1") as chain:
                for _ in range(3):
                    assert (await chain.reply(HELLO, lambda _: None)).text == "far"
    assert set(proxy.asked) == {("models.example", 80)}


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "socks"])
async def test_the_socks_proxy_resolves_the_name_with_either_scheme(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_groq(Answer("far"), key=None) as fake:
        async with serve_proxy("socks", int(fake.base_url.rpartition(":")[2])) as proxy:
            monkeypatch.setenv("HTTP_PROXY", f"{scheme}://{proxy.address}")
            async with model_named("http://no-such-name.invalid:8000/v1") as chain:
                assert (await chain.reply(HELLO, lambda _: None)).text == "far"
    assert (proxy.asked, proxy.kinds) == ([("no-such-name.invalid", 8000)], ["name"])


@pytest.mark.parametrize("kind", ["socks", "http"])
async def test_a_search_provider_is_asked_through_the_proxy_with_its_own_certificate(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca, tls = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("api.tavily.com").configure_cert(tls)
    async with serve_api(lambda _: Give({"results": []}, 200), tls) as server:
        async with serve_proxy(kind, server.port) as proxy:
            monkeypatch.setenv("HTTPS_PROXY", f"{SCHEMES[kind]}://{proxy.address}")
            with ca.cert_pem.tempfile() as trusted:
                assert await Tavily("tvly-1", timeout_s=5, ca_file=trusted).search(QUERY) == ()
    assert proxy.asked == [("api.tavily.com", 443)]


@pytest.mark.parametrize("kind", ["socks", "http"])
async def test_telegram_is_reached_through_the_proxy(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve_telegram(BotApi(trio.current_time)) as server:
        async with serve_proxy(kind, int(server.root.rpartition(":")[2])) as proxy:
            monkeypatch.setenv("ALL_PROXY", f"{SCHEMES[kind]}://{proxy.address}")
            monkeypatch.setenv("NO_PROXY", "localhost,[::1],fd00::/8")
            async with open_bot(TOKEN, "http://telegram.example") as bot:
                assert (await introduce(bot)).username == "rumi_test_bot"
    assert proxy.asked[0] == ("telegram.example", 80)


@pytest.mark.parametrize("library", [httpx, httpx2])
@pytest.mark.parametrize("kind", ["socks", "http"])
async def test_both_http_libraries_use_the_proxy(
    kind: Kind, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_groq(Answer("x"), key=None, models=["m"]) as fake:
        async with serve_proxy(kind, int(fake.base_url.rpartition(":")[2])) as proxy:
            monkeypatch.setenv("HTTP_PROXY", f"{SCHEMES[kind]}://{proxy.address}")
            client: Any = await http.client(lambda: library.AsyncClient, http.Tls(), library=library)
            async with client:
                answer = await client.get("http://tools.example:81/v1/models")
                assert answer.json()["data"] == [{"id": "m"}]
                direct = await client.get(f"{fake.base_url}/v1/models")
                assert direct.status_code == 200
    assert proxy.asked == [("tools.example", 81)]


@pytest.mark.parametrize("library", [httpx, httpx2])
@pytest.mark.parametrize("fault", ["silent", "refuses", "wrong password", "http", "closes", "nonsense"])
async def test_a_socks_proxy_that_fails_is_an_error_of_the_proxy(
    fault: Fault, library: Any, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    mock_clock.rate = 200
    user = "me" if fault == "wrong password" else ""
    async with serve_proxy("socks", 9, user=user, password="canary-2", fault=fault) as proxy:
        before = "me:canary-1@" if user else ""
        monkeypatch.setenv("ALL_PROXY", f"socks5://{before}{proxy.address}")
        kind: Any = library.AsyncClient
        client: Any = await http.client(lambda: kind, http.Tls(), library=library, timeout=None)
        async with client:
            with pytest.raises(library.TransportError) as caught, trio.fail_after(600):
                await client.get("http://far.example/")
    assert "canary" not in str(caught.value)


async def test_a_model_behind_a_broken_proxy_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve_proxy("http", 9, user="me", password="x") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:canary-1@{proxy.address}")
        server = ModelServer("custom:far", "https://models.example/v1", "", dialect="openai")
        with pytest.raises(ModelError) as caught:
            await ChatCompletions(server, "m", name="custom:far", timeout_s=5).reply(HELLO, lambda _: None)
        await server.aclose()
    assert caught.value.kind == "unreachable"
    assert "through the proxy of HTTPS_PROXY" in caught.value.message
    assert "canary" not in str(caught.value)


async def test_a_client_without_proxies_has_no_transport_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "[::1],fd00::/8,<local>,:,[")
    async with await http.client(http.plain, http.Tls()) as client:
        assert isinstance(client._transport, httpx.AsyncHTTPTransport)
        assert client._mounts == {}
