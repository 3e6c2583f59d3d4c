"""Kagi's search page with a session's token: what it is asked, what is read of it, where the token goes."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.web.messages import FetchError, SearchResult, SearchWeb
from rumi.web.search.kagi_session import KagiSession, results_in
from rumi.web.search.provider import SearchQuery
from rumi.web.search.searching import Searching
from tests.fakes.search_servers import Give, SearchServer, serve_api

TOKEN = "canary-0123456789.abcdef-ghij"
QUERY = SearchQuery("pan casero", 5, "general")
PAGE = """<html><body><div class="_0_SRI search-result">
  <h3 class="__sri-title-box"><a data-domain="example.org" href="https://example.org/pan?a=1&amp;b=2"
    class="_0_URL __sri_title_link"> Pan <b>casero</b> &amp; m\u00e1s </a></h3>
  <div class="__sri-url-box"><a class="_0_URL" href="https://example.org/other">example.org</a></div>
  <div class="_0_DESC __sri-desc"><span class="__sri-time"> Dec 19, 2025 </span>
    <div>Harina y <b>agua</b>.</div></div>
</div>
<div class="sr-group"><div class="__srgi"><h3 class="__srgi-title"><a href='https://example.org/sal'>Sal</a></h3>
  <div class="__sri-desc">Poca.</div></div></div>
<div class="search-result"><a class="__sri_title_link" href="/redirect?url=x">own page</a></div>
<div class="search-result"><a class="__sri_title_link" href="javascript:alert(1)">no web</a></div>
<div class="related-searches"><a href="/html/search?q=x"><span>x</span></a></div></body></html>"""
RESULTS = (
    SearchResult(
        "Pan casero & m\u00e1s", "https://example.org/pan?a=1&b=2", "Harina y agua.", "Dec 19, 2025"
    ),
    SearchResult("Sal", "https://example.org/sal", "Poca."),
)


def session(server: SearchServer, token: str = TOKEN, timeout_s: float = 5) -> KagiSession:
    return KagiSession(token, timeout_s=timeout_s, url=f"{server.url}/html/search")


async def test_the_page_is_read_with_the_token_as_a_cookie() -> None:
    async with serve_api(lambda _: Give(PAGE.encode())) as server:
        assert await session(server).search(QUERY) == RESULTS
        assert await session(server).search(SearchQuery("pan", 1, "news")) == RESULTS[:1]
    asked = server.asked[0]
    assert (asked.method, asked.target) == ("GET", "/html/search?q=pan+casero")
    assert asked.headers["cookie"] == f"kagi_session={TOKEN}"
    assert "authorization" not in asked.headers


@pytest.mark.parametrize(
    ("give", "said"),
    [
        (Give(b'<form action="/signin"><input name="p" type="password"></form>'), "Kagi refused the session"),
        (Give(b"", 302, {"location": "https://kagi.com/signin"}), "redirected the request"),
        (Give(b"", 401), "Kagi refused the key (HTTP 401)"),
        (Give(b"<title>Just a moment...</title>"), "does not answer as its documentation says"),
        (Give(b"x" * 1000, times=1100), "more than 1000 KB"),
        (Give(b"", hangs=True), "did not answer in 0.3 s"),
    ],
)
async def test_what_is_no_page_of_results_is_an_error_without_the_token(give: Give, said: str) -> None:
    async with serve_api(lambda _: give) as server:
        with pytest.raises(FetchError, match=r"Kagi") as caught:
            await session(server, timeout_s=0.3 if give.hangs else 5).search(QUERY)
    assert said in caught.value.message
    assert TOKEN not in f"{caught.value!r} {caught.value.__context__!r}"


async def test_nothing_found_is_no_failure() -> None:
    page = b"<p>There are no results that match all your keywords exactly.</p>"
    async with serve_api(lambda _: Give(page)) as server:
        assert await session(server).search(QUERY) == ()


@pytest.mark.parametrize("token", ["a b", "a;b", "a\nb", "\u00f1", "a,b"])
async def test_a_token_that_would_forge_a_header_is_not_sent(token: str) -> None:
    async with serve_api(lambda _: Give(PAGE.encode())) as server:
        with pytest.raises(FetchError, match="characters that are not allowed"):
            await session(server, token).search(QUERY)
    assert server.asked == []


async def test_an_api_key_goes_before_the_session() -> None:
    api = Give({"data": {"search": [{"title": "K", "url": "https://k.example/", "snippet": "k"}]}})
    async with serve_api(lambda asked: api if asked.method == "POST" else Give(PAGE.encode())) as server:
        more = {"kagi_url": server.url, "kagi_page_url": server.url}
        both = Searching("kagi", kagi_key="key", kagi_session=TOKEN, **more)  # type: ignore[arg-type]
        assert (await both(SearchWeb("pan", "c"))).results[0].title == "K"
        one = Searching("auto", kagi_session=TOKEN, **more)  # type: ignore[arg-type]
        found = await one(SearchWeb("pan", "c"))
        assert (found.provider, found.results) == ("kagi", RESULTS)


@given(st.text(alphabet=st.sampled_from("<>a/ =\"'divclas_srgt-href_link\n"), max_size=300))
def test_any_page_is_read(page: str) -> None:
    results_in(page)
    results_in(f'<a class="__sri_title_link" href="{page}">{page}</a><div class="__sri-desc">{page}')


@pytest.mark.parametrize(
    "piece",
    ["<a ", "<", '<a class="', "<a class=__sri_title_link>", '<a class="__sri_title_link">x', "class="],
)
def test_a_page_made_to_be_slow_is_not(piece: str) -> None:
    began = time.process_time()
    results_in(piece * (1_000_000 // len(piece)))
    assert time.process_time() - began < 5
