"""The guard: decides from a server's port and IP addresses whether Rumi may connect to the server."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from rumi.web.addresses import Endpoint, read_address, read_endpoint, why_refused
from rumi.web.messages import FetchError, FetchRefused
from rumi.web.resolver import Resolver
from rumi.web.url import host_of, parse_target

WEB_PORTS: Final = (80, 443)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The guard's decision about a URL.

    `reason` is empty if the URL is allowed. `host` is normalized by the WHATWG parser, with brackets around
    IPv6 addresses; it is empty if the URL is invalid. `addresses` is empty if the name was not resolved.
    """

    url: str
    allowed: bool
    reason: str
    host: str
    addresses: tuple[str, ...] = ()


class AddressGuard:
    """Allows or refuses hosts by their addresses. `allow` lists exceptions, as `ip:port` or `[ip]:port`.

    `ports` are the ports of public addresses that may be used.

    Raises:
        ValueError: An exception in `allow` does not have one of these formats.
    """

    def __init__(
        self, resolver: Resolver, allow: Iterable[str] = (), ports: Collection[int] = WEB_PORTS
    ) -> None:
        self._resolver = resolver
        self._ports = ports
        self._allow: frozenset[Endpoint] = frozenset(map(read_endpoint, allow))
        self._allowed_ports = frozenset(port for _, port in self._allow)

    async def check(self, host: str, port: int) -> tuple[str, ...]:
        """Return the allowed addresses of a host, in the order to try them. The name is resolved once.

        The caller must connect to one of these addresses, because another lookup may return other addresses,
        which the guard has not checked. On cancellation, ends immediately.

        Raises:
            FetchRefused: The port or one of the addresses is forbidden.
            FetchError: The name has no address, or could not be resolved.
        """
        addresses = await self._addresses(host, port)
        self._refuse(host, addresses, port)
        return addresses

    async def is_public(self, host: str, port: int) -> bool:
        """Return True if the host is allowed even without the exceptions in `allow`.

        Raises:
            FetchRefused: See `check`.
            FetchError: See `check`.
        """
        addresses = await self.check(host, port)
        return port in WEB_PORTS and all(why_refused(address) is None for address in addresses)

    async def judge(self, url: str) -> Verdict:
        """Return the verdict about a URL.

        Refusals and failures are part of the verdict, and are not raised.
        """
        addresses: tuple[str, ...] = ()
        try:
            target = parse_target(url)
            addresses = await self._addresses(target.host, target.port)
            self._refuse(target.host, addresses, target.port)
        except FetchError as no:
            return Verdict(url, False, no.message, host_of(url), addresses)
        return Verdict(url, True, "", host_of(url), addresses)

    async def _addresses(self, host: str, port: int) -> tuple[str, ...]:
        if port not in self._ports and port not in self._allowed_ports:
            raise _not_a_web_port(port)
        if read_address(host) is not None:
            return (host,)
        addresses = tuple(await self._resolver.addresses(host))
        if not addresses:
            raise FetchError("The name has no address.", "Check its spelling.")
        return addresses

    def _refuse(self, host: str, addresses: tuple[str, ...], port: int) -> None:
        """Refuse a host if any of its addresses is forbidden, because any of them may be connected to.

        Raises:
            FetchRefused: One of the addresses, or the port, is forbidden.
        """
        for address in addresses:
            known = read_address(address)
            if known is not None and (known, port) in self._allow:
                continue
            why = why_refused(address)
            if why is not None:
                what = address if address == host else f"{host} stands for {address}, which"
                refused = FetchRefused(
                    "{what} is not public: {why}.",
                    "Only public addresses are fetched from.",
                    what=what,
                    why=why,
                )
                refused.address = address
                raise refused
            if port not in self._ports:
                raise _not_a_web_port(port)


def _not_a_web_port(port: int) -> FetchRefused:
    return FetchRefused(
        "Port {port} is not a web port.", "Only ports 80 and 443 are fetched from.", port=port
    )
