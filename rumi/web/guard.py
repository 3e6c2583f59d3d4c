"""Who may be connected to: the judgement over a host, a port, and all addresses of a name."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rumi.web.addresses import Endpoint, read_address, read_endpoint, why_refused
from rumi.web.resolver import Resolver
from rumi.web.types import FetchError, FetchRefused
from rumi.web.url import host_of, parse_target

WEB_PORTS: Final = (80, 443)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement over a URL.

    `reason` is empty where it is allowed. `host` is as the WHATWG parse writes it, with brackets around IPv6,
    and empty where that parse fails. `addresses` are empty where it did not come to them.
    """

    url: str
    allowed: bool
    reason: str
    host: str
    addresses: tuple[str, ...] = ()


class Guard:
    """Judges hosts by their addresses. `allow` are exact exceptions, as `ip:port` or `[ip]:port`.

    Raises:
        ValueError: an exception in `allow` is written in another way.
    """

    def __init__(self, resolver: Resolver, allow: Iterable[str] = ()) -> None:
        self._resolver = resolver
        self._allow: frozenset[Endpoint] = frozenset(map(read_endpoint, allow))
        self._allowed_ports = frozenset(port for _, port in self._allow)

    async def check(self, host: str, port: int) -> tuple[str, ...]:
        """The addresses that a host may be reached at, in the order to try them; the name is resolved once.

        Cancelled, it ends at once and nothing has been connected to.

        Raises:
            Refused: one of the addresses is forbidden, or the port.
            FetchError: the name has no address, or nobody could say.
        """
        addresses = await self._addresses(host, port)
        self._refuse(host, addresses, port)
        return addresses

    async def judge(self, url: str) -> Verdict:
        """Return what `check` would say about a URL; never raises what it can say."""
        addresses: tuple[str, ...] = ()
        try:
            target = parse_target(url)
            addresses = await self._addresses(target.host, target.port)
            self._refuse(target.host, addresses, target.port)
        except FetchError as no:
            return Verdict(url, False, no.message, host_of(url), addresses)
        return Verdict(url, True, "", host_of(url), addresses)

    async def _addresses(self, host: str, port: int) -> tuple[str, ...]:
        if port not in WEB_PORTS and port not in self._allowed_ports:
            raise _not_a_web_port(port)
        if read_address(host) is not None:
            return (host,)
        addresses = tuple(await self._resolver.addresses(host))
        if not addresses:
            raise FetchError("The name has no address.", "Check its spelling.")
        return addresses

    def _refuse(self, host: str, addresses: tuple[str, ...], port: int) -> None:
        """One forbidden address refuses them all: nobody can say which of them a name meant."""
        for address in addresses:
            known = read_address(address)
            if known is not None and (known, port) in self._allow:
                continue
            why = why_refused(address)
            if why is not None:
                what = address if address == host else f"{host} stands for {address}, which"
                raise FetchRefused(f"{what} is not public: {why}.", "Only public addresses are fetched from.")
            if port not in WEB_PORTS:
                raise _not_a_web_port(port)


def _not_a_web_port(port: int) -> FetchRefused:
    return FetchRefused(f"Port {port} is not a web port.", "Only ports 80 and 443 are fetched from.")
