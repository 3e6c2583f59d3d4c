"""A program: what a machine without a network says about hosts. Prints one line each."""

import sys

import trio

from rumi.web.guard import AddressGuard
from rumi.web.messages import FetchError
from rumi.web.network import GuardedNetwork
from rumi.web.resolver import SystemResolver


async def main(*hosts: str) -> None:
    network = GuardedNetwork(AddressGuard(SystemResolver()))
    for host in hosts:
        try:
            await network.connect_tcp(host, 80, timeout=20)
        except FetchError as error:
            print(error)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
