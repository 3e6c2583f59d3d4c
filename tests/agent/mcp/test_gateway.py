"""The way out of a server's sandbox, with real sockets; the sandbox itself is in `test_hosts`."""

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import pytest
import trio
from dnslib import RCODE, DNSRecord

from rumi.agent.mcp.hosts import AskedHosts
from rumi.agent.mcp.outbound import gateway_of
from rumi.platform.config.schema import McpSection
from rumi.web.gateway import gateway as gateway_module
from rumi.web.gateway.gateway import MOST_CONNECTIONS, MOST_HEAD_BYTES
from rumi.web.gateway.listeners import etc_hosts, listeners_for
from rumi.web.messages import FetchRefused
from rumi.web.outbound import Host, host_of, read_host
from tests.agent.mcp.world import fake
from tests.fakes.proxy_servers import serve_proxy

BOUND_S = 20


class Names:
    """A resolver whose answers the test sets; each question takes the next answer, the last one stays."""

    def __init__(self, **answers: Sequence[str]) -> None:
        self.answers = {name.replace("_", "."): [*found] for name, found in answers.items()}
        self.asked: list[str] = []

    async def addresses(self, host: str) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        self.asked.append(host)
        several = self.answers[host]
        return [several.pop(0) if len(several) > 1 else several[0]]


@dataclass
class Site:
    """An origin on loopback that answers each request, and has the heads that it got."""

    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Own: 1\r\nConnection: keep-alive\r\n\r\nsite"
    reads: bool = True

    async def serve(self, stream: trio.SocketStream) -> None:
        """Take one request, answer it, and keep the connection open."""
        if not self.reads:
            await trio.sleep_forever()
        data = b""
        while b"\r\n\r\n" not in data:
            more = await stream.receive_some()
            if not more:
                return
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        self.heads.append(head)
        while b"chunked" in head and not body.endswith(b"0\r\n\r\n"):
            body += await stream.receive_some()
        while b"content-length: 3" in head.lower() and len(body) < 3:
            body += await stream.receive_some()
        self.bodies.append(body)
        await stream.send_all(self.answer)
        await trio.sleep_forever()


class World:
    """A gateway, its listeners on real ports, and what it refused."""

    def __init__(self, hosts: Sequence[str], names: Names | None) -> None:
        self.asked = AskedHosts()
        settings = fake(hosts=tuple(hosts), name="weather")
        self.gateway = gateway_of(settings, self.asked, names)
        self.ports: list[int] = []
        self._opened: list[trio.SocketStream] = []

    async def open(self, listener: int = 0) -> trio.SocketStream:
        """Connect as a program of the sandbox does, by default to the proxy."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.ports[listener])
        self._opened.append(stream)
        return stream

    def close(self) -> None:
        """Close the connections of the programs."""
        for stream in self._opened:
            stream.socket.close()

    async def says(self, request: bytes) -> bytes:
        """Return the answer to bytes that are sent to the proxy, until it ends the connection."""
        stream = await self.open()
        await stream.send_all(request)
        await stream.send_eof()
        found = b""
        while data := await stream.receive_some():
            found += data
        return found

    @property
    def refused(self) -> list[str]:
        """The hosts that were refused."""
        return [str(one.address or one.host) for one in self.asked.refused()]


@asynccontextmanager
async def world(*hosts: str, names: Names | None = None) -> AsyncIterator[World]:
    """Run a gateway as `running` does: it gets its listening sockets from another process."""
    made = World(hosts, names)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in made.gateway.listeners]
    sockets.append(socket.socket(type=socket.SOCK_DGRAM))
    sockets[-1].bind(("127.0.0.1", 0))
    made.ports = [one.getsockname()[1] for one in sockets]
    with trio.fail_after(BOUND_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.gateway.serve, ours)
            with theirs:
                socket.send_fds(theirs, [bytes(range(len(sockets)))], [one.fileno() for one in sockets])
            for one in sockets:
                one.close()
            try:
                yield made
            finally:
                made.close()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def site(**more: object) -> AsyncIterator[Site]:
    """Run an origin on a free port of loopback."""
    made = Site(**more)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, made.serve, 0, host="127.0.0.1")
        (listener,) = await nursery.start(serve)
        made.port = listener.socket.getsockname()[1]
        yield made
        nursery.cancel_scope.cancel()


def connect(host: str) -> bytes:
    return f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("asked", "is_allowed"),
    [
        ("api.example.org:443", True),
        ("API.Example.ORG:443", True),
        ("api.example.org.:443", True),
        ("api.example.org:0443", True),
        ("bücher.example:443", True),
        ("xn--bcher-kva.example:443", True),
        ("[2001:DB8:0::1]:8443", True),
        ("192.168.1.5:8123", True),
        ("192.168.261:8123", True),  # the same address, as the WHATWG rules read it
        ("localhost:9000", True),
        ("127.0.0.1:9000", True),
        ("api.example.org:80", False),
        ("api.example.org:8443", False),
        ("example.org:443", False),
        ("org:443", False),
        ("x.api.example.org:443", False),
        ("evilapi.example.org:443", False),
        ("api.example.org.evil.example:443", False),
        ("api-example.org:443", False),
        ("192.168.1.5:443", False),
        ("192.168.1.50:8123", False),
        ("127.0.0.2:9000", False),
        ("[::1]:9000", False),
        ("[::ffff:127.0.0.1]:9000", False),
        ("[2001:db8::1]:443", False),
        ("[2001:db8::2]:8443", False),
        ("bucher.example:443", False),
        ("bücher.example:80", False),
    ],
)
def test_only_the_very_host_and_port_are_allowed(asked: str, is_allowed: bool) -> None:
    hosts = (
        "api.example.org:443",
        "bücher.example:443",
        "[2001:db8::1]:8443",
        "192.168.1.5:8123",
        "localhost:9000",
    )
    made = World(hosts, None)
    if is_allowed:
        made.gateway.outbound.check(read_host(asked))
        assert not made.refused
        return
    with pytest.raises(FetchRefused, match="rumi mcp allow weather"):
        made.gateway.outbound.check(read_host(asked))
    assert made.refused == [str(read_host(asked))]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "api.example.org",
        "api.example.org:",
        "api.example.org:0",
        "api.example.org:65536",
        "*.example.org:443",
        "https://api.example.org:443",
        "me@api.example.org:443",
        "api.example.org:443/path",
        "api.example.org:443?x",
        "api.example.org:443#x",
        "api.example.org\\@evil.example:443",
        "a b:443",
        "::1:443",
        "[::1%25lo]:443",
        "api%2eexample.org:443",
        "a\x00b:443",
        "$(id).x:443",  # the advice names it in a command, which people copy into a shell
        "`id`.x:443",
        "a;id:443",
        "a'b:443",
        "a(b):443",
        "a..b:443",
        "a&b:443",
    ],
)
async def test_what_is_no_host_with_a_port_reaches_nothing(text: str) -> None:
    with pytest.raises(FetchRefused):
        read_host(text)
    if text and text.isprintable():
        with pytest.raises(ValueError, match=r"mcp|host"):
            McpSection(command="x", hosts=(text,))
    async with world("api.example.org:443") as made:
        answer = await made.says(b"CONNECT %b HTTP/1.1\r\nHost: x\r\n\r\n" % text.encode())
        assert answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400"))


async def test_a_tunnel_carries_both_directions_and_an_end_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def reverses(stream: trio.SocketStream) -> None:
        data = b""
        while more := await stream.receive_some():
            data += more
        await stream.send_all(data[::-1])  # after the program has ended its direction

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, reverses, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        async with world(f"127.0.0.1:{port}") as made:
            said = await made.says(connect(f"127.0.0.1:{port}") + b"early")
            assert said == b"HTTP/1.1 200 Connected\r\n\r\nylrae"
            direct = await made.open(1)  # a program that knows no proxies
            await direct.send_all(b"plain")
            await direct.send_eof()
            assert await direct.receive_some() == b"nialp"
        nursery.cancel_scope.cancel()


async def test_each_request_of_a_connection_is_judged() -> None:
    async with site() as one, site() as other, world(f"127.0.0.1:{one.port}") as made:
        first = f"GET http://127.0.0.1:{one.port}/a HTTP/1.1\r\nHost: x\r\n\r\n"
        second = f"GET http://127.0.0.1:{other.port}/b HTTP/1.1\r\nHost: 127.0.0.1:{one.port}\r\n\r\n"
        answer = await made.says(f"{first}{first}{second}".encode())
        assert answer.count(b"HTTP/1.1 200") == 2
        assert answer.count(b"HTTP/1.1 403 Not allowed by Rumi") == 1
        assert f"rumi mcp allow weather 127.0.0.1:{other.port}".encode() in answer
        assert (len(one.heads), len(other.heads)) == (2, 0)
        assert made.refused == [f"127.0.0.1:{other.port}"]


async def test_the_target_decides_and_not_the_header_host() -> None:
    async with site() as one, world(f"localhost:{one.port}") as made:
        answer = await made.says(
            f"GET http://localhost:{one.port}/a?b=c HTTP/1.1\r\nHost: evil.example\r\nConnection: X-Hop\r\n"
            "X-Hop: 1\r\nProxy-Authorization: Basic eA==\r\nUpgrade: h2c\r\nX-Own: 2\r\n\r\n".encode()
        )
        assert answer.endswith(b"site")
        (head,) = one.heads
        assert head.startswith(b"GET /a?b=c HTTP/1.1\r\nHost: localhost:%d" % one.port)
        assert b"x-own: 2" in head.lower()
        for gone in (b"evil", b"x-hop", b"proxy-authorization", b"upgrade", b"keep-alive"):
            assert gone not in head.lower()


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        ("POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", b"abc"),
        ("POST {} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", b"abc"),
        (
            "POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
            "3\r\nabc\r\n0\r\n\r\n",
            b"abc",
        ),
        (
            "POST {} HTTP/1.1\r\nHost: x\r\nConnection: content-length\r\nContent-Length: 3\r\n\r\nabc",
            b"abc",
        ),
        ("POST {} HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", b"abc"),
        ("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", b""),
        ("DELETE {} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", b"abc"),
    ],
)
async def test_requests_and_their_bodies_arrive(request_: str, body: bytes) -> None:
    async with site() as one, world(f"127.0.0.1:{one.port}") as made:
        answer = await made.says(request_.format(f"http://127.0.0.1:{one.port}/").encode())
        assert b" 200 OK" in answer
        assert answer.endswith(b"site")
        assert body in one.bodies[0]


@pytest.mark.parametrize(
    ("answer", "ends"),
    [
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsite\r\n0\r\n\r\n",
            b"4\r\nsite\r\n0\r\n\r\n",
        ),
        (
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsite",
            b"site",
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"\r\n\r\n"),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", b"\r\n\r\n"),
    ],
)
async def test_answers_of_each_form_arrive(answer: bytes, ends: bytes) -> None:
    async with site(answer=answer) as one, world(f"127.0.0.1:{one.port}") as made:
        got = await made.says(f"GET http://127.0.0.1:{one.port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert got.endswith(ends)
        assert b"103" not in got


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: api.example.org\r\n\r\n", b"403"),
        (b"GET https://api.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n", b"403"),
        (b"GET ftp://api.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n", b"403"),
        (b"GET http://me:secret@api.example.org:443/ HTTP/1.1\r\nHost: x\r\n\r\n", b"403"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", b"400"),
        (b"GET http://api.example.org:443/ HTTP/1.1\r\n\r\n", b"400"),
        (
            b"POST http://api.example.org:443/ HTTP/1.1\r\nHost: x\r\n"
            b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
            b"400",
        ),
        (b"GET http://api.example.org:443/ HTTP/1.1\r\nHost: x\r\nX: " + b"x" * MOST_HEAD_BYTES, b"431"),
    ],
)
async def test_odd_requests_are_refused_and_reach_nothing(request_: bytes, status: bytes) -> None:
    names = Names(api_example_org=["127.0.0.1"])
    async with world("api.example.org:443", names=names) as made:
        assert (await made.says(request_)).split(b" ")[1] == status
        assert not names.asked


async def test_a_name_of_a_private_address_is_refused_until_the_address_is_named() -> None:
    async with site() as one:
        name = f"api.example.org:{one.port}"
        for private in ("127.0.0.1", "192.168.1.5", "169.254.169.254", "::1", "::ffff:10.0.0.1", "fd00::1"):
            async with world(name, names=Names(api_example_org=[private])) as made:
                answer = await made.says(connect(name))
                assert b"is not public" in answer
                wanted = str(Host(private, one.port, is_ip=True))
                assert f"rumi mcp allow weather {wanted}".encode() in answer
                assert made.refused == [wanted]
        assert not one.heads
        async with world(name, f"127.0.0.1:{one.port}", names=Names(api_example_org=["127.0.0.1"])) as made:
            answer = await made.says(f"GET http://{name}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert answer.endswith(b"site")
            direct = await made.open(1)  # the listener of the name, without a proxy
            await direct.send_all(b"GET / HTTP/1.1\r\n\r\n")
            assert (await direct.receive_some()).endswith(b"site")
        async with world(name, names=Names(api_example_org=["127.0.0.1"])) as made:
            direct = await made.open(1)
            assert await direct.receive_some() == b""
            assert made.refused == [f"127.0.0.1:{one.port}"]


async def test_a_name_that_changes_its_address_is_judged_at_each_connection() -> None:
    async with site() as one:
        name, own = f"api.example.org:{one.port}", f"127.0.0.1:{one.port}"
        names = Names(api_example_org=["127.0.0.1", "127.0.0.2", "10.0.0.1"])
        async with world(name, own, names=names) as made:
            request = f"GET http://{name}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 3
            answer = await made.says(request)
            assert (answer.count(b" 200 OK"), answer.count(b" 403 ")) == (1, 1)
            assert (len(one.heads), names.asked) == (1, ["api.example.org"] * 2)
            assert made.refused == [f"127.0.0.2:{one.port}"]


async def test_a_host_that_does_not_answer_is_no_refusal() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    async with world(f"127.0.0.1:{port}") as made:
        answer = await made.says(connect(f"127.0.0.1:{port}"))
        assert answer.startswith(b"HTTP/1.1 502")
        assert b"does not answer" in answer
        assert not made.refused


async def test_a_host_that_reads_nothing_stops_the_program() -> None:
    async with site(reads=False) as one, world(f"127.0.0.1:{one.port}") as made:
        stream = await made.open()
        await stream.send_all(connect(f"127.0.0.1:{one.port}"))
        assert await stream.receive_some() == b"HTTP/1.1 200 Connected\r\n\r\n"
        sent = 0
        with trio.move_on_after(1):
            while sent < 200_000_000:
                await stream.send_all(b"x" * 100_000)
                sent += 100_000
        assert sent < 50_000_000  # what the kernel's buffers hold


async def test_more_connections_than_the_limit_wait() -> None:
    async with site() as one, world(f"127.0.0.1:{one.port}") as made:
        streams = [await made.open() for _ in range(MOST_CONNECTIONS)]
        late = await made.open()
        await late.send_all(connect("evil.example:443"))
        with trio.move_on_after(0.3) as waits:
            await late.receive_some()
        assert waits.cancelled_caught
        await streams[0].aclose()
        assert (await late.receive_some()).startswith(b"HTTP/1.1 403")


async def test_a_quiet_connection_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_module, "IDLE_S", 0.2)
    monkeypatch.setattr(gateway_module, "HEAD_S", 0.2)
    async with site(reads=False) as one, world(f"127.0.0.1:{one.port}") as made:
        assert await (await made.open()).receive_some() == b""
        tunnel = await made.open()
        await tunnel.send_all(connect(f"127.0.0.1:{one.port}"))
        assert await tunnel.receive_some()
        assert await tunnel.receive_some() == b""


@pytest.mark.parametrize("kind", ["http", "socks5"])
@pytest.mark.parametrize("password", ["", "p@ss"])
async def test_the_proxy_of_the_machine_is_used(
    kind: str, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    name = "me" if password else ""
    served: Literal["socks", "http"] = "socks" if kind == "socks5" else "http"
    async with site() as one, serve_proxy(served, one.port, user=name, password=password) as proxy:
        user = "me:p%40ss@" if password else ""
        monkeypatch.setenv("ALL_PROXY", f"{kind}://{user}{proxy.address}")
        names = Names()
        async with world("api.example.org:443", "api.example.org:80", names=names) as made:
            tunnel = await made.open()
            await tunnel.send_all(connect("api.example.org:443"))
            assert (await tunnel.receive_some()).startswith(b"HTTP/1.1 200")
            await tunnel.send_all(b"GET / HTTP/1.1\r\nHost: api.example.org\r\n\r\n")
            assert (await tunnel.receive_some()).endswith(b"site")
            assert b"403" in await made.says(connect("evil.example:443"))
            plain = await made.says(b"GET http://api.example.org/x HTTP/1.1\r\nHost: x\r\n\r\n")
            assert plain.endswith(b"site")
        assert proxy.asked == [("api.example.org", 443), ("api.example.org", 80)]
        assert not names.asked


def test_each_allowed_name_has_an_address_of_the_sandbox() -> None:
    hosts = [
        read_host(text)
        for text in ("a.example:443", "a.example:80", "b.example:5432", "localhost:3128", "10.0.0.1:80")
    ]
    listeners = listeners_for(hosts)
    assert [str(one) for one in listeners] == [
        "127.0.0.1:3129",  # the proxy, beside a port that is taken
        "127.1.0.1:443",
        "127.1.0.1:80",
        "127.1.0.2:5432",
        "127.0.0.1:3128",
    ]
    assert etc_hosts(listeners) == b"127.0.0.1 localhost\n127.1.0.1 a.example\n127.1.0.2 b.example\n"
    assert host_of("localhost", 1, is_ip=False).is_loopback


@pytest.mark.parametrize(
    ("name", "kind", "code", "found", "told"),
    [
        ("api.example.org", "A", "NOERROR", ["127.1.0.1"], []),
        ("API.Example.ORG", "A", "NOERROR", ["127.1.0.1"], []),
        ("api.example.org", "AAAA", "NOERROR", [], []),
        ("localhost", "A", "NOERROR", ["127.0.0.1"], []),
        ("other.example.org", "A", "NXDOMAIN", [], ["other.example.org:443"]),
        ("other.example.org", "AAAA", "NXDOMAIN", [], ["other.example.org:443"]),
        ("x.api.example.org", "HTTPS", "NXDOMAIN", [], ["x.api.example.org:443"]),
        ("rumi-mcp", "A", "NXDOMAIN", [], []),
        ("1.0.0.127.in-addr.arpa", "PTR", "NXDOMAIN", [], []),
    ],
)
async def test_the_sandbox_knows_the_allowed_names_and_tells_the_others(
    name: str, kind: str, code: str, found: list[str], told: list[str]
) -> None:
    async with world("api.example.org:443") as made:
        with trio.socket.socket(type=trio.socket.SOCK_DGRAM) as asking:
            await asking.connect(("127.0.0.1", made.ports[-1]))
            for malformed in (b"", b"x" * 5, bytes(12), b"\0\1\1\0\0\1" + bytes(6) + b"\xc0\x0c\0\1\0\1"):
                await asking.send(malformed)
            await asking.send(bytes(DNSRecord.question(name, kind).pack()))
            reply = DNSRecord.parse(await asking.recv(4096))
        assert RCODE[reply.header.rcode] == code
        assert [str(record.rdata) for record in reply.rr] == found
        assert str(reply.q.qname).rstrip(".") == name
        assert made.refused == told
