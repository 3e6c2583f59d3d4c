"""Real proxies on loopback, SOCKS 5 and HTTP, that lead every name to one server."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import trio

Fault = Literal["", "silent", "refuses", "wrong password", "http", "closes", "nonsense"]


@dataclass
class ProxyServer:
    """A proxy before the server at `target`. `asked` has the names that it was asked for, as it got them.

    `user` and `password` are asked for if they are set. `fault` is what it does instead of its work.
    """

    target: int
    user: str = ""
    password: str = ""
    fault: Fault = ""
    port: int = 0
    asked: list[tuple[str, int]] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    async def socks(self, stream: trio.SocketStream) -> None:
        """Serve one connection by RFC 1928, and RFC 1929 for the password."""
        _, count = await _exactly(stream, 2)
        await _exactly(stream, count)
        if self.fault == "silent":
            await trio.sleep_forever()
        if self.fault == "closes":
            return
        if self.fault in ("http", "nonsense"):
            await stream.send_all(
                b"HTTP/1.1 400 Bad Request\r\n\r\n" if self.fault == "http" else b"\x00\x00"
            )
            return
        if self.user:
            await stream.send_all(b"\x05\x02")
            _, size = await _exactly(stream, 2)
            user = await _exactly(stream, size)
            password = await _exactly(stream, (await _exactly(stream, 1))[0])
            right = (user.decode(), password.decode()) == (self.user, self.password)
            await stream.send_all(b"\x01\x00" if right else b"\x01\x01")
            if not right:
                return
        else:
            await stream.send_all(b"\x05\x00")
        kind = (await _exactly(stream, 4))[3]
        size = (await _exactly(stream, 1))[0] if kind == 3 else {1: 4, 4: 16}[kind]
        host = await _exactly(stream, size)
        port = int.from_bytes(await _exactly(stream, 2), "big")
        self.kinds.append({1: "IPv4", 3: "name", 4: "IPv6"}[kind])
        self.asked.append((host.decode() if kind == 3 else host.hex(), port))
        answer = b"\x05" if self.fault == "refuses" else b"\x00"
        await stream.send_all(b"\x05" + answer + b"\x00\x01\x7f\x00\x00\x01\x00\x00")
        if self.fault != "refuses":
            await self._pass_on(stream)

    async def http(self, stream: trio.SocketStream) -> None:
        """Serve one connection of CONNECT, or one request with the whole address in its first line."""
        head = b""
        while b"\r\n\r\n" not in head:
            more = await stream.receive_some(65536)
            if not more:
                return
            head += more
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        basic = base64.b64encode(f"{self.user}:{self.password}".encode())
        if self.user and b"basic " + basic not in head.replace(b"Basic", b"basic"):
            await stream.send_all(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
            return
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            self.asked.append((host, int(port)))
            await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\n")
            await self._pass_on(stream)
            return
        host, _, path = target.partition("://")[2].partition("/")
        name, _, port = host.partition(":")
        self.asked.append((name, int(port or 80)))
        first = head.replace(target.encode(), b"/" + path.encode(), 1)
        await self._pass_on(
            stream, first.replace(b"keep-alive", b"close")
        )  # only the first line is rewritten

    async def _pass_on(self, stream: trio.SocketStream, first: bytes = b"") -> None:
        async with (
            await trio.open_tcp_stream("127.0.0.1", self.target) as server,
            trio.open_nursery() as both,
        ):
            await server.send_all(first)
            both.start_soon(_copy, stream, server)
            await _copy(server, stream)
            both.cancel_scope.cancel()


async def _exactly(stream: trio.SocketStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = await stream.receive_some(size - len(data))
        if not more:
            raise trio.BrokenResourceError
        data += more
    return data


async def _copy(one: trio.SocketStream, other: trio.SocketStream) -> None:
    async for data in one:
        await other.send_all(data)


@asynccontextmanager
async def serve_proxy(
    kind: Literal["socks", "http"], target: int, *, user: str = "", password: str = "", fault: Fault = ""
) -> AsyncIterator[ProxyServer]:
    """Serve until the block is left."""
    server = ProxyServer(target, user, password, fault)

    async def one(stream: trio.SocketStream) -> None:
        async with stream:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError, ExceptionGroup):
                await (server.socks if kind == "socks" else server.http)(stream)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, one, 0, host="127.0.0.1"))
        server.port = listeners[0].socket.getsockname()[1]
        yield server
        nursery.cancel_scope.cancel()
