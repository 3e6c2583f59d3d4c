"""The way out of a server's sandbox: to the hosts of its configuration, and to no others."""

from contextlib import suppress
from typing import Final

import httpcore
from typing_extensions import override

from rumi.agent.mcp.hosts import AskedHosts, Refusal, allowed_by
from rumi.agent.mcp.messages import ServerSettings
from rumi.web.gateway.gateway import Gateway
from rumi.web.gateway.listeners import listeners_for
from rumi.web.guard import AddressGuard
from rumi.web.messages import FetchRefused
from rumi.web.outbound import Host, Outbound, read_host
from rumi.web.resolver import Resolver, SystemResolver

_HTTPS: Final = 443


class ServerOutbound(Outbound):
    """Opens connections to the configured hosts of one server, compared exactly.

    Private addresses are refused unless the configuration has the address itself. Refusals are recorded in
    `asked`.
    """

    def __init__(self, settings: ServerSettings, asked: AskedHosts, resolver: Resolver | None = None) -> None:
        """Raises `FetchRefused` if the configuration has an entry that is not a host and a port."""
        self.allowed = allowed_by(settings.section)
        self._name = settings.name
        self._asked = asked
        guard = AddressGuard(
            resolver or SystemResolver(),
            allow=[str(host) for host in self.allowed if host.is_ip],
            ports={host.port for host in self.allowed},
        )
        super().__init__(guard)

    @override
    def check(self, host: Host) -> None:
        if host not in self.allowed:
            refusal = Refusal(host)
            self._asked.refuse(refusal)
            raise FetchRefused(refusal.text(self._name))

    @override
    def note_unknown(self, name: str) -> None:
        # A query has no port, so the name is recorded with that of https.
        with suppress(FetchRefused):
            self._asked.refuse(Refusal(read_host(f"{name}:{_HTTPS}")))

    @override
    async def connect(self, host: Host, scheme: str = "https") -> httpcore.AsyncNetworkStream:
        self.check(host)
        try:
            return await super().connect(host, scheme)
        except FetchRefused as refused:
            if not refused.address:
                raise
            refusal = Refusal(host, Host(refused.address, host.port, is_ip=True))
            self._asked.refuse(refusal)
            raise FetchRefused(refusal.text(self._name)) from refused


def gateway_of(settings: ServerSettings, asked: AskedHosts, resolver: Resolver | None = None) -> Gateway:
    """Return the way out of a server's sandbox. Refusals are recorded in `asked`.

    Raises:
        FetchRefused: The configuration has an entry that is not a host and a port.
    """
    outbound = ServerOutbound(settings, asked, resolver)
    return Gateway(listeners_for(outbound.allowed), outbound)
