"""Who is asked to search, in which order, and how one sees that somebody failed."""

import trio
import trustme

from rumi.web.messages import FetchError, ProviderName, SearchResult, SearchWeb
from rumi.web.search.searching import Searching
from tests.fakes.search_servers import Asked, Give, SearchServer, serve_api, serve_engines

KEY = "canary-0123456789abcdef"
REQUEST = SearchWeb("bread", "cli")
TAVILY = Give({"results": [{"title": "T", "url": "https://t.example/", "content": "t"}]})
KAGI = Give({"data": {"search": [{"title": "K", "url": "https://k.example/", "snippet": "k"}]}})
MOJEEK = Give(
    b'<ul class="results"><li><h2><a href="https://d.example/">D</a></h2><p class="s">d</p></li></ul>'
)
DOWN = Give(status=500)


class House:
    """Both APIs behind one address, and the engines behind a proxy."""

    def __init__(self, tavily: Give, kagi: Give, ddgs: Give = MOJEEK) -> None:
        self._api = {"/tavily": tavily, "/kagi": kagi}
        self._ddgs = ddgs

    def api(self, asked: Asked) -> Give:
        return self._api[asked.target]

    def engines(self, asked: Asked) -> Give:
        return self._ddgs if asked.host == "www.mojeek.com" else Give(status=404)

    async def search(
        self, provider: ProviderName, *, keys: str = "tavily kagi", request: SearchWeb = REQUEST
    ) -> tuple[object, SearchServer]:
        ca = trustme.CA()
        with ca.cert_pem.tempfile() as ca_file:
            async with serve_api(self.api) as api, serve_engines(self.engines, ca) as engines:
                searching = Searching(
                    provider,
                    tavily_key=KEY if "tavily" in keys else "",
                    kagi_key=KEY if "kagi" in keys else "",
                    tavily_url=f"{api.url}/tavily",
                    kagi_url=f"{api.url}/kagi",
                    proxy=engines.url,
                    ca_file=ca_file,
                )
                try:
                    return await searching(request), api
                except FetchError as error:
                    return error, api


async def found(house: House, provider: ProviderName, keys: str = "tavily kagi") -> tuple[str, str, int]:
    """The provider, the first result's title, and how many had failed before."""
    results, _ = await house.search(provider, keys=keys)
    assert not isinstance(results, FetchError), results
    assert isinstance(results.results[0], SearchResult)  # type: ignore[attr-defined]
    return results.provider, results.results[0].title, len(results.failed)  # type: ignore[attr-defined]


async def test_auto_asks_tavily_then_kagi_then_ddgs() -> None:
    assert await found(House(TAVILY, KAGI), "auto") == ("tavily", "T", 0)
    assert await found(House(DOWN, KAGI), "auto") == ("kagi", "K", 1)
    assert await found(House(DOWN, DOWN), "auto") == ("ddgs", "D", 2)


async def test_auto_asks_nobody_without_a_key() -> None:
    assert await found(House(TAVILY, KAGI), "auto", keys="kagi") == ("kagi", "K", 0)
    assert await found(House(TAVILY, KAGI), "auto", keys="") == ("ddgs", "D", 0)


async def test_a_named_provider_is_asked_and_ddgs_where_it_fails() -> None:
    assert await found(House(TAVILY, KAGI), "kagi") == ("kagi", "K", 0)
    assert await found(House(TAVILY, DOWN), "kagi") == ("ddgs", "D", 1)
    assert await found(House(TAVILY, KAGI), "ddgs") == ("ddgs", "D", 0)


async def test_a_named_provider_without_its_key_is_told_with_the_key_to_set() -> None:
    error, api = await House(TAVILY, KAGI).search("kagi", keys="tavily")
    assert isinstance(error, FetchError)
    assert error.message == "search.provider is kagi, and its key is missing."
    assert "KAGI_API_KEY" in error.advice
    assert api.asked == []


async def test_who_failed_before_is_seen_and_why() -> None:
    results, _ = await House(Give(status=401), Give(status=429)).search("auto")
    assert results.failed == (  # type: ignore[attr-defined]
        "Tavily refused the key (HTTP 401).",
        "Kagi has reached its limit (HTTP 429).",
    )


async def test_where_all_fail_each_says_why() -> None:
    error, _ = await House(Give(status=401), DOWN, DOWN).search("auto")
    assert isinstance(error, FetchError)
    assert "Tavily refused the key (HTTP 401). Kagi failed (HTTP 500). The search engines" in error.message
    assert "TAVILY_API_KEY" in error.advice
    assert error.answered
    assert KEY not in str(error)


async def test_nothing_found_asks_nobody_else() -> None:
    results, api = await House(Give({"results": []}), KAGI).search("auto")
    assert (results.provider, results.results, results.failed) == ("tavily", (), ())  # type: ignore[attr-defined]
    assert len(api.asked) == 1


async def test_a_query_is_one_line_of_valid_unicode_and_numbers_stay_within_bounds() -> None:
    request = SearchWeb("pan\n\tcasero \ud800", "cli", max_results=1000)
    _, api = await House(TAVILY, KAGI).search("auto", request=request)
    assert api.asked[0].body["query"] == "pan casero ?"
    assert api.asked[0].body["max_results"] == 20


async def test_a_search_that_is_cancelled_asks_nobody_else() -> None:
    async with serve_api(lambda _: Give(hangs=True)) as api:
        searching = Searching(tavily_key=KEY, kagi_key=KEY, tavily_url=api.url, kagi_url=api.url)
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(searching, REQUEST)
                await api.wait_asked()
                nursery.cancel_scope.cancel()
            await api.wait_idle()
    assert len(api.asked) == 1
