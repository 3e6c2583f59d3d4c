"""Bodies that have no end, or unpack to one: each ends in time, and the memory of this process stays flat."""

import gzip
import itertools
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import brotli
import pytest
import trio
from backports import zstd

from rumi.web.fetch.decoding import decoder_for
from tests.fakes.web_server import (
    Answering,
    drips,
    gives,
    gzip_bomb,
    head,
    redirects,
    says,
    says_for_ever,
    serving,
    streams,
)
from tests.web.fetching import PeakMemory, fetcher

FLAT_BYTES = 15_000_000
GZIP = {"Content-Encoding": "gzip"}
TEN_GB = 10 << 30


@contextmanager
def flat_memory(most_bytes: int = FLAT_BYTES) -> Iterator[None]:
    """What is done in here takes no more memory at any moment than a few pages do."""
    memory = PeakMemory()
    yield
    grown = memory.grown_bytes()
    print(f"memory grew by {grown / 1e6:.1f} MB at most")
    assert grown < most_bytes


def many(piece: bytes, times: int) -> Iterator[bytes]:
    return itertools.repeat(piece, times)


def empty_blocks() -> Iterator[bytes]:
    """A gzip file that goes on for ever and has nothing in it: stored blocks of no bytes."""
    yield gzip.compress(b"")[:10]
    yield from itertools.repeat(b"\x00\x00\x00\xff\xff" * 2000)


def empty_members() -> Iterator[bytes]:
    yield from itertools.repeat(gzip.compress(b"") * 500)


def zstd_bomb(size: int) -> Iterator[bytes]:
    packer = zstd.ZstdCompressor()
    for _ in range(size >> 24):
        yield packer.compress(bytes(1 << 24), packer.FLUSH_BLOCK)


BROTLI_BOMB = brotli.compress(bytes(500 << 20), quality=1)

BOMBS: dict[str, tuple[Answering, str]] = {
    "10 GB of zeros in gzip": (
        streams(lambda: gzip_bomb(TEN_GB), headers=GZIP),
        "only the first 1,000,000 bytes of the page were read",
    ),
    "10 GB of zeros in deflate": (
        streams(
            lambda: itertools.chain(
                [(packer := zlib.compressobj(9)).compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)],
                many(packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH), 10 << 10),
            ),
            headers={"Content-Encoding": "deflate"},
        ),
        "only the first 1,000,000 bytes of the page were read",
    ),
    "gzip without content and end": (
        streams(empty_blocks, headers=GZIP),
        "the rest of the page is packed into more bytes than it has",
    ),
    "10 GB of zeros in brotli": (
        streams(lambda: iter([BROTLI_BOMB]), headers={"Content-Encoding": "br"}),
        "only the first 1,000,000 bytes of the page were read",
    ),
    "10 GB of zeros in zstandard": (
        streams(lambda: zstd_bomb(TEN_GB), headers={"Content-Encoding": "zstd"}),
        "only the first 1,000,000 bytes of the page were read",
    ),
    "10 GB of zeros, packed twice": (
        streams(lambda: iter([gzip.compress(BROTLI_BOMB)]), headers={"Content-Encoding": "br, gzip"}),
        "only the first 1,000,000 bytes of the page were read",
    ),
    "300 MB": (
        streams(lambda: many(b"a line of text\n" * 4000, 5000), headers={"Content-Length": "300000000"}),
        "only the first 1,000,000 bytes of the page were read",
    ),
    "300 MB in chunks": (
        streams(lambda: many(b"a line of text\n" * 4000, 5000), chunked=True),
        "only the first 1,000,000 bytes of the page were read",
    ),
    "a line without end": (
        says_for_ever(head(200, {"Content-Type": "text/plain"}), b"x" * 65536),
        "only the first 1,000,000 bytes of the page were read",
    ),
    "an endless drip": (drips(), "the server was too slow: only the first "),
    "chunks wrapped in more than they hold": (
        says_for_ever(
            head(200, {"Content-Type": "text/plain", "Transfer-Encoding": "chunked"}),
            (b"1;" + b"e" * 30_000 + b"\r\nx\r\n") * 5,
        ),
        "the server wrapped it in too much else: only the first ",
    ),
    "chunks of a byte each": (
        says_for_ever(
            head(200, {"Content-Type": "text/plain", "Transfer-Encoding": "chunked"}),
            b"1\r\nx\r\n" * 10_000,
        ),
        "the server sent it in too many small pieces: only the first 49,9",
    ),
    "trailers without end": (
        says_for_ever(
            head(200, {"Content-Type": "text/plain", "Transfer-Encoding": "chunked"}) + b"4\r\nbody\r\n0\r\n",
            b"X-More: " + b"a" * 1000 + b"\r\n",
        ),
        "the server broke off in the middle: only the first 4 bytes came",
    ),
}


@pytest.mark.parametrize("kind", BOMBS)
async def test_a_body_without_end_ends_and_takes_no_memory(kind: str) -> None:
    answer, said = BOMBS[kind]
    async with serving({"/": answer, "/warm": gives("x")}) as server:
        # Only the drip ends by the time: the others by their bounds, however busy the machine is.
        async with fetcher(server.endpoint, timeout_s=2 if "drip" in kind else 20) as world:
            await world.fetch(server.url("/warm"))
            started = time.perf_counter()
            with flat_memory():
                page = await world.fetch(server.url())
            print(f"{kind}: {time.perf_counter() - started:.2f} s, {len(page.text)} characters, {page.cut}")
            await server.until(lambda it: it.open == 0)
    assert page.status == 200
    assert page.cut.startswith(said)
    assert len(page.text) <= 40_000


@pytest.mark.parametrize(
    ("coding", "pieces"),
    [
        ("gzip", empty_members),
        ("gzip, gzip", lambda: iter([gzip.compress(b"".join(itertools.islice(empty_members(), 2000)))])),
        ("gzip, br", lambda: iter([brotli.compress(gzip.compress(b"") * 200_000, quality=1)])),
        ("gzip, gzip", lambda: iter([gzip.compress(b"".join(itertools.islice(empty_blocks(), 2000)))])),
        ("zstd", lambda: itertools.repeat(zstd.compress(b"") * 500)),
    ],
)
async def test_packed_bytes_without_content_end(coding: str, pieces: Callable[[], Iterator[bytes]]) -> None:
    body = pieces()  # made here: the memory that this takes does not count
    answer = streams(lambda: body, headers={"Content-Encoding": coding})
    async with serving({"/": answer, "/warm": gives("x")}) as server, fetcher(server.endpoint) as world:
        await world.fetch(server.url("/warm"))
        with flat_memory():
            error = await world.trouble(server.url())
    assert error.message == "The page's compression is damaged."


async def test_many_bombs_at_once_take_no_more_than_their_bounds() -> None:
    answer = streams(lambda: gzip_bomb(TEN_GB), headers=GZIP)
    async with serving({"/": answer, "/warm": gives("x")}) as server:
        async with fetcher(server.endpoint, per_host=32, per_chat=32) as world:
            await world.fetch(server.url("/warm"))
            with flat_memory(45_000_000):
                async with trio.open_nursery() as nursery:
                    for _ in range(20):
                        nursery.start_soon(world.fetch, server.url())


async def test_a_million_tiny_chunks_let_others_have_their_turn() -> None:
    tiny = (b"1\r\nx\r\n" * 10_000,)
    answer = says_for_ever(head(200, {"Content-Type": "text/plain", "Transfer-Encoding": "chunked"}), *tiny)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with serving({"/": answer}) as server, fetcher(server.endpoint, max_bytes=20_000) as world:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            page = await world.fetch(server.url())
            nursery.cancel_scope.cancel()
    assert page.cut == "only the first 20,000 bytes of the page were read"
    assert turns > 20_000 / 50


async def test_ten_thousand_redirects_take_no_memory() -> None:
    answer = redirects(
        lambda asked: f"/?{int(asked.target.partition('?')[2]) + 1}&{'x' * 4000}".split("&")[0]
    )
    async with serving({"/": answer}) as server, fetcher(server.endpoint) as world:
        with flat_memory():
            error = await world.trouble(server.url("/?1"))
        assert len(server.asked) == 6
    assert error.message == "127.0.0.1 redirects once more after 5 redirects."


async def test_a_head_of_any_size_is_bounded() -> None:
    async with serving({"/": says(head(200, {f"X-{n}": "a" * 60 for n in range(2000)}))}) as server:
        async with fetcher(server.endpoint) as world:
            with flat_memory():
                error = await world.trouble(server.url())
    assert error.message == "The answer of 127.0.0.1 is not valid HTTP."


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, br", ""])
@pytest.mark.parametrize("step", [1, 7, 1000, 1_000_000])
def test_a_decoder_gives_no_more_than_there_is_room_for(coding: str, step: int) -> None:
    packed = b"".join(b"%d, " % number for number in range(5_000))
    for name in coding.split(", "):
        packed = {
            "gzip": gzip.compress,
            "deflate": zlib.compress,
            "br": brotli.compress,
            "zstd": zstd.compress,
            "": bytes,
        }[name](packed)
    decoder = decoder_for([coding])
    max_bytes = 5000
    for start in range(0, len(packed), step):
        piece = decoder.decode(packed[start : start + step], max_bytes)
        assert len(piece) <= max_bytes
        max_bytes -= len(piece)
        if not max_bytes:
            return
    raise AssertionError("there was more")
