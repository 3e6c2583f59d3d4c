"""The server of HTTP on real sockets: it speaks HTTP/1 only, and no client can write into the log."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
import trio

from rumi.channels.http import server as listening_server
from rumi.channels.http.address import listen
from rumi.channels.http.listener import Listener
from rumi.channels.http.routes import make_app
from rumi.channels.http.server import serve
from rumi.channels.takers import Answer

H2C = (
    b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\n"
    b"http2-settings: AAMAAABkAAQAAP__\r\n\r\n"
)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"
GET = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


class Taker:
    """Takes ten bytes, from those who send no header `no`."""

    path = "/take"
    most_bytes = 10

    def refuses(self, headers: Mapping[str, str]) -> int:
        return 403 if "no" in headers else 0

    async def take(self, headers: Mapping[str, str], body: bytes) -> Answer:
        await trio.lowlevel.checkpoint()
        return Answer(200)


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    """Serve the listener's paths; yield the port."""
    bound = listen("127.0.0.1:0", "--listen")
    try:
        async with trio.open_nursery() as nursery:
            app = make_app(Listener(bound, "en", (Taker(),)))
            await nursery.start(lambda task_status: serve(app, bound, task_status=task_status))
            yield bound.port
            nursery.cancel_scope.cancel()
    finally:
        bound.close()


async def said(port: int, *pieces: bytes) -> bytes:
    """Send the pieces, and return all that comes back within a bound."""
    heard = b""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        with trio.move_on_after(1):
            try:
                for piece in pieces:
                    await stream.send_all(piece)
                    await trio.sleep(0.02)
                while data := await stream.receive_some(10_000):
                    heard += data
            except trio.BrokenResourceError:
                pass
    return heard


async def test_an_upgrade_to_http2_is_not_made() -> None:
    async with serving() as port:
        heard = await said(port, H2C, PREFACE)
    assert b" 101 " not in heard
    assert heard.startswith(b"HTTP/1.1 200 ")
    assert b"ok\n" in heard
    assert b"\0\0" not in heard  # no frame of HTTP/2


@pytest.mark.parametrize("pieces", [(PREFACE,), (PREFACE[:9], PREFACE[9:]), (GET, PREFACE)])
async def test_http2_without_an_upgrade_is_refused(pieces: tuple[bytes, ...]) -> None:
    async with serving() as port:
        heard = await said(port, *pieces)
    assert b"HTTP/1.1 505 " in heard
    assert b"\0\0" not in heard


@pytest.mark.parametrize(
    "pieces",
    [
        (b"POST /take HTTP/1.1\r\nhost: x\r\nno: 1\r\ncontent-length: 5\r\n\r\naaaaa and more", b"b" * 50),
        (b"POST /nothing HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\naaaaa and more", b"b" * 50),
        (b"POST /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\naaaaa and more", GET),
        (b"POST /take HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n" + b"a" * 500 + GET,),
        (b"POST /take HTTP/1.1\r\nhost: x\r\nno: 1\r\ncontent-length: 0\r\n\r\n" + GET,),
        (b"POST /take HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\naaaaa", b"b" * 50, b"c" * 45),
        (b"POST /take HTTP/1.1\r\nhost: x\r\nno: 1\r\ncontent-length: 200000\r\n\r\n", *[b"a" * 50_000] * 4),
        (
            b"POST /take HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n",
            *[b"5\r\naaaaa\r\n"] * 20,
            b"rubbish\r\n\r\n",
        ),
    ],
)
async def test_a_refused_request_with_more_behind_it_writes_nothing_into_the_log(
    pieces: tuple[bytes, ...], caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as port:
        heard = [await said(port, *pieces) for _ in range(3)]
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert all(answer.startswith(b"HTTP/1.1 4") for answer in heard if answer)


async def test_a_server_that_takes_what_its_library_takes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: hypercorn's own protocol."""
    monkeypatch.setattr(listening_server, "_Http1", listening_server.H11Protocol)
    async with serving() as port:
        assert b" 101 " in await said(port, H2C)
        assert b"\0\0" in await said(port, PREFACE)
