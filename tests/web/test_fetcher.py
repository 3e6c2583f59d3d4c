"""What a fetch gives, over real connections to servers on loopback that are allowed by address and port."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import brotli
import pytest
import trio
import trustme
from backports import zstd

from rumi.platform.config.schema import FetchSection
from rumi.platform.config.secrets import Secrets
from rumi.web.messages import FetchError, FetchRefused
from rumi.web.tree import fetch_once
from tests.fakes.web_server import (
    certificate,
    gives,
    head,
    redirects,
    says,
    serving,
    silence,
    streams,
    trusting,
)
from tests.web.fetching import Names, children, fetcher, open_sockets

Packing = Callable[[bytes], bytes]
PAGE = (
    "<html><head><title>Bread</title></head><body>"
    "<h1>Bread</h1><p>Flour and <a href='/water'>water</a>.</p></body></html>"
)


async def test_a_page_comes_as_markdown_with_its_links() -> None:
    async with serving({"/bread": gives(PAGE)}) as server, fetcher(server.endpoint) as world:
        page = await world.fetch(server.url("/bread?of=rye#crust"))
        assert (page.status, page.media_type, page.title) == (200, "text/html", "Bread")
        assert "Flour and [water]" in page.text
        assert page.links == (server.url("/water"),)
        assert page.url == server.url("/bread?of=rye")
        assert (page.cut, page.described, page.cached) == ("", "", False)
        assert server.asked[0].target == "/bread?of=rye"


async def test_only_these_headers_are_sent() -> None:
    async with serving({"/": gives(PAGE)}) as server, fetcher(server.endpoint) as world:
        await world.fetch(server.url())
        headers = server.asked[0].headers
        assert set(headers) == {"host", "user-agent", "accept", "accept-encoding", "connection"}
        assert headers["host"] == server.endpoint
        assert headers["user-agent"].startswith("Rumi/")
        assert headers["accept-encoding"] == "gzip, deflate"


async def test_nothing_of_the_environment_and_no_cookie_goes_along(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine a.test login me password secret")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    paths = {
        "/": redirects("/next"),
        "/next": gives(PAGE, headers={"Set-Cookie": "a=b"}),
    }
    async with serving(paths) as server:
        async with fetcher(server.endpoint, resolver=Names(a_test=["127.0.0.1"])) as world:
            await world.fetch(server.url(host="a.test"))
            await world.fetch(server.url(host="a.test"))
        for asked in server.asked:
            assert not asked.headers.keys() & {"cookie", "authorization", "referer", "proxy-connection"}
        assert len(server.asked) == 4


async def test_a_head_describes_and_follows_redirects() -> None:
    headers = {"Last-Modified": "Sat, 21 Nov 2026 10:00:00 GMT", "Content-Length": "123456"}
    paths = {"/": redirects("/file"), "/file": gives(b"", media_type="application/zip", headers=headers)}
    async with serving(paths) as server, fetcher(server.endpoint) as world:
        page = await world.fetch(server.url(), method="HEAD")
        assert [asked.method for asked in server.asked] == ["HEAD", "HEAD"]
        assert (page.status, page.redirects, page.text) == (200, 1, "")
        assert page.described == "application/zip, 123,456 bytes, last modified Sat, 21 Nov 2026 10:00:00 GMT"


@pytest.mark.parametrize("status", [400, 404, 410, 500, 503])
async def test_an_error_of_the_server_is_a_result(status: int) -> None:
    async with serving({"/": gives("<p>Sorry about that</p>", status)}) as server:
        async with fetcher(server.endpoint) as world:
            page = await world.fetch(server.url())
    assert page.status == status
    assert "Sorry about that" in page.text


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_a_body_is_told(status: int) -> None:
    answer = says(f"HTTP/1.1 {status} Nothing\r\n\r\n".encode())
    async with serving({"/": answer}) as server, fetcher(server.endpoint) as world:
        page = await world.fetch(server.url())
    assert (page.status, page.text, page.described) == (status, "", "The page is empty.")


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("application/json", b'{"a": [1, 2]}'),
        ("text/plain; charset=iso-8859-1", "pan y jamón".encode("latin-1")),
        ("application/octet-stream", b"plain words under a vague name"),
        ("", b"plain words under no name"),
    ],
)
async def test_text_comes_as_it_is(media_type: str, body: bytes) -> None:
    async with serving({"/": gives(body, media_type=media_type)}) as server:
        async with fetcher(server.endpoint) as world:
            page = await world.fetch(server.url())
    assert page.text == body.decode("latin-1")


@pytest.mark.parametrize("media_type", ["image/png", "video/mp4", "application/zip", "font/woff2"])
async def test_what_is_no_text_is_described_and_not_downloaded(media_type: str) -> None:
    sent = []

    def pieces() -> Iterator[bytes]:
        for _ in range(1000):
            sent.append(1)
            yield bytes(100_000)

    answer = streams(pieces, media_type=media_type, headers={"Content-Length": "100000000"})
    async with serving({"/": answer}) as server, fetcher(server.endpoint) as world:
        page = await world.fetch(server.url())
        await server.until(lambda it: it.open == 0)
    assert page.described == f"Not a text: {media_type}, 100,000,000 bytes. It was not downloaded."
    assert page.text == ""
    assert len(sent) < 200


async def test_bytes_under_a_vague_name_are_looked_at() -> None:
    body = b"\x89PNG\r\n\x1a\n" + bytes(500_000)
    async with serving({"/": gives(body, media_type="application/octet-stream")}) as server:
        async with fetcher(server.endpoint) as world:
            page = await world.fetch(server.url())
    assert "looks like a PNG image" in page.described


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(PAGE.encode())),
        ("x-gzip", gzip.compress(PAGE.encode())),
        ("GZIP", gzip.compress(PAGE[:50].encode()) + gzip.compress(PAGE[50:].encode())),
        ("gzip", gzip.compress(PAGE.encode()) + b"\0" * 100),
        ("deflate", zlib.compress(PAGE.encode())),
        ("br", brotli.compress(PAGE.encode())),
        ("zstd", zstd.compress(PAGE.encode())),
        ("gzip, br", brotli.compress(gzip.compress(PAGE.encode()))),
        ("gzip", PAGE.encode()),
        ("utf-8", PAGE.encode()),
        ("identity", PAGE.encode()),
        ("", PAGE.encode()),
    ],
)
async def test_what_is_packed_is_unpacked(coding: str, body: bytes) -> None:
    async with serving({"/": gives(body, headers={"Content-Encoding": coding})}) as server:
        async with fetcher(server.endpoint) as world:
            page = await world.fetch(server.url())
    assert page.title == "Bread"
    assert not page.cut


@pytest.mark.parametrize(
    ("coding", "body", "said"),
    [
        ("compress", b"whatever", "unrequested compression: compress."),
        ("gzip", b"\x1f\x8b no gzip at all", "compression is damaged"),
    ],
)
async def test_what_cannot_be_unpacked_is_said(coding: str, body: bytes, said: str) -> None:
    async with serving({"/": gives(body, headers={"Content-Encoding": coding})}) as server:
        async with fetcher(server.endpoint) as world:
            error = await world.trouble(server.url())
    assert said in error.message
    assert error.answered


@pytest.mark.parametrize(
    ("coding", "pack"), [("gzip", gzip.compress), ("br", brotli.compress), ("zstd", zstd.compress)]
)
async def test_packed_bytes_that_end_early_give_what_came(
    coding: str, pack: Callable[[bytes], bytes]
) -> None:
    packed = pack(b"".join(b"%d, " % n for n in range(100_000)))
    answer = gives(packed[: len(packed) // 2], media_type="text/plain", headers={"Content-Encoding": coding})
    async with serving({"/": answer}) as server, fetcher(server.endpoint) as world:
        page = await world.fetch(server.url())
    assert page.text.startswith("0, 1, 2")
    assert page.cut.startswith("the packed bytes end early")


async def test_a_body_that_breaks_off_gives_what_came() -> None:
    answer = says(head(200, {"Content-Type": "text/plain", "Content-Length": "1000"}) + b"so far")
    async with serving({"/": answer}) as server, fetcher(server.endpoint) as world:
        page = await world.fetch(server.url())
    assert page.text == "so far"
    assert page.cut == "the server broke off in the middle: only the first 6 bytes came"


async def test_a_text_is_cut_and_what_was_left_out_is_said() -> None:
    async with serving({"/": gives("word " * 20_000, media_type="text/plain")}) as server:
        async with fetcher(server.endpoint, max_bytes=50_000, text_chars=1000) as world:
            page = await world.fetch(server.url())
    assert len(page.text) <= 1000
    assert page.cut.startswith("only the first 50,000 bytes of the page were read; ")


async def test_a_page_of_exactly_as_many_bytes_is_whole() -> None:
    async with serving({"/": gives("x" * 50_000, media_type="text/plain")}) as server:
        async with fetcher(server.endpoint, max_bytes=50_000, text_chars=100_000) as world:
            page = await world.fetch(server.url())
    assert (len(page.text), page.cut) == (50_000, "")


async def test_a_name_is_told_to_the_server_while_the_connection_goes_to_the_address() -> None:
    names = Names(shop_test=["127.0.0.1"])
    async with serving({"/": gives(PAGE)}) as server:
        async with fetcher(server.endpoint, resolver=names) as world:
            await world.fetch(server.url(host="shop.test"))
        assert server.asked[0].headers["host"] == f"shop.test:{server.port}"
    assert names.asked == ["shop.test"]


async def test_a_certificate_is_judged_by_name() -> None:
    ca = trustme.CA()
    names = Names(right_test=["127.0.0.1"], wrong_test=["127.0.0.1"])
    async with serving({"/": gives(PAGE)}, certificate(ca, "right.test")) as server:
        async with fetcher(server.endpoint, resolver=names, tls=trusting(ca)) as world:
            assert (await world.fetch(server.url(host="right.test"))).title == "Bread"
            wrong = await world.trouble(server.url(host="wrong.test"))
            address = await world.trouble(server.url())
    assert wrong.message.startswith("The certificate of wrong.test is not valid: Hostname mismatch")
    assert address.message.startswith("The certificate of 127.0.0.1 is not valid: IP address mismatch")
    assert len(server.asked) == 1


async def test_the_handshake_names_the_host() -> None:
    ca = trustme.CA()
    seen: list[str | None] = []
    context = certificate(ca, "shop.test")
    context.sni_callback = lambda _, name, __: seen.append(name)  # type: ignore[func-returns-value]
    async with serving({"/": gives(PAGE)}, context) as server:
        async with fetcher(
            server.endpoint, resolver=Names(shop_test=["127.0.0.1"]), tls=trusting(ca)
        ) as world:
            await world.fetch(server.url(host="shop.test"))
    assert seen == ["shop.test"]


async def test_a_certificate_of_nobody_known_is_refused() -> None:
    async with serving({"/": gives(PAGE)}, certificate(trustme.CA(), "127.0.0.1")) as server:
        async with fetcher(server.endpoint) as world:  # with httpx's own authorities
            error = await world.trouble(server.url())
    assert "certificate of 127.0.0.1 is not valid: unable to get local issuer" in error.message
    assert not server.asked


async def test_a_server_that_speaks_no_tls_is_told_so() -> None:
    async with serving({"/": gives(PAGE)}) as server, fetcher(server.endpoint) as world:
        error = await world.trouble(f"https://{server.endpoint}/")
    assert error.message == "No secure connection to 127.0.0.1: the TLS handshake failed."


async def test_with_nothing_allowed_no_server_on_loopback_is_reached() -> None:
    async with serving({"/": gives(PAGE)}) as server, fetcher() as world:
        for host in ("127.0.0.1", "localhost", "[::1]", "2130706433", "0177.1"):
            error = await world.trouble(server.url(host=host))
            assert isinstance(error, FetchError)
            assert not error.answered
    assert not server.connections


@pytest.mark.parametrize("url", ["", "no url", "file:///etc/passwd", "ftp://a.test/", "http://me:pw@a.test/"])
async def test_what_is_no_address_of_the_web_is_refused(url: str) -> None:
    async with fetcher() as world:
        assert isinstance(await world.trouble(url), FetchRefused)


async def test_nothing_is_left_after_pages_of_every_kind() -> None:
    sockets, processes = open_sockets(), children()
    paths = {"/": gives(PAGE), "/to": redirects("/"), "/image": gives(bytes(10), media_type="image/png")}
    async with serving(paths) as server:
        async with fetcher(server.endpoint) as world:
            for path in ("/", "/to", "/image", "/missing"):
                await world.fetch(server.url(path))
            await server.until(lambda it: it.open == 0)
            assert world.activity() == "0 fetching, 0 waiting, 0 searching"
    assert open_sockets() == sockets
    assert children() <= processes
    await trio.lowlevel.checkpoint()


async def test_one_page_for_the_command_line_leaves_nothing_running() -> None:
    sockets, processes = open_sockets(), children()
    async with serving({"/": gives(PAGE), "/slow": silence}) as server:
        settings = FetchSection(allow=(server.endpoint,))
        listening = open_sockets()
        assert (await fetch_once(server.url(), settings, Secrets())).title == "Bread"
        with pytest.raises(FetchRefused):
            await fetch_once("http://10.0.0.1/", settings, Secrets())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetch_once, server.url("/slow"), settings, Secrets())
            await server.until(lambda it: len(it.asked) == 2)
            nursery.cancel_scope.cancel()
        await server.until(lambda it: it.open == 0)
        assert open_sockets() == listening
        assert children() == processes
    assert open_sockets() == sockets
