"""A program: a name whose address is another at each query, asked for a thousand times, by httpcore.

Every address that a socket of this process connects to is recorded by Python itself. What is printed is JSON:
how many connections went to each endpoint, how many requests each server saw, how many fetches were answered
and refused, and how often the name was asked for.
"""

import json
import sys
from collections import Counter
from functools import partial

import httpcore
import trio

from rumi.web.guard import AddressGuard
from rumi.web.messages import FetchRefused
from rumi.web.network import GuardedNetwork
from rumi.web.resolver import Resolver, SystemResolver
from tests.fakes.dns_server import DnsServer, in_turn
from tests.fakes.resolving import AskingResolver
from tests.web.own_network import take_address

TRIES = 1000
NAME = "flips.example"
PUBLIC = "93.184.216.34"

connected: Counter[str] = Counter()
seen: Counter[str] = Counter()
outcomes: Counter[str] = Counter()


def record(event: str, arguments: tuple[object, ...]) -> None:
    if event == "socket.connect":
        host, port, *_ = arguments[1]  # type: ignore[misc]
        connected[f"{host}:{port}"] += 1


async def serve(address: str, stream: trio.SocketStream) -> None:
    async with stream:
        seen[address] += 1
        await stream.receive_some(65536)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")


async def ask(guard: AddressGuard, port: int) -> None:
    async with httpcore.AsyncConnectionPool(network_backend=GuardedNetwork(guard)) as pool:
        for _ in range(TRIES):
            url = httpcore.URL(scheme="http", host=NAME, port=port, target="/")
            try:
                response = await pool.request("GET", url, headers={"Host": NAME})
            except FetchRefused:
                outcomes["refused"] += 1
            else:
                outcomes[f"answered {response.status}"] += 1


async def main(how: str) -> None:
    """`allowed`: loopback is, by exception, and the real resolver is not asked. `public`: a whole network."""
    if how == "public":
        take_address(PUBLIC)
        allowed, forbidden, port = PUBLIC, "127.0.0.1", 80
    else:
        allowed, forbidden, port = "127.0.0.1", "127.0.0.2", 0
    async with trio.open_nursery() as nursery:
        for address in (allowed, forbidden):
            (listener,) = await trio.open_tcp_listeners(port, host=address)
            port = listener.socket.getsockname()[1]
            nursery.start_soon(trio.serve_listeners, partial(serve, address), [listener])
        names = {NAME: in_turn([allowed], [forbidden])}
        with DnsServer(names, port=53 if how == "public" else 0) as dns:
            resolver: Resolver = SystemResolver() if how == "public" else AskingResolver(dns)
            guard = AddressGuard(resolver, () if how == "public" else (f"{allowed}:{port}",))
            await ask(guard, port)
        nursery.cancel_scope.cancel()
    # The questions to the DNS server are connections as well.
    served = {endpoint: count for endpoint, count in connected.items() if endpoint.endswith(f":{port}")}
    told = {
        "connected": served,
        "seen": seen,
        "outcomes": outcomes,
        "asked": Counter(map(":".join, dns.asked)),
    }
    print(json.dumps({**told, "endpoint": f"{allowed}:{port}", "server": allowed}))


if __name__ == "__main__":
    sys.addaudithook(record)
    trio.run(main, sys.argv[1])
