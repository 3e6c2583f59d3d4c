"""The processes that read: kept while they are needed, and gone when they should be."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from rumi.web.messages import FetchError, PageText
from rumi.web.readers.pages.page import read_page
from rumi.web.readers.pages.readers import Readers
from tests.web.pdfs import pdf
from tests.web.reading_at_work import SLOW, URL, none_of, one_at_work, one_ready, pids, read
from tests.web.saved_pages import saved_pages


@pytest.fixture
async def readers() -> AsyncIterator[Readers]:
    async with Readers(at_once=2, read_s=2).running() as running:
        yield running


async def test_a_page_is_read_in_a_process_that_is_kept_for_the_next(readers: Readers) -> None:
    assert pids() == set()
    text = await read(readers, "<title>Tarjeta</title><p>Una página <a href=/x>más</a>".encode())
    assert text == PageText(
        "Tarjeta", "Una página [más](https://site.example/x)", ("https://site.example/x",)
    )
    first = pids()
    assert len(first) == 1
    assert (await read(readers, b"words", "text/plain")).text == "words"
    assert pids() == first


async def test_a_reader_is_kept_however_large_its_owner_is() -> None:
    """What a process was forked from counts in its own `getrusage`, and is not what it holds."""
    large = bytearray(200_000_000)
    large[::4096] = b"x" * len(large[::4096])
    readers = Readers()
    async with readers.running():
        await read(readers, b"<p>one")
        first = pids()
        assert len(first) == 1
        await read(readers, b"<p>two")
        assert pids() == first
    assert len(large)


async def test_no_more_pages_are_read_at_once_than_allowed(readers: Readers) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(read, readers, b"<p>%d" % number)
    assert len(pids()) == 2


async def test_what_is_read_in_a_process_is_what_is_read_here(readers: Readers) -> None:
    bodies = [(page.body, "text/html") for page in saved_pages()]
    bodies += [(("Вчера вечером мы долго гуляли по набережной. " * 3).encode("koi8-r"), "text/plain")]
    bodies += [(("東京の天気は晴れです。" * 9).encode("cp932"), "text/html")]
    bodies += [(pdf([b"(one) Tj", b"(two) Tj"], title="Title"), "application/pdf")]
    bodies += [(b"<feed><title>t</title><entry><title>e</title></entry></feed>", "application/atom+xml")]
    bodies += [(b"\x89PNG\r\n\x1a\n\0\0", "image/png"), (b"{}", "application/json")]
    for body, media_type in bodies:
        here = read_page(body, media_type=media_type, charset="", url=URL, max_chars=20_000)
        assert await read(readers, body, media_type) == here


async def test_a_cancelled_read_leaves_no_process(readers: Readers) -> None:
    since = await one_ready(readers)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read, readers, SLOW)
        pid = await one_at_work(since)
        nursery.cancel_scope.cancel()
    assert pids() == set()
    assert not Path(f"/proc/{pid}").exists()
    assert readers.idle == 0
    assert (await read(readers, b"fine", "text/plain")).text == "fine"


async def test_a_reader_that_is_killed_is_an_error_and_the_next_page_is_read(readers: Readers) -> None:
    since = await one_ready(readers)
    async with trio.open_nursery() as nursery:

        async def lose() -> None:
            with pytest.raises(FetchError, match=r"could not be read.*SIGKILL"):
                await read(readers, SLOW)

        nursery.start_soon(lose)
        os.kill(await one_at_work(since), signal.SIGKILL)
    assert pids() == set()
    assert (await read(readers, b"fine", "text/plain")).text == "fine"


async def test_a_reader_that_died_while_it_was_idle_is_replaced(readers: Readers) -> None:
    await read(readers, b"x", "text/plain")
    (pid,) = pids()
    os.kill(pid, signal.SIGKILL)
    await trio.sleep(0.05)
    assert (await read(readers, b"fine", "text/plain")).text == "fine"


async def test_idle_readers_end_after_a_while() -> None:
    async with Readers(at_once=2, idle_s=1.0).running() as readers:
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(read, readers, b"<p>x")
        assert len(pids()) == 2
        await none_of(pids)
        assert readers.idle == 0
        assert (await read(readers, b"fine", "text/plain")).text == "fine"


async def test_no_reader_outlives_its_owner() -> None:
    async with Readers().running() as readers:
        await read(readers, b"x")
        assert len(pids()) == 1
    assert pids() == set()
    with pytest.raises(RuntimeError):
        await read(readers, b"x")


OWNER = """
import sys, trio
from rumi.web.readers.pages.readers import Readers

async def main():
    async with Readers(at_once=2, read_s=60).running() as readers:
        async with trio.open_nursery() as nursery:
            async def read(body):
                await readers.read(body, media_type="text/html", charset=None, url="", max_chars=9)

            async with trio.open_nursery() as both:
                both.start_soon(read, b"one")
                both.start_soon(read, b"two")
            nursery.start_soon(read, b"<p " + b" ".join(b"a%d=1" % n for n in range(150_000)) + b">x")
            await trio.sleep(1)
            print("at work", flush=True)
            await trio.sleep_forever()

trio.run(main)
"""


def children_of(parent: int) -> set[int]:
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent and fields[0] != "Z":
            found.add(int(status.parent.name))
    return found


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_no_reader_outlives_an_owner_that_was_killed() -> None:
    owner = await trio.lowlevel.open_process([sys.executable, "-c", OWNER], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    try:
        with trio.fail_after(30):
            await owner.stdout.receive_some(1)
        children = children_of(owner.pid)
        assert len(children) == 2  # one waits, one is in the midst of a page
    finally:
        owner.kill()
        await owner.wait()
        await owner.stdout.aclose()
    await none_of(lambda: {child for child in children if runs(child)})
