"""The way to a socket: only to what was checked, and only if it ends there."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpcore
import pytest
import trio

from rumi.web.guard import AddressGuard
from rumi.web.messages import FetchError, FetchRefused
from rumi.web.network import GuardedNetwork
from tests.fakes.dns_server import DnsServer, always
from tests.fakes.resolving import AskingResolver
from tests.web.own_network import run_in_own_network

ROOT = Path(__file__).parents[2]


class Door(httpcore.AsyncNetworkBackend):
    """Notes where it is sent, and goes there, or where `leads_to` says."""

    def __init__(self, leads_to: dict[str, str] | None = None) -> None:
        self.sent_to: list[str] = []
        self.leads_to = leads_to or {}
        self.streams: list[httpcore.AsyncNetworkStream] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        self.sent_to.append(host)
        stream = await httpcore.TrioBackend().connect_tcp(self.leads_to.get(host, host), port)
        self.streams.append(stream)
        return stream


class Addresses:
    """A resolver that knows the same addresses for every name."""

    def __init__(self, *addresses: str) -> None:
        self.known = addresses

    async def addresses(self, host: str) -> tuple[str, ...]:
        return self.known


async def listening(*addresses: str) -> tuple[list[trio.SocketListener], int]:
    """Listeners on one port of several addresses."""
    listeners: list[trio.SocketListener] = []
    port = 0
    for address in addresses:
        listeners += await trio.open_tcp_listeners(port, host=address)
        port = listeners[0].socket.getsockname()[1]
    return listeners, port


async def closed(stream: httpcore.AsyncNetworkStream) -> bool:
    try:
        await stream.read(1, timeout=5)
    except httpcore.ReadError:
        return True
    except httpcore.ReadTimeout:
        pass
    return False


async def test_a_connection_goes_to_the_address_that_was_checked() -> None:
    listeners, port = await listening("127.0.0.1")
    door = Door()
    with DnsServer({"name.example": always("127.0.0.1")}) as dns:
        network = GuardedNetwork(AddressGuard(AskingResolver(dns), [f"127.0.0.1:{port}"]), door)
        stream = await network.connect_tcp("name.example", port, timeout=5)
    assert stream.get_extra_info("server_addr") == ("127.0.0.1", port)
    assert door.sent_to == ["127.0.0.1"]
    assert dns.asked == [("name.example", "A"), ("name.example", "AAAA")]
    await stream.aclose()
    await listeners[0].aclose()


async def test_nobody_is_connected_to_where_the_guard_says_no() -> None:
    door = Door(
        leads_to={"93.184.216.34": "127.0.0.1"}
    )  # were it to go there, it would not leave this machine
    network = GuardedNetwork(AddressGuard(Addresses("93.184.216.34", "127.0.0.1")), door)
    for host in ("name.example", "127.0.0.1", "::1", "::ffff:127.0.0.1", "0177.0.0.1"):
        with pytest.raises(FetchRefused):
            await network.connect_tcp(host, 80)
    assert door.sent_to == []


async def test_a_connection_that_ends_somewhere_else_is_closed_and_refused() -> None:
    listeners, port = await listening("127.0.0.1", "127.0.0.2")
    door = Door(leads_to={"127.0.0.1": "127.0.0.2"})
    network = GuardedNetwork(AddressGuard(Addresses("127.0.0.1"), [f"127.0.0.1:{port}"]), door)
    with pytest.raises(FetchRefused, match=r"The connection to 127\.0\.0\.1 ended at 127\.0\.0\.2"):
        await network.connect_tcp("name.example", port)
    assert len(door.streams) == 1
    assert await closed(door.streams[0])
    for listener in listeners:
        await listener.aclose()


async def test_an_address_where_nobody_listens_is_passed_over() -> None:
    listeners, port = await listening("127.0.0.2")
    allow = [f"127.0.0.1:{port}", f"127.0.0.2:{port}"]
    network = GuardedNetwork(AddressGuard(Addresses("127.0.0.1", "127.0.0.2"), allow))
    stream = await network.connect_tcp("name.example", port)
    assert stream.get_extra_info("server_addr") == ("127.0.0.2", port)
    await stream.aclose()
    await listeners[0].aclose()
    with pytest.raises(FetchError, match="does not answer on port"):
        await network.connect_tcp("name.example", port)


class Stub(httpcore.AsyncNetworkStream):
    """A connection that knows where it ends, and whether it was closed."""

    def __init__(self, address: str, port: int) -> None:
        self.peer = (address, port)
        self.closed = False

    def get_extra_info(self, info: str) -> Any:
        return self.peer if info == "server_addr" else None

    async def aclose(self) -> None:
        self.closed = True


class Slow(httpcore.AsyncNetworkBackend):
    """Addresses that answer after a while (seconds); `anyway`: also when nobody waits any more."""

    def __init__(self, *, anyway: bool = False, **answers_after_s: float) -> None:
        self.anyway = anyway
        self.answers_after_s = {name.replace("_", "."): after for name, after in answers_after_s.items()}
        self.began: list[tuple[str, float]] = []
        self.streams: list[Stub] = []
        self._start = trio.current_time()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        self.began.append((host, round(trio.current_time() - self._start, 3)))
        with trio.CancelScope(shield=self.anyway):
            await trio.sleep(self.answers_after_s[host[-3:]])
        stream = Stub(host, port)
        self.streams.append(stream)
        return stream


async def test_a_slow_address_gets_a_head_start_and_then_the_next_is_tried_as_well(
    autojump_clock: trio.testing.MockClock,
) -> None:
    door = Slow(anyway=True, **{"1_1": 5, "2_2": 1, "3_3": 0.1})
    network = GuardedNetwork(AddressGuard(Addresses("8.8.1.1", "8.8.2.2", "8.8.3.3")), door)
    stream = await network.connect_tcp("name.example", 443)
    assert stream.get_extra_info("server_addr") == ("8.8.3.3", 443)
    assert door.began == [("8.8.1.1", 0), ("8.8.2.2", 0.25), ("8.8.3.3", 0.5)]
    assert [made.closed for made in door.streams] == [False, True, True], "those that came late are closed"


async def test_the_time_for_a_connection_covers_all_addresses_and_leaves_none_open(
    autojump_clock: trio.testing.MockClock,
) -> None:
    door = Slow(**{"1_1": 50, "2_2": 60})
    network = GuardedNetwork(AddressGuard(Addresses("8.8.1.1", "8.8.2.2")), door)
    with pytest.raises(FetchError, match="did not answer within 3 s"):
        await network.connect_tcp("name.example", 443, timeout=3)
    assert [host for host, _ in door.began] == ["8.8.1.1", "8.8.2.2"]
    assert door.streams == []


async def test_no_more_than_a_few_addresses_of_a_name_are_tried(
    autojump_clock: trio.testing.MockClock,
) -> None:
    door = Slow(**{f"1_{last}": 9 for last in range(1, 10)})
    network = GuardedNetwork(AddressGuard(Addresses(*[f"8.8.1.{last}" for last in range(1, 10)])), door)
    await network.connect_tcp("name.example", 443)
    assert len(door.began) == 8


async def test_there_is_no_way_to_a_unix_socket() -> None:
    with pytest.raises(FetchRefused):
        await GuardedNetwork(AddressGuard(Addresses())).connect_unix_socket("/run/docker.sock")


def flips_are_never_followed(told: str) -> None:
    """A thousand tries, half of them answered; all connections went to the one server that was checked."""
    found = json.loads(told)
    assert found["outcomes"] == {"answered 200": 500, "refused": 500}
    assert found["connected"] == {found["endpoint"]: 500}
    assert found["seen"] == {found["server"]: 500}
    assert found["asked"] == {"flips.example:A": 1000, "flips.example:AAAA": 1000}


@pytest.mark.long
def test_a_server_that_flips_its_dns_answer_is_never_reached() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.web.flips", "allowed"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=True,
    )
    flips_are_never_followed(done.stdout)


@pytest.mark.bubblewrap
def test_a_server_that_flips_its_dns_answer_is_never_reached_through_the_systems_resolver(
    tmp_path: Path,
) -> None:
    flips_are_never_followed(run_in_own_network("tests.web.flips", "public", folder=tmp_path))
