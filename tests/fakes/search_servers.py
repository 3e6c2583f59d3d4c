"""Search providers on loopback: an API that is asked by POST, and engines that stand behind a proxy."""

import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import h11
import trio
import trustme


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came. `host` is what the client wanted to reach."""

    host: str
    method: str
    target: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class Give:
    """An answer: `body` again and again, `times` in all; then silence, if it `hangs`."""

    body: object = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int = 1
    hangs: bool = False


Answering: TypeAlias = Callable[[Asked], Give]


class SearchServer:
    """What was `asked` so far, and how many connections are `open` and were made.

    `heads` are what a proxy was told before TLS began.
    """

    def __init__(self, answering: Answering) -> None:
        self.answering = answering
        self.asked: list[Asked] = []
        self.heads: list[bytes] = []
        self.open = 0
        self.connections = 0
        self.port = 0
        self._changed = trio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def wait_asked(self, number: int = 1) -> None:
        while len(self.asked) < number:
            await self._changed.wait()

    async def wait_idle(self) -> None:
        while self.open:
            await self._changed.wait()

    async def converse(self, host: str, stream: trio.abc.Stream) -> None:
        """One request and its answer; whoever goes away early is let go."""
        self.open += 1
        self.connections += 1
        try:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError):
                await self._converse(host, stream)
        finally:
            self.open -= 1
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _converse(self, host: str, stream: trio.abc.Stream) -> None:
        http = h11.Connection(h11.SERVER)
        asked = await _request(http, stream, host)
        if asked is None:
            return
        self.asked.append(asked)
        self._notify()
        give = self.answering(asked)
        body = give.body if isinstance(give.body, bytes) else json.dumps(give.body).encode()
        head = h11.Response(status_code=give.status, headers=[*give.headers.items(), ("connection", "close")])
        await stream.send_all(http.send(head) or b"")
        for _ in range(give.times):
            await stream.send_all(http.send(h11.Data(data=body)) or b"")
        if give.hangs:
            while await stream.receive_some(4096):
                pass
            return
        await stream.send_all(http.send(h11.EndOfMessage()) or b"")


@asynccontextmanager
async def serve_api(answering: Answering, tls: ssl.SSLContext | None = None) -> AsyncIterator[SearchServer]:
    """An API server; with `tls` it speaks HTTPS at the same port."""
    server = SearchServer(answering)

    async def serve(stream: trio.SocketStream) -> None:
        inner: trio.abc.Stream = stream
        if tls is not None:
            inner = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
        await server.converse("", inner)

    async with _listening(server, serve):
        yield server


@asynccontextmanager
async def serve_engines(answering: Answering, ca: trustme.CA) -> AsyncIterator[SearchServer]:
    """A proxy that lets nobody out: it is itself every host that somebody wants to reach through it."""
    server = SearchServer(answering)

    async def serve(stream: trio.SocketStream) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            more = await stream.receive_some(4096)
            if not more:
                return
            data += more
        server.heads.append(data)
        host = data.split()[1].decode().rpartition(":")[0]
        await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\n")
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        ca.issue_cert(host).configure_cert(tls)
        await server.converse(host, trio.SSLStream(stream, tls, server_side=True, https_compatible=True))

    async with _listening(server, serve):
        yield server


@asynccontextmanager
async def _listening(server: SearchServer, serve: Callable[[trio.SocketStream], Any]) -> AsyncIterator[None]:
    async def one(stream: trio.SocketStream) -> None:
        async with stream:
            with suppress(trio.BrokenResourceError):
                await serve(stream)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, one, 0, host="127.0.0.1"))
        server.port = listeners[0].socket.getsockname()[1]
        yield
        nursery.cancel_scope.cancel()


async def _request(http: h11.Connection, stream: trio.abc.Stream, host: str) -> Asked | None:
    head: h11.Request | None = None
    data = bytearray()
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await stream.receive_some(65536))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            data += event.data
        elif isinstance(event, h11.EndOfMessage):
            break
        else:
            return None
    assert head is not None
    headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
    body: Any = bytes(data)
    with suppress(ValueError):
        body = json.loads(data)
    return Asked(host, head.method.decode(), head.target.decode(), headers, body)
