"""Connections of sandboxed programs: by the guard, or through the proxy of this machine."""

import base64
import re
import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

import httpcore
import trio

from rumi.platform.config.schema import is_host_port
from rumi.platform.http import Tls, close
from rumi.platform.proxies import PORTS, Proxy, proxies
from rumi.web.addresses import why_refused
from rumi.web.guard import AddressGuard
from rumi.web.messages import FetchError, FetchRefused
from rumi.web.network import GuardedNetwork
from rumi.web.url import parse_target

CONNECT_S: Final = 20.0
"""Maximum time to open a connection, with the lookup of the name and the answer of a proxy, in seconds."""

MOST_ANSWER_BYTES: Final = 16 * 1024
"""Maximum size of a proxy's answer to CONNECT, in bytes."""

# URLs may have more characters in a name, but no DNS name has them, and people copy these names into a shell.
_NAME: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9_][a-z0-9_-]*(?:\.[a-z0-9_-]+)*")

LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Host:
    """A host and a port. `name` is in small letters and ASCII, without brackets and without a dot at its end.

    `localhost` is `127.0.0.1`, so it needs no resolver.
    """

    name: str
    port: int
    is_ip: bool = False

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"

    @property
    def is_public(self) -> bool:
        """False for an address that is not globally reachable. A name is public until it is resolved."""
        return not self.is_ip or why_refused(self.name) is None

    @property
    def is_loopback(self) -> bool:
        """True for an address of this machine itself."""
        return self.is_ip and (self.name.startswith("127.") or self.name == "::1")


def host_of(name: str, port: int, *, is_ip: bool) -> Host:
    """Return the host of a parsed URL.

    Raises:
        FetchRefused: The name has characters that no name of a host has.
    """
    name = name.removesuffix(".")
    if not is_ip and _NAME.fullmatch(name) is None:
        raise FetchRefused("This is not a host with a port.", "Example: api.example.org:443")
    return Host(LOOPBACK, port, is_ip=True) if name == "localhost" else Host(name, port, is_ip)


def read_host(text: str) -> Host:
    """Read a `HOST:PORT`, as the configuration and the request CONNECT have it.

    Raises:
        FetchRefused: The text is not a host and a port.
    """
    if not is_host_port(text):
        raise FetchRefused("This is not a host with a port.", "Example: api.example.org:443")
    target = parse_target(f"https://{text}/")
    return host_of(target.host, target.port, is_ip=target.is_ip)


class Outbound:
    """Opens connections to the hosts that the `guard` allows.

    A name is resolved by the guard at each connection, and the connection goes to the address that was
    checked. If the environment names a proxy for a host, the proxy resolves the name.
    """

    def __init__(self, guard: AddressGuard) -> None:
        self._network = GuardedNetwork(guard)
        self._tls = Tls()

    def check(self, host: Host) -> None:
        """Check a host before its name is resolved; the guard checks its addresses later.

        Raises:
            FetchRefused: The host may not be reached.
        """

    def note_unknown(self, name: str) -> None:
        """Note that a program looked up a name without using the proxy, and got no address."""

    def proxy_for(self, host: Host, scheme: str) -> Proxy | None:
        """Return the machine's proxy for a host; None if it is reached without one.

        Raises:
            SetupError: The proxy of the environment cannot be used.
        """
        return proxies().to(scheme, host.name, host.port)

    async def connect(self, host: Host, scheme: str = "https") -> httpcore.AsyncNetworkStream:
        """Open a connection to a host. On cancellation, leaves no connection.

        Raises:
            FetchRefused: The guard refuses the host's address.
            FetchError: The host does not answer.
            SetupError: The proxy of the environment cannot be used.
        """
        proxy = self.proxy_for(host, scheme)
        if proxy is None:
            return await self._network.connect_tcp(host.name, host.port, CONNECT_S)
        with trio.move_on_after(CONNECT_S):
            return await self._through(proxy, host)
        raise FetchError("The proxy {proxy} did not answer in time.", proxy=proxy.shown)

    async def to_proxy(self, proxy: Proxy) -> httpcore.AsyncNetworkStream:
        """Open a connection to the machine's proxy.

        Raises:
            FetchError: The proxy does not answer.
        """
        parts = urlsplit(proxy.url)
        port = parts.port or (1080 if proxy.socks else PORTS[parts.scheme])
        stream = None
        try:
            stream = await httpcore.TrioBackend().connect_tcp(parts.hostname or "", port, CONNECT_S)
            if parts.scheme == "https":
                context = await self._tls.context()
                return await stream.start_tls(context, parts.hostname, CONNECT_S)
        except (httpcore.NetworkError, httpcore.TimeoutException, ssl.SSLError) as error:
            if stream is not None:
                await close(stream.aclose)
            raise FetchError("The proxy {proxy} does not answer.", proxy=proxy.shown) from error
        return stream

    async def _through(self, proxy: Proxy, host: Host) -> httpcore.AsyncNetworkStream:
        stream = await self.to_proxy(proxy)
        opened = False
        try:
            fine = await (_socks if proxy.socks else _tunnel)(stream, proxy, host)
            opened = fine
        except (httpcore.NetworkError, httpcore.TimeoutException):
            fine = False
        finally:
            if not opened:
                await close(stream.aclose)
        if not fine:
            raise FetchError("The proxy {proxy} does not reach {host}.", proxy=proxy.shown, host=host)
        return stream


def credentials(proxy: Proxy) -> list[tuple[str, str]]:
    """Return the header with the user and the password of a proxy; nothing if it has none."""
    parts = urlsplit(proxy.url)
    if parts.username is None:
        return []
    both = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return [("Proxy-Authorization", f"Basic {base64.b64encode(both).decode()}")]


async def _tunnel(stream: httpcore.AsyncNetworkStream, proxy: Proxy, host: Host) -> bool:
    """Ask an HTTP proxy for a connection; return False if it refuses."""
    lines = [f"CONNECT {host} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in credentials(proxy)]
    await stream.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):  # byte by byte: what follows belongs to the host
        byte = await stream.read(1)
        if not byte or len(head) > MOST_ANSWER_BYTES:
            return False
        head += byte
    return head.split(b" ", 2)[1:2] == [b"200"]


async def _socks(stream: httpcore.AsyncNetworkStream, proxy: Proxy, host: Host) -> bool:
    """Ask a SOCKS proxy for a connection (RFC 1928, RFC 1929); return False if it refuses."""
    parts = urlsplit(proxy.url)
    user, password = (unquote(parts.username or "").encode(), unquote(parts.password or "").encode())
    await stream.write(b"\x05\x01\x02" if user else b"\x05\x01\x00")
    answer = await _exactly(stream, 2)
    if answer == b"\x05\x02" and user:
        await stream.write(b"\x01%c%b%c%b" % (len(user), user, len(password), password))
        if await _exactly(stream, 2) != b"\x01\x00":
            return False
    elif answer != b"\x05\x00":
        return False
    name = host.name.encode()
    await stream.write(b"\x05\x01\x00\x03%c%b%b" % (len(name), name, host.port.to_bytes(2, "big")))
    answer = await _exactly(stream, 4)
    if answer[:2] != b"\x05\x00" or answer[3] not in (1, 3, 4):
        return False
    size = {1: 4, 4: 16}.get(answer[3]) or (await _exactly(stream, 1))[0]
    await _exactly(stream, size + 2)
    return True


async def _exactly(stream: httpcore.AsyncNetworkStream, count: int) -> bytes:
    """Read `count` bytes.

    Raises:
        ReadError: The connection ended earlier.
    """
    found = b""
    while len(found) < count:
        more = await stream.read(count - len(found))
        if not more:
            raise httpcore.ReadError("the proxy closed the connection")
        found += more
    return found
