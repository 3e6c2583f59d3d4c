"""Which pages are kept for a few minutes, for everybody, and which are not."""

import pytest
import trio

from rumi.web.fetch.cache import Cache
from rumi.web.fetch.headers import Headers
from rumi.web.messages import Page
from tests.fakes.web_server import Answering, drips, gives, redirects, serving
from tests.web.fetching import fetcher


def ttl_s(status: int = 200, **headers: str) -> float:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Headers(pairs).ttl_s(status, 300)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 300),
        ({"cache_control": "public"}, 300),
        ({"cache_control": "max-age=3600"}, 300),
        ({"cache_control": "max-age=60"}, 60),
        ({"cache_control": 'max-age="60"'}, 60),
        ({"cache_control": "MAX-AGE=60, Must-Revalidate"}, 60),
        ({"cache_control": "max-age=60, s-maxage=20"}, 20),
        ({"cache_control": "max-age=60", "age": "45"}, 15),
        ({"cache_control": "max-age=60", "age": "99"}, 0),
        ({"cache_control": "max-age=0"}, 0),
        ({"cache_control": "max-age=-1"}, 0),
        ({"cache_control": "max-age=soon"}, 0),
        ({"cache_control": "no-store"}, 0),
        ({"cache_control": "No-Store, max-age=60"}, 0),
        ({"cache_control": "no-cache"}, 0),
        ({"cache_control": 'no-cache="set-cookie"'}, 0),
        ({"cache_control": "private"}, 0),
        ({"pragma": "no-cache"}, 0),
        ({"set_cookie": "a=b"}, 0),
        ({"vary": "*"}, 0),
        ({"vary": "Accept, Cookie"}, 0),
        ({"vary": "Accept-Encoding"}, 300),
        ({"expires": "0"}, 0),
        ({"expires": "Sat, 21 Nov 2026 10:00:00 GMT"}, 0),
        ({"date": "Sat, 21 Nov 2026 10:00:00 GMT", "expires": "Sat, 21 Nov 2026 10:01:00 GMT"}, 60),
        ({"date": "Sat, 21 Nov 2026 10:00:00 GMT", "expires": "Fri, 20 Nov 2026 10:01:00 GMT"}, 0),
    ],
)
def test_a_page_is_kept_as_long_as_its_server_lets_it(headers: dict[str, str], seconds: float) -> None:
    assert ttl_s(**headers) == seconds


def test_a_temporary_redirect_is_not_kept_unless_its_server_says_so() -> None:
    assert [ttl_s(status) for status in (301, 308, 302, 303, 307)] == [300, 300, 0, 0, 0]
    assert ttl_s(302, cache_control="max-age=60") == 60


async def test_a_page_comes_from_the_cache_for_everybody_for_five_minutes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    cache = Cache()
    cache.put("a", Page("a", 200, text="x"), 300)
    await trio.sleep(299)
    assert cache.get("a") == Page("a", 200, text="x", cached=True)
    await trio.sleep(2)
    assert cache.get("a") is None
    assert len(cache) == 0


async def test_a_fresh_page_passes_the_cache_and_is_there_for_others() -> None:
    pages = {"/": gives("<p>one</p>")}
    async with serving(pages) as server, fetcher(server.endpoint) as world:
        assert (await world.fetch(server.url())).text.strip() == "one"
        assert (await world.fetch(server.url())).cached
        fresh = await world.fetch(server.url(), fresh=True)
        assert not fresh.cached
        assert len(server.asked) == 2


async def test_the_cache_holds_so_many_pages_and_those_that_are_used() -> None:
    cache = Cache(most_pages=3)
    for url in "abc":
        cache.put(url, Page(url, 200), 300)
    cache.get("a")
    cache.put("d", Page("d", 200), 300)
    assert [cache.get(url) is not None for url in "abcd"] == [True, False, True, True]


async def test_the_cache_holds_so_many_bytes() -> None:
    cache = Cache(most_bytes=100_000)
    for n in range(100):
        cache.put(str(n), Page(str(n), 200, text="x" * 5000), 300)
    assert 3 <= len(cache) <= 5
    cache.put("large", Page("large", 200, text="x" * 50_000), 300)
    assert cache.get("large") is None
    assert cache.get("99") is not None


async def test_a_second_fetch_does_not_ask_the_server() -> None:
    async with serving({"/": gives("<p>once</p>")}) as server, fetcher(server.endpoint) as world:
        first = await world.fetch(server.url("/#one"))
        again = await world.fetch(server.url("/#two"), chat="another")
        assert len(server.asked) == 1
        assert (first.cached, again.cached) == (False, True)
        assert again.text == "once"
        await world.fetch(server.url("/?two"))
        await world.fetch(server.url(), method="HEAD")
        assert len(server.asked) == 3


@pytest.mark.long
@pytest.mark.parametrize(
    "answer",
    [
        gives("x", headers={"Cache-Control": "no-store"}),
        gives("x", headers={"Set-Cookie": "a=b"}),
        gives("x", 404),
        gives("x", 500),
        gives("x", 203),
        redirects("/private"),
        redirects("/end", 302),
        drips(every_s=0.01),
    ],
)
async def test_what_is_not_for_everybody_or_not_whole_is_asked_for_again(answer: Answering) -> None:
    private = gives("x", headers={"Cache-Control": "private"})
    paths = {"/": answer, "/end": gives("x"), "/private": private}
    async with serving(paths) as server, fetcher(server.endpoint, timeout_s=2) as world:
        await world.fetch(server.url())
        count = len(server.asked)
        assert not (await world.fetch(server.url())).cached
        assert len(server.asked) == 2 * count


async def test_a_permanent_redirect_is_kept_with_its_page() -> None:
    async with serving({"/": redirects("/end", 301), "/end": gives("x")}) as server:
        async with fetcher(server.endpoint) as world:
            await world.fetch(server.url())
            page = await world.fetch(server.url())
            assert len(server.asked) == 2
    assert (page.cached, page.redirects, page.url) == (True, 1, server.url("/end"))


def test_a_charset_behind_a_flood_of_spaces_holds_nobody_up() -> None:
    """Whoever reads it holds up the whole house: tried in every way, these spaces take minutes."""
    flood = b" " * 60_000
    assert Headers([(b"content-type", b"text/html; charset=" + flood + b"!")]).charset is None
    assert Headers([(b"content-type", b"text/html;" + flood + b"charset = 'UTF-8'")]).charset == "utf-8"
