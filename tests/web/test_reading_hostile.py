"""Pages made to do harm: what they do to a reader ends with it."""

import os
import sys
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from rumi.web.messages import FetchError, PageText
from rumi.web.readers.pages.readers import Readers
from tests.web.pdfs import pdf
from tests.web.reading_at_work import PATIENCE_S, SLOW, pids, read


@pytest.fixture
async def readers() -> AsyncIterator[Readers]:
    async with Readers(at_once=2, read_s=2).running() as running:
        yield running


async def test_a_reader_may_do_little(readers: Readers) -> None:
    before = pids()  # a process that another test has not waited for counts as one
    await read(readers, b"x")
    (pid,) = pids() - before
    limits = Path(f"/proc/{pid}/limits").read_text()
    bounds = {line[:26].strip(): line[26:].split()[0] for line in limits.splitlines()}
    assert bounds["Max address space"] == "512000000"
    assert bounds["Max file size"] == "0"
    assert bounds["Max core file size"] == "0"
    assert int(bounds["Max open files"]) <= 16
    assert int(bounds["Max cpu time"]) < 60
    assert os.getpriority(os.PRIO_PROCESS, pid) >= 10
    names = {entry.partition(b"=")[0] for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")}
    assert names <= {b"LANG", b"LC_ALL", b""}
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert "Seccomp:\t2\n" in Path(f"/proc/{pid}/status").read_text()


CONFINED = """
import errno, os, resource, signal, socket, sys
from rumi.sandbox.confined.confinement import confine

def refused(attempt):
    try:
        attempt()
    except PermissionError:
        return True
    return False

assert confine()
parent = int(sys.argv[1])
attempts = {
    "open": lambda: open("/etc/passwd"),
    "write a file": lambda: open("/tmp/made-by-a-reader", "w"),
    "list": lambda: os.listdir("/"),
    "socket": lambda: socket.socket(),
    "local socket": lambda: socket.socket(socket.AF_UNIX),
    "fork": os.fork,
    "run": lambda: os.execv("/bin/true", ["true"]),
    "kill": lambda: os.kill(parent, signal.SIGCONT),
    "limits of others": lambda: resource.prlimit(parent, resource.RLIMIT_NOFILE),
    "remove": lambda: os.unlink("/tmp/made-by-a-reader"),
}
print(*(name for name, attempt in attempts.items() if not refused(attempt)), sep=",")
"""


async def test_a_reader_opens_no_file_no_socket_and_no_program() -> None:
    done = await trio.run_process(
        [sys.executable, "-c", CONFINED, str(os.getpid())],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == (b"\n", b"", 0)


def bomb(megabytes: int) -> bytes:
    packing = zlib.compressobj(9)
    return b"".join(packing.compress(b" " * 1_000_000) for _ in range(megabytes)) + packing.flush()


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "ha"}">' for n in range(10))
HOSTILE = {
    "a million divs": (b"<div>" * 1_000_000 + b"x" + b"</div>" * 1_000_000, "text/html"),
    "deep lists": (b"<ul><li>x" * 100_000, "text/html"),
    "deep quotes": (b"<blockquote>x" * 70_000, "text/html"),
    "attribute soup": (SLOW, "text/html"),
    "a billion laughs": (
        f"<?xml version='1.0'?><!DOCTYPE rss [{LAUGHS}]><rss><title>&l9;</title></rss>".encode(),
        "application/rss+xml",
    ),
    "a table of 60,000 cells": (b"<table>" + b"<tr><td>1<td>2<td>3" * 20_000, "text/html"),
    "a table of large spans": (
        b"<table>" + b"<tr><td rowspan=65000 colspan=1000>x<td>y" * 20_000,
        "text/html",
    ),
    "nothing but NULs": (b"\0" * 1_000_000, "text/html"),
    "NULs in between": (b"<p>w\0ord</p> words and words and words" * 20_000, "text/html"),
    "all comments": (b"<!-- -->" * 125_000, ""),
    "backticks": (b"<pre>" + b"`" * 1_000_000, "text/html"),
    "one long name": (b"<div class='" + b"menu-" * 200_000 + b"'>x", "text/html"),
    "one long style": (b"<style>" + b"a,{" * 300_000, "text/html"),
    "empty links": (b"<a href=x>" * 40_000, "text/html"),
    "all bytes": (bytes(range(256)) * 4000, "text/html"),
}


async def read_or_error(readers: Readers, body: bytes, media_type: str) -> PageText | FetchError:
    try:
        return await read(readers, body, media_type)
    except FetchError as error:
        return error


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_page_ends_in_bounded_time_with_a_clear_result(readers: Readers, name: str) -> None:
    body, media_type = HOSTILE[name]
    with trio.fail_after(PATIENCE_S):
        result = await read_or_error(readers, body, media_type)
        if isinstance(result, PageText):
            assert result.text or result.described
            assert len(result.text) <= 20_000
        else:
            assert result.message == "The page could not be read: it took more than 2 seconds."
        # Whoever comes next gets a reader that is well.
        assert (await read(readers, b"<p>fine")).text == "fine"


@pytest.mark.long
async def test_a_page_that_takes_too_much_memory_is_given_up(readers: Readers) -> None:
    with pytest.raises(FetchError, match="too much memory"):
        await read(readers, pdf([bomb(400)], flate=True), "application/pdf")
    assert (await read(readers, b"<p>fine")).text == "fine"
