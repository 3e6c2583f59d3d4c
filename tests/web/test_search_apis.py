"""Tavily and Kagi: what they are asked, what becomes of their answers, and where their keys never go."""

import json
import logging
import socket
import ssl
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trustme

from rumi.web.messages import FetchError, SearchResult
from rumi.web.search.api import Kagi, Tavily
from rumi.web.search.provider import SearchQuery
from tests.fakes.search_servers import Asked, Give, SearchServer, serve_api, serve_engines

KEY = "tvly-canary-0123456789abcdef"
QUERY = SearchQuery("pan casero", 5, "general")
NEWS = SearchQuery("pan casero", 5, "news")


def tavily(server: SearchServer, timeout_s: float = 5) -> Tavily:
    return Tavily(KEY, timeout_s=timeout_s, url=f"{server.url}/search")


def kagi(server: SearchServer, timeout_s: float = 5) -> Kagi:
    return Kagi(KEY, timeout_s=timeout_s, url=f"{server.url}/api/v1/search")


def gives(body: object = b"", status: int = 200, **more: Any) -> Callable[[Asked], Give]:
    return lambda _: Give(body, status, **more)


ITEM = {"title": "Pan", "url": "https://example.org/pan", "content": "Harina y agua", "score": 0.9}


async def test_tavily_is_asked_as_it_documents() -> None:
    async with serve_api(gives({"query": "…", "results": [ITEM], "response_time": 1.2})) as server:
        results = await tavily(server).search(QUERY)
    assert results == (SearchResult("Pan", "https://example.org/pan", "Harina y agua"),)
    asked = server.asked[0]
    assert (asked.method, asked.target) == ("POST", "/search")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {"query": "pan casero", "topic": "general", "max_results": 5}


@pytest.mark.parametrize("broken", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x80\x80"])
async def test_a_broken_byte_costs_an_answer_no_other_text(broken: bytes) -> None:
    body = json.dumps({"results": [{**ITEM, "title": "Größe @ Maß"}]}, ensure_ascii=False).encode()
    answer = body.replace(b"@", broken)
    async with serve_api(gives(answer, headers={"content-encoding": "utf-8"})) as server:
        (result,) = (await tavily(server).search(QUERY))[:1]
    assert result.title.startswith("Größe ")
    assert result.title.endswith(" Maß")


async def test_tavily_gives_dates_with_news() -> None:
    dated = {**ITEM, "published_date": "Tue, 17 Nov 2026 10:00:00 GMT"}
    async with serve_api(gives({"results": [dated]})) as server:
        (result,) = await tavily(server).search(NEWS)
    assert result.date == "Tue, 17 Nov 2026 10:00:00 GMT"
    assert server.asked[0].body["topic"] == "news"


async def test_kagi_is_asked_as_it_documents() -> None:
    items = [
        {
            "title": "Pan",
            "url": "https://example.org/pan",
            "snippet": "<b>Harina</b>&nbsp;y agua",
            "time": "2026-01-02",
        }
    ]
    answer = {"meta": {"trace": "x"}, "data": {"search": items, "related_search": [{"title": "no"}]}}
    async with serve_api(gives(answer)) as server:
        results = await kagi(server).search(QUERY)
    assert results == (SearchResult("Pan", "https://example.org/pan", "Harina y agua", "2026-01-02"),)
    asked = server.asked[0]
    assert (asked.method, asked.target) == ("POST", "/api/v1/search")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {"query": "pan casero", "workflow": "search", "limit": 5}


async def test_kagis_news_have_a_list_of_their_own() -> None:
    news = [{"title": "Hoy", "url": "https://example.org/hoy", "snippet": ""}]
    async with serve_api(gives({"data": {"news": news, "search": []}})) as server:
        assert await kagi(server).search(NEWS) == (SearchResult("Hoy", "https://example.org/hoy", ""),)
    assert server.asked[0].body["workflow"] == "news"


async def test_nothing_found_is_no_failure() -> None:
    async with serve_api(gives({"results": []})) as server:
        assert await tavily(server).search(QUERY) == ()
    async with serve_api(gives({"data": {}})) as server:
        assert await kagi(server).search(QUERY) == ()


async def test_results_have_one_shape_whatever_stood_in_them() -> None:
    items = [
        {
            "title": "<b>A</b> &amp;lt;\x1b[31m\u202e",
            "url": "HTTPS://EXAMPLE.org/ñ",
            "content": "x\n\n y " * 900,
        },
        {"title": None, "url": "https://example.org/2", "content": 7},
        {"title": "again", "url": "https://example.org/2#", "content": ""},
        {"title": "no web", "url": "javascript:alert(1)", "content": ""},
        {"title": "no web", "url": "file:///etc/passwd", "content": ""},
        {"title": "no address", "url": None, "content": ""},
        {"title": "user info", "url": "https://a@example.org/", "content": ""},
        *({"title": str(n), "url": f"https://example.org/{n}", "content": ""} for n in range(3, 30)),
    ]
    async with serve_api(gives({"results": items})) as server:
        results = await tavily(server).search(QUERY)
    assert [result.url for result in results[:2]] == ["https://example.org/%C3%B1", "https://example.org/2"]
    assert results[0].title == "A &lt; [31m"
    assert results[0].snippet.startswith("x y x y")
    assert len(results[0].snippet) == 1001
    assert (results[1].title, results[1].snippet) == ("", "")
    assert len(results) == 5


@pytest.mark.parametrize(
    ("give", "words", "advice"),
    [
        (
            Give({"detail": {"error": f"bad {KEY}"}}, 401),
            "Tavily refused the key (HTTP 401).",
            "TAVILY_API_KEY",
        ),
        (Give(status=403), "Tavily refused the key (HTTP 403).", "TAVILY_API_KEY"),
        (Give(status=429), "Tavily has reached its limit (HTTP 429).", ""),
        (Give(status=432), "Tavily has reached its limit (HTTP 432).", ""),
        (Give(status=400), "Tavily refused the request (HTTP 400).", ""),
        (Give(status=500), "Tavily failed (HTTP 500).", ""),
        (Give(b"<html>hello</html>"), "Tavily does not answer as its documentation says.", ""),
        (Give(b""), "Tavily does not answer as its documentation says.", ""),
        (Give(b"[" * 100_000), "Tavily does not answer as its documentation says.", ""),
        (Give(b"1" * 100_000), "Tavily does not answer as its documentation says.", ""),
        (Give(b"\xff\xfe"), "Tavily does not answer as its documentation says.", ""),
        (Give([]), "Tavily does not answer as its documentation says.", ""),
        (Give({}), "Tavily does not answer as its documentation says.", ""),
        (Give({"results": "none"}), "Tavily does not answer as its documentation says.", ""),
        (Give({"results": ["none"]}), "Tavily does not answer as its documentation says.", ""),
        (
            Give(b"{}", headers={"content-encoding": "gzip"}),
            "Tavily does not answer as its documentation",
            "",
        ),
        (Give(b" " * 65536, times=1000), "Tavily answered with more than 1000 KB.", ""),
    ],
)
async def test_a_failure_is_one_clear_sentence_without_the_servers_words(
    give: Give, words: str, advice: str
) -> None:
    async with serve_api(lambda _: give) as server:
        with pytest.raises(FetchError) as raised:
            await tavily(server).search(QUERY)
    assert words in raised.value.message
    assert advice in raised.value.advice
    assert raised.value.answered


async def test_a_redirect_is_not_followed_and_takes_no_key_along() -> None:
    async with serve_api(gives({"results": [ITEM]})) as elsewhere:
        away = gives(status=307, headers={"location": f"{elsewhere.url}/search"})
        async with serve_api(away) as server:
            with pytest.raises(FetchError, match="redirected the request"):
                await tavily(server).search(QUERY)
    assert elsewhere.asked == []


@pytest.mark.parametrize("give", [Give(hangs=True), Give(b" ", hangs=True)])
async def test_a_silent_provider_is_given_up_in_time(give: Give) -> None:
    async with serve_api(lambda _: give) as server:
        with trio.fail_after(30):
            with pytest.raises(FetchError, match=r"Tavily did not answer in 0.5 s."):
                await tavily(server, 0.5).search(QUERY)
            await server.wait_idle()


async def test_nobody_at_the_address_is_told() -> None:
    async with serve_api(gives()) as server:
        pass
    with pytest.raises(FetchError, match="Tavily could not be reached") as raised:
        await tavily(server).search(QUERY)
    assert not raised.value.answered


async def test_without_a_network_the_reason_is_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_name(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_name)
    provider = Tavily(KEY, timeout_s=5, url="http://search.invalid")
    with pytest.raises(FetchError) as raised:
        await provider.search(QUERY)
    assert raised.value.message == "Tavily could not be reached: its name could not be looked up."


async def test_a_cancelled_search_leaves_no_connection() -> None:
    async with serve_api(gives(hangs=True)) as server:
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tavily(server, 60).search, QUERY)
                await server.wait_asked()
                nursery.cancel_scope.cancel()
            await server.wait_idle()


async def test_the_key_goes_to_nobody_with_another_certificate() -> None:
    ca, other = trustme.CA(), trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    other.issue_cert("127.0.0.1").configure_cert(tls)
    async with serve_api(gives({"results": []}), tls) as server:
        url = server.url.replace("http", "https")
        with ca.cert_pem.tempfile() as trusted:
            with pytest.raises(FetchError, match=r"Tavily could not be reached.*CERTIFICATE_VERIFY_FAILED"):
                await Tavily(KEY, timeout_s=5, url=url, ca_file=trusted).search(QUERY)
        assert server.asked == []
        with other.cert_pem.tempfile() as trusted:
            assert await Tavily(KEY, timeout_s=5, url=url, ca_file=trusted).search(QUERY) == ()


@pytest.mark.parametrize(
    "give", [Give(status=401), Give(b"junk"), Give(b"", hangs=True), Give(b" " * 65536, times=20)]
)
async def test_no_key_in_any_error_or_log(give: Give, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serve_api(lambda _: give) as server:
        provider = tavily(server, 0.3)
        with pytest.raises(FetchError) as raised:
            await provider.search(QUERY)
    said = "".join(traceback.format_exception(raised.value))
    assert KEY not in said + caplog.text + repr(provider) + repr(vars(provider))
    assert raised.value.__context__ is None
    assert raised.value.__cause__ is None


async def test_a_proxy_of_the_environment_is_used_and_sees_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    ca = trustme.CA()
    async with serve_engines(gives({"results": []}), ca) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "")
        with ca.cert_pem.tempfile() as trusted:
            assert await Tavily(KEY, timeout_s=5, ca_file=trusted).search(QUERY) == ()
    assert [(asked.host, asked.target) for asked in proxy.asked] == [("api.tavily.com", "/search")]
    assert proxy.asked[0].headers["authorization"] == f"Bearer {KEY}"  # inside TLS, which ends at the host
    assert KEY.encode() not in b"".join(proxy.heads)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "HTTPS_PROXY",
            "gopher://user:canary-0123456789@127.0.0.1:1",
            "The proxy of the environment cannot be used",
        ),
        ("HTTPS_PROXY", "http://127.0.0.1:bad", "The proxy of the environment cannot be used"),
        ("HTTPS_PROXY", "http://user:canary-0123456789@127.0.0.1:9", "Tavily could not be reached"),
        ("SSL_CERT_FILE", "/nowhere/certificates.pem", "The certificates to trust cannot be read"),
        ("SSL_CERT_FILE", "/dev/null", "The certificates to trust cannot be read"),
    ],
)
async def test_an_environment_that_cannot_work_is_a_clear_failure(
    name: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(FetchError, match=words) as raised:
        await Tavily(KEY, timeout_s=5).search(QUERY)
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize("key", ["ключ-canary-0123456", "two words", "with\r\nheader: x"])
async def test_a_key_that_no_header_takes_is_told_without_it(key: str) -> None:
    async with serve_api(gives({"results": []})) as server:
        with pytest.raises(FetchError, match="has characters that are not allowed in a key") as raised:
            await Tavily(key, timeout_s=5, url=server.url).search(QUERY)
    assert key not in str(raised.value)
    assert server.connections == 0
