"""Web servers on loopback, over HTTP/1.1 and TLS, that do to their clients what servers do."""

import itertools
import socket
import ssl
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import trio
import trustme

GONE = (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came; header names in lower case, each header once."""

    method: str
    target: str
    headers: Mapping[str, str]
    head: bytes


Answering: TypeAlias = Callable[["trio.abc.Stream", Asked], Awaitable[None]]


@dataclass(eq=False)
class WebServer:
    """`paths` are what it answers, by path without query; anything else is `otherwise`.

    `asked` has every request, `open` is how many connections there are at this moment and `most_open` how
    many there were at once; `sent_bytes` counts bodies.
    """

    scheme: str = "http"
    port: int = 0
    paths: dict[str, Answering] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    open: int = 0
    most_open: int = 0
    connections: int = 0
    greets: bool = True  # False: nothing is ever said, not even a TLS handshake
    changed: trio.Event = field(default_factory=trio.Event)

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    async def until(self, condition: Callable[["WebServer"], bool]) -> None:
        while not condition(self):
            await self.changed.wait()

    def notify(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def converse(self, stream: trio.abc.Stream) -> None:
        asked = await _request(stream)
        if asked is None:
            return
        self.asked.append(asked)
        self.notify()
        await self.paths.get(asked.target.partition("?")[0], not_there)(stream, asked)


@asynccontextmanager
async def serving(
    paths: Mapping[str, Answering] | None = None, tls: ssl.SSLContext | None = None, *, greets: bool = True
) -> AsyncIterator[WebServer]:
    """A server; with `tls` it speaks HTTPS. At the end its connections are closed."""
    server = WebServer("https" if tls else "http", paths=dict(paths or {}), greets=greets)

    async def one(tcp: trio.SocketStream) -> None:
        server.open += 1
        server.connections += 1
        server.most_open = max(server.most_open, server.open)
        server.notify()
        try:
            async with tcp:
                if not server.greets:
                    await until_gone(tcp)
                    return
                stream: trio.abc.Stream = tcp
                if tls is not None:
                    stream = trio.SSLStream(tcp, tls, server_side=True, https_compatible=True)
                with suppress(*GONE):
                    await server.converse(stream)
        finally:
            server.open -= 1
            server.notify()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, one, 0, host="127.0.0.1", backlog=512))
        server.port = listeners[0].socket.getsockname()[1]
        yield server
        nursery.cancel_scope.cancel()


def certificate(ca: trustme.CA, *names: str) -> ssl.SSLContext:
    """What a server needs to be these names."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert(*names).configure_cert(context)
    return context


def trusting(ca: trustme.CA) -> ssl.SSLContext:
    """A client's context that trusts one authority."""
    context = ssl.create_default_context()
    ca.configure_trust(context)
    return context


@asynccontextmanager
async def deaf() -> AsyncIterator[int]:
    """A port that takes no connection and turns none away: its queue is full."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    waiting = [socket.socket() for _ in range(4)]
    for one in waiting:
        one.setblocking(False)
        one.connect_ex(listener.getsockname())
    try:
        yield listener.getsockname()[1]
    finally:
        for one in (*waiting, listener):
            one.close()


# What it answers.


def gives(
    body: bytes | str = b"",
    status: int = 200,
    media_type: str = "text/html; charset=utf-8",
    headers: Mapping[str, str] | None = None,
) -> Answering:
    """A whole answer at once."""
    data = body.encode() if isinstance(body, str) else body

    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        told = {"Content-Type": media_type, "Content-Length": str(len(data)), **(headers or {})}
        await stream.send_all(head(status, told) + (b"" if asked.method == "HEAD" else data))

    return answer


def redirects(to: str | Callable[[Asked], str], status: int = 302) -> Answering:
    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        where = to if isinstance(to, str) else to(asked)
        await stream.send_all(head(status, {"Location": where, "Content-Length": "0"}))

    return answer


def streams(
    pieces: Callable[[], Iterator[bytes]],
    *,
    every_s: float = 0,
    chunked: bool = False,
    media_type: str = "text/plain",
    headers: Mapping[str, str] | None = None,
) -> Answering:
    """Pieces of a body, one after the other, for as long as there are some and somebody listens."""

    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        told = {"Content-Type": media_type, **(headers or {})}
        await stream.send_all(head(200, {**told, **({"Transfer-Encoding": "chunked"} if chunked else {})}))
        for piece in pieces():
            await stream.send_all(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
            if every_s:
                await trio.sleep(every_s)
        if chunked:
            await stream.send_all(b"0\r\n\r\n")

    return answer


def drips(piece: bytes = b".", every_s: float = 0.05, media_type: str = "text/plain") -> Answering:
    return streams(lambda: itertools.repeat(piece), every_s=every_s, media_type=media_type)


def says(*parts: bytes) -> Answering:
    """Bytes as they are, and the end."""

    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        for part in parts:
            await stream.send_all(part)

    return answer


def says_for_ever(first: bytes, again: bytes) -> Answering:
    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        await stream.send_all(first)
        while True:
            await stream.send_all(again)

    return answer


async def silence(stream: trio.abc.Stream, asked: Asked) -> None:
    """No answer, for as long as the client waits."""
    await until_gone(stream)


def then_silence(first: bytes) -> Answering:
    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        await stream.send_all(first)
        await until_gone(stream)

    return answer


def resets(first: bytes = b"") -> Answering:
    """What has been said so far, and then the connection is torn down."""

    async def answer(stream: trio.abc.Stream, asked: Asked) -> None:
        assert isinstance(stream, trio.SocketStream)
        if first:
            await stream.send_all(first)
            await trio.sleep(0.05)  # a reset overtakes what has not been read
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return answer


async def not_there(stream: trio.abc.Stream, asked: Asked) -> None:
    await gives("<h1>Not here</h1>", 404)(stream, asked)


def head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def gzip_bomb(unpacked_bytes: int, step: int = 1 << 20) -> Iterator[bytes]:
    """A gzip file of zeros, made as it is sent: about a thousandth of what it unpacks to."""
    packer = zlib.compressobj(9, wbits=31)
    first = packer.compress(b"0" * step) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(b"0" * step) + packer.flush(zlib.Z_FULL_FLUSH)
    yield first + again * 63  # one read of the client unpacks to many MB
    for _ in range(unpacked_bytes // step // 64):
        yield again * 64


async def until_gone(stream: trio.abc.Stream) -> None:
    with suppress(*GONE):
        while await stream.receive_some(4096):
            pass


async def _request(stream: trio.abc.Stream) -> Asked | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = await stream.receive_some(65536)
        if not more:
            return None
        data += more
        if data.startswith(b"\x16\x03"):  # TLS, where none is spoken
            await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            return None
    first, *lines = data.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    assert len(headers) == len(lines), "a header came twice"
    return Asked(method, target, headers, data)
