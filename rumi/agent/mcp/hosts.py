"""The hosts that a sandboxed server may reach, and those that it asked for without being allowed to."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from rumi.platform.config.schema import McpSection
from rumi.texts import Text
from rumi.web.messages import FetchRefused
from rumi.web.outbound import Host, host_of, read_host
from rumi.web.url import parse_target

MOST_REMEMBERED: Final = 32
"""Maximum number of different hosts that are remembered for a server."""

_URL: Final = re.compile(r"\b(?P<scheme>[a-z][a-z0-9+.-]{1,20})://(?:[^\s/@\"']*@)?(?P<host>[^\s/?#,\"']+)")
_PORTS: Final = {
    "http": 80, "https": 443, "ws": 80, "wss": 443, "redis": 6379, "rediss": 6379, "postgres": 5432,
    "postgresql": 5432, "mysql": 3306, "mongodb": 27017, "amqp": 5672, "bolt": 7687, "neo4j": 7687,
    "imap": 143, "imaps": 993, "smtp": 587, "smtps": 465, "ldap": 389, "ldaps": 636, "clickhouse": 9000,
}  # fmt: skip


def named_hosts(words: Iterable[str]) -> list[str]:
    """Return the hosts, as `HOST:PORT`, of the addresses in arguments and values of variables."""
    found: dict[str, None] = {}
    for word in words:
        for matched in _URL.finditer(word):
            authority, port = matched["host"], _PORTS.get(matched["scheme"])
            has_port = re.search(r":\d{1,5}$", authority) is not None
            with suppress(FetchRefused):
                target = parse_target(f"http://{authority}/")
                if has_port or port is not None:
                    used = target.port if has_port else port or target.port
                    found[str(host_of(target.host, used, is_ip=target.is_ip))] = None
    return list(found)


def allowed_by(section: McpSection) -> tuple[Host, ...]:
    """Return the hosts that a server may reach one by one.

    Raises:
        FetchRefused: The configuration has an entry that is not a host and a port.
    """
    return tuple(dict.fromkeys(map(read_host, section.hosts)))


@dataclass(frozen=True, slots=True)
class Refusal:
    """A host that a server did not reach. `address` is the private address that its name stands for."""

    host: Host
    address: Host | None = None

    def text(self, server: str) -> Text:
        """Return what happened and how to allow it."""
        if self.address is not None and self.address != self.host:
            return Text(
                "{server} asked for {host}, whose address {address} is not public, so it was not reached. If "
                "that address is yours, the user allows it with: rumi mcp allow {server} {address}",
                server=server,
                host=self.host,
                address=self.address,
            )
        return Text(
            "{server} asked for {host}, which it may not reach. The user allows it with: rumi mcp allow "
            "{server} {host}",
            server=server,
            host=self.host,
        )


class AskedHosts:
    """The hosts that a server asked for and may not reach, oldest first, and how often."""

    def __init__(self, on_refusal: Callable[[Refusal], None] = lambda refusal: None) -> None:
        """`on_refusal` is called at the first refusal of each host."""
        self._refused: dict[Refusal, int] = {}
        self._latest: dict[Refusal, int] = {}
        self._on_refusal = on_refusal
        self.count = 0

    def refuse(self, refusal: Refusal) -> None:
        """Record a refusal. Of further hosts than `MOST_REMEMBERED`, only the number is kept."""
        self.count += 1
        known = refusal in self._refused
        if not known and len(self._refused) >= MOST_REMEMBERED:
            return
        self._refused[refusal] = self._refused.get(refusal, 0) + 1
        self._latest[refusal] = self.count
        if not known:
            self._on_refusal(refusal)

    def refused(self) -> Mapping[Refusal, int]:
        """Return how often each host was refused."""
        return self._refused

    def since(self, count: int) -> tuple[Refusal, ...]:
        """Return the hosts that were refused after `count` refusals."""
        return tuple(refusal for refusal, at in self._latest.items() if at > count)
