"""Requests to addresses that a server of the user's has named, such as those of its authorization server."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

import httpcore
import trio
from typing_extensions import override

from rumi.web.addresses import read_address, why_refused
from rumi.web.fetch.http_exchange import Interrupted
from rumi.web.fetch.stream import GuardedStreams
from rumi.web.guard import AddressGuard
from rumi.web.messages import FetchError, FetchRefused
from rumi.web.outbound import Host, Outbound, host_of
from rumi.web.resolver import Resolver, SystemResolver
from rumi.web.url import Target, parse_target

REQUEST_S: Final = 20.0
"""Maximum time of one request, with the lookup of the name and the whole answer, in seconds."""

MOST_BYTES: Final = 256 * 1024
"""Maximum size of an answer, in bytes. Metadata has a few thousand."""

_MOST_REDIRECTS: Final = 3
_INSIDE: Final = frozenset({"loopback", "private", "shared, behind a carrier's NAT"})
"""Kinds of addresses that are not public and that a named server may have, as in `why_refused`."""


@dataclass(frozen=True, slots=True)
class ReferralAnswer:
    """An answer: its HTTP status and its body."""

    status: int
    body: bytes


class Referrals:
    """Makes requests to addresses that the server with the address `url` has named.

    They must be https, and public. If the server itself has an address of this machine or of a private
    network, they may be of the same kind, and may be http on this machine. Addresses of cloud metadata are
    never allowed. `tls` has the trusted certificates; by default, httpx's certificates are trusted.
    """

    def __init__(
        self, url: str, *, resolver: Resolver | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._network = _ReferralNetwork(url, resolver or SystemResolver())
        self._streams = GuardedStreams(self._network, tls=tls, max_redirects=_MOST_REDIRECTS)

    async def check(self, url: str) -> Target:
        """Return the parts of an address to which a browser or a token may be sent.

        Raises:
            FetchRefused: The address is not https, or the guard refuses it.
            FetchError: The name has no address.
        """
        target = _secure(url)
        await self._network.allowed(target.host, target.port)
        return target

    async def ask(
        self, url: str, headers: Sequence[tuple[str, str]], body: bytes | None = None
    ) -> ReferralAnswer:
        """Make a request: a GET or, with a `body`, a POST. On cancellation, leaves no connection.

        Redirects of a GET are followed, and each is checked. Those of a POST are not, so that what it sends
        reaches no other server.

        Raises:
            FetchRefused: The address is not https, or the guard refuses it.
            FetchError: There was no complete answer.
        """
        target = _secure(url)
        try:
            with trio.move_on_after(REQUEST_S):
                async with self._streams.stream(url, headers, most_bytes=MOST_BYTES, body=body) as answer:
                    parts = []
                    while part := await answer.more():
                        parts.append(part)
                    return ReferralAnswer(answer.status, b"".join(parts))
        except Interrupted as error:  # in the head of the answer
            raise FetchError(
                "{host} did not send all of it: {error}.",
                "Try again later.",
                host=target.authority,
                error=error,
                answered=True,
            ) from error
        raise FetchError(
            "{host} did not answer within {limit_s} s.",
            "Try again later.",
            host=target.authority,
            limit_s=f"{REQUEST_S:g}",
        )


def _secure(url: str) -> Target:
    """Parse an address; http is only for this machine.

    Raises:
        FetchRefused: The address is not one of the web, or it is http.
    """
    target = parse_target(url)
    host = host_of(target.host, target.port, is_ip=target.is_ip)
    if target.scheme != "https" and not host.is_loopback:
        raise FetchRefused(
            "{host} is not asked over http, because others could read the login on the way.",
            "Its service has to use https.",
            host=target.authority,
        )
    return target


class _ReferralNetwork(httpcore.AsyncNetworkBackend):
    """Connects to named hosts, by the guard or through the proxy of this machine."""

    def __init__(self, url: str, resolver: Resolver) -> None:
        self._server = parse_target(url)
        self._resolver = resolver
        self._kinds: frozenset[str] | None = None

    @override
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: object = None,
    ) -> httpcore.AsyncNetworkStream:
        """Open a connection to an allowed address. On cancellation, leaves no connection.

        Raises:
            FetchRefused: The address is not allowed.
            FetchError: The host does not answer.
        """
        named = host_of(host, port, is_ip=read_address(host) is not None)
        allow = [str(one) for one in await self.allowed(host, port) if one.is_ip]
        return await Outbound(AddressGuard(self._resolver, allow=allow, ports={port})).connect(named)

    async def allowed(self, host: str, port: int) -> list[Host]:
        """Return a host, with the addresses that are not public and that it may nevertheless have.

        Raises:
            FetchRefused: The host is an address that is not allowed.
            FetchError: The name has no address.
        """
        named = host_of(host, port, is_ip=read_address(host) is not None)
        if named.is_ip:
            why = why_refused(named.name)
            if why is not None and why not in await self._inside():
                raise FetchRefused("{host} is not public: {why}.", host=named, why=why)
            return [named]
        if self._proxied(named):
            return [named]
        found = await self._resolver.addresses(named.name)
        inside = await self._inside() if any(map(why_refused, found)) else frozenset()
        # The guard resolves the name again, and allows exactly these addresses and public ones.
        return [named, *(Host(one, port, is_ip=True) for one in found if why_refused(one) in inside)]

    async def _inside(self) -> frozenset[str]:
        """Return the kinds of the server's own addresses that are not public."""
        if self._kinds is None:
            own = host_of(self._server.host, self._server.port, is_ip=self._server.is_ip)
            addresses = [own.name] if own.is_ip else []
            if not own.is_ip and not self._proxied(own):
                addresses = [*await self._resolver.addresses(own.name)]
            kinds = frozenset(map(why_refused, addresses))
            # A name with a public address too is somebody's choice: it must not open the way to private ones.
            self._kinds = (
                frozenset(why for why in kinds if why is not None) if kinds <= _INSIDE else frozenset()
            )
        return self._kinds

    def _proxied(self, host: Host) -> bool:
        return Outbound(AddressGuard(self._resolver)).proxy_for(host, "https") is not None

    @override
    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: object = None
    ) -> NoReturn:
        """Refuse the connection, because no web server uses a Unix socket.

        Raises:
            FetchRefused: Always.
        """
        raise FetchRefused("The web is not behind a Unix socket.")

    @override
    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)
