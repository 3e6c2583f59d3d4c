"""Cookies of one fetch, and pages that refer to others by a refresh."""

from collections.abc import Callable

import pytest
import trio

from rumi.web.fetch.cookies import MOST_BYTES, CookieJar
from rumi.web.refresh import refresh_url
from rumi.web.url import parse_target
from tests.fakes.web_server import Answering, Asked, gives, head, redirects, serving
from tests.web.fetching import Names, fetcher

PAGE = "<title>Bread</title><p>Flour and water.</p>"


@pytest.mark.parametrize(
    ("set_cookie", "sent"),
    [
        ("a=b", "a=b"),
        ("a=b; Path=/; HttpOnly; SameSite=Lax", "a=b"),
        ("a=b; Domain=.a.test", "a=b"),
        ("a = b c ", "a=b c"),
        ('a="b"', 'a="b"'),
        ("a=", "a="),
        ("a=b=c", "a=b=c"),
        ("a=b; Path=/folder", "a=b"),
        ("a=b; Path=/folder/page", "a=b"),
        ("a=b; Path=/fol", ""),
        ("a=b; Path=/other", ""),
        ("a=b; Secure", ""),
        ("a=b; Max-Age=0", ""),
        ("a=b; Max-Age=5; Path=/", "a=b"),
        ("a=b; Expires=Thu, 01-Jan-1970 00:00:10 GMT", ""),
        ("a=b; Expires=Thu, 01 Jan 1970 00:00:00 GMT", ""),
        ("a=b; Expires=Wed, 15-Jun-2036 03:49:37 GMT", "a=b"),
        ("no pair", ""),
        ("=value", ""),
        ("a\x01=b", ""),
        ("a=b\x01", ""),
        ("a=" + "x" * 5000, ""),
    ],
)
def test_a_cookie_goes_back_as_the_standard_says(set_cookie: str, sent: str) -> None:
    jar, target = CookieJar(), parse_target("http://a.test/folder/page?q=1")
    jar.set(target, [set_cookie])
    assert jar.header(target) == sent


def test_a_cookie_goes_to_no_other_host() -> None:
    jar = CookieJar()
    jar.set(parse_target("http://a.test/"), ["a=b; Domain=test", "c=d; Domain=.sub.a.test"])
    for host in ("sub.a.test", "b.test", "test", "a.test.example.org"):
        assert jar.header(parse_target(f"http://{host}/")) == ""


def test_cookies_are_replaced_deleted_ordered_and_bounded() -> None:
    jar, target = CookieJar(), parse_target("https://a.test/deep/page")
    jar.set(target, ["a=1; Path=/", "b=2; Path=/deep", "a=3; Path=/", "c=4; Secure; Path=/"])
    assert jar.header(target) == "b=2; a=3; c=4"
    assert jar.header(parse_target("http://a.test/deep/page")) == "b=2; a=3"
    jar.set(target, ["a=; Path=/; Max-Age=-1"])
    assert jar.header(target) == "b=2; c=4"
    jar.set(target, [f"n{number}={'x' * 1000}; Path=/" for number in range(1000)])
    assert len(jar.header(target)) <= MOST_BYTES


def wall(name: str = "seen", where: Callable[[Asked], str] = lambda asked: asked.target) -> Answering:
    """A server that redirects until its cookie comes back."""

    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        if f"{name}=yes" in asked.headers.get("cookie", ""):
            await gives(PAGE)(stream, asked)
            return
        told = {
            "Location": where(asked),
            "Set-Cookie": f"{name}=yes; Path=/; HttpOnly",
            "Content-Length": "0",
        }
        await stream.send_all(head(302, told))

    return answer


async def test_a_redirect_to_itself_that_sets_a_cookie_is_followed() -> None:
    async with serving({"/": wall()}) as server, fetcher(server.endpoint) as world:
        page = await world.fetch(server.url("/?a=b"))
        assert (page.title, page.redirects) == ("Bread", 1)
        await world.fetch(server.url("/?a=b"))
        assert ["cookie" in asked.headers for asked in server.asked] == [False, True, False, True]


async def test_a_detour_that_sets_a_cookie_is_followed() -> None:
    set_and_back = {"Location": "/", "Set-Cookie": "seen=yes", "Content-Length": "0"}

    async def setting(stream: trio.abc.Stream, asked: Asked) -> None:
        await stream.send_all(head(307, set_and_back))

    paths = {"/": wall("seen", lambda asked: "/set"), "/set": setting}
    async with serving(paths) as server, fetcher(server.endpoint) as world:
        page = await world.fetch(server.url())
    assert (page.title, page.redirects) == ("Bread", 2)


async def test_a_cookie_stays_with_its_host_on_the_way() -> None:
    async with serving() as server:
        other = f"http://b.test:{server.port}/page"
        server.paths = {"/": wall("seen", lambda asked: other), "/page": gives(PAGE)}
        names = Names(a_test=["127.0.0.1"], b_test=["127.0.0.1"])
        async with fetcher(server.endpoint, resolver=names) as world:
            assert (await world.fetch(server.url(host="a.test"))).title == "Bread"
        assert all("cookie" not in asked.headers for asked in server.asked)


async def test_a_server_that_wants_ever_new_cookies_ends() -> None:
    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        number = len(server.asked)
        told = {"Location": "/", "Set-Cookie": f"n={number}", "Content-Length": "0"}
        await stream.send_all(head(302, told))

    async with serving({"/": answer}) as server, fetcher(server.endpoint) as world:
        error = await world.trouble(server.url())
    assert error.message == "127.0.0.1 redirects once more after 5 redirects."


async def test_a_circle_without_a_new_cookie_ends_at_once() -> None:
    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        await stream.send_all(head(302, {"Location": "/", "Set-Cookie": "x=y", "Content-Length": "0"}))

    async with serving({"/": answer}) as server, fetcher(server.endpoint) as world:
        error = await world.trouble(server.url())
        assert len(server.asked) == 2
    assert error.message == "127.0.0.1 redirects in a circle."


# Refreshes.


@pytest.mark.parametrize(
    ("content", "url"),
    [
        ("0; url=/next", "/next"),
        ("0;URL='/next'", "/next"),
        ('0; url="/next"', "/next"),
        ("0,url=./de", "./de"),
        ("0 url = /next", "/next"),
        ("5; /next", "/next"),
        (" 3.5 ; url=/next ", "/next"),
        (".5;url=/next", "/next"),
        ("10; url=http://a.test/b?c=d;e", "http://a.test/b?c=d;e"),
        ("0; url='/next", "/next"),
        ("0; url='/next' and more", "/next"),
        ("11; url=/next", ""),
        ("300", ""),
        ("0", ""),
        ("0;", ""),
        ("url=/next", ""),
        ("", ""),
        ("99999999999999999999;url=/a", ""),
        ("0;url=", ""),
    ],
)
def test_a_refresh_is_read_as_browsers_read_it(content: str, url: str) -> None:
    assert refresh_url(content) == url


NEXT = "<html><head><meta http-equiv=refresh content='0; url=/next'></head><body>Moved.</body></html>"


@pytest.mark.parametrize(
    "first",
    [
        NEXT,
        '<META HTTP-EQUIV="Refresh" CONTENT="3;URL=/next">',
        "<meta http-equiv=refresh content=\"0;url='/next'\" /><p>You are being redirected.</p>",
        "<base href='/folder/'><meta http-equiv=refresh content='0,url=../next'>",
        "<script>go()</script><noscript><meta http-equiv=refresh content='0;url=/next'></noscript>",
        "<html><body><p>The page has moved.<meta http-equiv=refresh content='0;url=/next'></body></html>",
    ],
)
async def test_a_page_that_refers_to_another_is_followed(first: str) -> None:
    async with serving({"/": gives(first), "/next": gives(PAGE)}) as server:
        async with fetcher(server.endpoint) as world:
            page = await world.fetch(server.url())
    assert (page.title, page.redirects, page.cut) == ("Bread", 1, "")
    assert page.url.endswith("/next")


async def test_a_refresh_in_the_head_of_the_answer_is_followed() -> None:
    first = gives("Moved.", headers={"Refresh": "0; url=/next"})
    async with serving({"/": first, "/next": gives(PAGE)}) as server, fetcher(server.endpoint) as world:
        assert (await world.fetch(server.url())).title == "Bread"


@pytest.mark.parametrize(
    "first",
    [
        "<!-- <meta http-equiv=refresh content='0;url=/next'> --><p>Words.",
        "<script>'<meta http-equiv=refresh content=\"0;url=/next\">'</script><p>Words.",
        "<meta http-equiv=refresh content='300;url=/next'><p>Words.",
        "<meta http-equiv=refresh content='5'><p>Words.",
        "<meta http-equiv=refresh content='0;url=/'><p>Words.",
        "<meta http-equiv=refresh content='0;url=#part'><p>Words.",
        "<meta http-equiv=refresh content='0;url=mailto:a@a.test'><p>Words.",
        f"<noscript><meta http-equiv=refresh content='0;url=/next'></noscript><p>Words. {'More. ' * 60}",
        "<template><meta http-equiv=refresh content='0;url=/next'></template><p>Words.",
    ],
)
async def test_other_pages_stay(first: str) -> None:
    async with serving({"/": gives(first), "/next": gives(PAGE)}) as server:
        async with fetcher(server.endpoint) as world:
            page = await world.fetch(server.url())
    assert page.text.startswith("Words.")
    assert (page.redirects, page.cut) == (0, "")


@pytest.mark.parametrize(
    "where", ["http://10.0.0.1/", "http://127.0.0.1:1/", "http://169.254.169.254/latest/"]
)
async def test_a_refresh_passes_the_guard_and_the_first_page_stays(where: str) -> None:
    first = f"<meta http-equiv=refresh content='0; url={where}'><p>Words."
    async with serving({"/": gives(first)}) as server, fetcher(server.endpoint) as world:
        page = await world.fetch(server.url())
    assert page.text == "Words."
    assert "it refers to another page, which could not be fetched: " in page.cut


async def test_refreshes_count_as_redirects() -> None:
    def answer(asked: Asked) -> str:
        return f"<meta http-equiv=refresh content='0; url=/?{len(asked.target)}{asked.target[1:]}'><p>Words."

    async def gives_next(stream: trio.abc.Stream, asked: Asked) -> None:
        await gives(answer(asked))(stream, asked)

    async with serving({"/": gives_next}) as server, fetcher(server.endpoint) as world:
        page = await world.fetch(server.url())
        assert len(server.asked) == 6
    assert "redirects once more after 5 redirects" in page.cut


@pytest.mark.parametrize("content", ["0; url=/", "0", "5", "0;", " 1 ; "])
async def test_a_refresh_to_itself_that_sets_a_cookie_is_followed(content: str) -> None:
    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        if "seen=yes" in asked.headers.get("cookie", ""):
            await gives(PAGE)(stream, asked)
        else:
            body = f"<meta http-equiv=refresh content='{content}'>Checking your browser."
            await gives(body, headers={"Set-Cookie": "seen=yes"})(stream, asked)

    async with serving({"/": answer}) as server, fetcher(server.endpoint) as world:
        assert (await world.fetch(server.url())).title == "Bread"


async def test_a_redirect_after_a_refresh_is_followed() -> None:
    paths = {"/": gives(NEXT), "/next": redirects("/last"), "/last": gives(PAGE)}
    async with serving(paths) as server, fetcher(server.endpoint) as world:
        page = await world.fetch(server.url())
    assert (page.title, page.redirects) == ("Bread", 2)
