"""A resolver that asks one DNS server over real sockets, once for each family and call."""

from collections.abc import Sequence

import trio
from dnslib import QTYPE, DNSRecord

from rumi.web.messages import FetchError
from tests.fakes.dns_server import DnsServer


class AskingResolver:
    """Asks `server` and nobody else; what the system knows (/etc/hosts, /etc/resolv.conf) plays no part."""

    def __init__(self, server: DnsServer) -> None:
        self._server = server

    async def addresses(self, host: str) -> Sequence[str]:
        found: list[str] = []
        for kind in ("A", "AAAA"):
            query = DNSRecord.question(host, kind)
            with trio.socket.socket(type=trio.socket.SOCK_DGRAM) as asking:
                await asking.connect((self._server.host, self._server.port))
                await asking.send(bytes(query.pack()))
                reply = DNSRecord.parse(await asking.recv(65535))
            found += [str(answer.rdata) for answer in reply.rr if QTYPE[answer.rtype] == kind]
        if not found:
            raise FetchError("The name has no address.")
        return tuple(dict.fromkeys(found))
