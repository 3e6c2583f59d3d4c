"""Tabstack as the reader of pages: what it is told, what becomes of its answer, and what it is never told."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from rumi.web.guard import AddressGuard
from rumi.web.messages import Fetch, FetchRefused, Page
from rumi.web.tabstack import Tabstack
from tests.fakes.search_servers import Asked, Give, SearchServer, serve_api
from tests.fakes.web_server import gives, serving
from tests.web.fetching import Names, World, fetcher

KEY = "ts-canary-0123456789abcdef"
ANSWER = {
    "url": "https://example.org/pan",
    "content": "# Pan\n\nHarina y [agua](https://example.org/agua).\n" + "Mucha. " * 9000,
    "metadata": {"title": "Pan\ncasero", "author": "Ana"},
}
NAMES = Names(
    example_org=["93.184.215.14"], inside_test=["10.0.0.7"], mixed_test=["93.184.215.14", "127.0.0.1"]
)


@asynccontextmanager
async def reading(
    answer: Callable[[Asked], Give], *allow: str, key: str = KEY, timeout_s: float = 5
) -> AsyncIterator[tuple[World, SearchServer]]:
    async with serve_api(answer) as server:
        guard = AddressGuard(NAMES, allow)
        tabstack = Tabstack(key, guard, timeout_s=timeout_s, url=f"{server.url}/v1/extract/markdown")
        async with fetcher(guard=guard, tabstack=tabstack) as world:
            yield world, server


async def test_a_page_is_what_tabstack_made_of_it() -> None:
    async with reading(lambda _: Give(ANSWER)) as (world, server):
        page = await world.fetch("https://example.org/pan#part")
        whole = await world.ref.ask(Fetch("https://example.org/pan", "one", whole=True))
        again = await world.fetch("https://example.org/pan")
    assert (page.url, page.status, page.media_type, page.title) == (
        "https://example.org/pan",
        200,
        "text/markdown",
        "Pan casero",
    )
    assert page.text.startswith("# Pan\n\nHarina y [agua](https://example.org/agua).")
    assert page.links == ("https://example.org/agua",)
    assert len(page.text) <= 40_000 < len(whole.text)
    assert page.cut
    assert not whole.cut
    assert again.cached
    assert len(server.asked) == 2
    asked = server.asked[0]
    assert (asked.method, asked.target) == ("POST", "/v1/extract/markdown")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {"url": "https://example.org/pan", "metadata": True}


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://inside.test/secret",
            "https://mixed.test/",
            "http://127.0.0.1/",
            "http://169.254.169.254/latest",
        ),
        *(
            "https://example.org:8443/",
            "ftp://example.org/",
            "https://a:b@example.org/",
            "http://[::1]/",
            "http://2130706433/",
        ),
    ],
)
async def test_tabstack_is_never_told_an_address_that_is_refused(url: str) -> None:
    async with reading(lambda _: Give(ANSWER)) as (world, server):
        assert isinstance(await world.trouble(url), FetchRefused)
    assert server.asked == []


async def test_what_the_guard_excepts_is_read_here() -> None:
    async with serving({"/": gives("<h1>Inside</h1><p>A page of the inside.</p>")}) as inside:
        async with reading(lambda _: Give(ANSWER), inside.endpoint) as (world, server):
            page = await world.fetch(inside.url())
    assert "A page of the inside." in page.text
    assert server.asked == []


@pytest.mark.parametrize(
    ("give", "said"),
    [
        (Give({"error": "url is invalid"}, 400), "Tabstack refused the request (HTTP 400)."),
        (Give({"error": "no"}, 401), "Tabstack refused the key (HTTP 401)."),
        (Give({}, 500), "Tabstack failed (HTTP 500)."),
        (Give({"content": 7}), "Tabstack does not answer as its documentation says."),
        (Give([]), "Tabstack does not answer as its documentation says."),
        (Give(b"{"), "Tabstack does not answer as its documentation says."),
        (Give(b"x" * 1000, times=1100), "Tabstack answered with more than 1000 KB."),
        (Give(b"", hangs=True), "Tabstack did not answer in 0.3 s."),
    ],
)
async def test_a_failure_is_told_without_the_key_or_words_of_the_answer(give: Give, said: str) -> None:
    async with reading(lambda _: give, timeout_s=0.3 if give.hangs else 5) as (world, _):
        error = await world.trouble("https://example.org/")
    assert error.message == said
    assert KEY not in repr(error)


async def test_without_a_key_nothing_is_fetched() -> None:
    async with reading(lambda _: Give(ANSWER), key="  ") as (world, server):
        error = await world.trouble("https://example.org/")
    assert "its key is missing" in error.message
    assert server.asked == []


async def test_no_text_is_described_and_titles_may_be_missing() -> None:
    async with reading(lambda _: Give({"content": "\n", "metadata": {"title": 7}})) as (world, _):
        page: Page = await world.fetch("https://example.org/")
    assert (page.title, page.text, page.described) == ("", "", "Tabstack found no text in it.")


async def test_a_cancelled_fetch_closes_its_connection() -> None:
    async with reading(lambda _: Give(b"", hangs=True), timeout_s=60) as (world, server):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.fetch, "https://example.org/")
            await server.wait_asked()
            nursery.cancel_scope.cancel()
        with trio.fail_after(5):
            await server.wait_idle()
