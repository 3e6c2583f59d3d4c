"""The guard: all addresses of a name are judged, whoever answers for it, and however long that takes."""

import json
import socket
import threading
from pathlib import Path

import pytest
import trio

from rumi.web.guard import AddressGuard
from rumi.web.judging import RememberingResolver
from rumi.web.messages import FetchError, FetchRefused
from rumi.web.resolver import SystemResolver
from tests.fakes.dns_server import DnsServer, always, in_turn, never
from tests.fakes.resolving import AskingResolver
from tests.web.own_network import run_in_own_network

PUBLIC, PUBLIC6 = "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"


@pytest.mark.parametrize(
    "addresses",
    [
        (PUBLIC, "10.0.0.1"),
        ("10.0.0.1", PUBLIC),
        (PUBLIC, PUBLIC6, "fd00::1"),
        (PUBLIC, "::1"),
        ("127.0.0.1", PUBLIC6),
        (PUBLIC, "::ffff:93.184.216.34"),
        (PUBLIC, "64:ff9b::5db8:d822"),
        (PUBLIC6, "169.254.169.254"),
        (PUBLIC, "224.0.0.1"),
        (*[f"93.184.216.{last}" for last in range(20)], "0.0.0.0"),
    ],
)
async def test_a_name_with_one_forbidden_address_is_refused(addresses: tuple[str, ...]) -> None:
    with DnsServer({"name.example": always(*addresses)}) as dns:
        with pytest.raises(FetchRefused, match=r"name\.example stands for .*, which is not public"):
            await AddressGuard(AskingResolver(dns)).check("name.example", 443)


async def test_a_public_name_is_allowed_with_all_its_addresses_and_asked_for_once() -> None:
    with DnsServer({"name.example": always(PUBLIC, PUBLIC6)}) as dns:
        assert await AddressGuard(AskingResolver(dns)).check("name.example", 443) == (PUBLIC, PUBLIC6)
    assert dns.asked == [("name.example", "A"), ("name.example", "AAAA")]


async def test_a_name_without_an_address_is_nowhere() -> None:
    with DnsServer() as dns, pytest.raises(FetchError, match="has no address"):
        await AddressGuard(AskingResolver(dns)).check("name.example", 443)


async def test_an_address_is_judged_without_asking_anybody() -> None:
    with DnsServer() as dns:
        guard = AddressGuard(AskingResolver(dns))
        assert await guard.check(PUBLIC, 80) == (PUBLIC,)
        assert await guard.check(PUBLIC6, 443) == (PUBLIC6,)
        for address in ("127.0.0.1", "::1", "::ffff:8.8.8.8"):
            with pytest.raises(FetchRefused, match="not public"):
                await guard.check(address, 80)
    assert dns.asked == []


@pytest.mark.parametrize("port", [0, 22, 25, 79, 81, 444, 8080, 65535])
async def test_a_port_that_is_not_the_webs_is_refused_before_the_name_is_looked_up(port: int) -> None:
    with DnsServer({"name.example": always(PUBLIC)}) as dns:
        with pytest.raises(FetchRefused, match=f"Port {port} "):
            await AddressGuard(AskingResolver(dns)).check("name.example", port)
    assert dns.asked == []


async def test_an_exception_holds_for_exactly_its_address_and_port() -> None:
    names = {
        "one.example": always("127.0.0.1"),
        "both.example": always("127.0.0.1", "::1"),
        "other.example": always("127.0.0.1", "127.0.0.2"),
        "public.example": always("127.0.0.1", PUBLIC),
    }
    with DnsServer(names) as dns:
        guard = AddressGuard(AskingResolver(dns), ["127.0.0.1:8000", "[0::1]:8000", "10.0.0.1:80"])
        assert await guard.check("127.0.0.1", 8000) == ("127.0.0.1",)
        assert await guard.check("::1", 8000) == ("::1",)
        assert await guard.check("10.0.0.1", 80) == ("10.0.0.1",)
        assert await guard.check("one.example", 8000) == ("127.0.0.1",)
        assert await guard.check("both.example", 8000) == ("127.0.0.1", "::1")
        for host, port in [("127.0.0.1", 80), ("127.0.0.1", 8001), ("10.0.0.1", 443), ("10.0.0.2", 80),
                           ("other.example", 8000), ("public.example", 8000), (PUBLIC, 8000),
                           ("::ffff:127.0.0.1", 8000)]:  # fmt: skip
            with pytest.raises(FetchRefused):
                await guard.check(host, port)


async def test_a_dns_server_that_never_answers_is_waited_for_no_longer_than_the_caller_does() -> None:
    with DnsServer({"name.example": never()}) as dns:
        with trio.move_on_after(0.2) as waiting:
            await AddressGuard(AskingResolver(dns)).check("name.example", 443)
    assert waiting.cancelled_caught


async def test_the_judge_says_why_and_what_it_found() -> None:
    with DnsServer({"name.example": always(PUBLIC), "mixed.example": always(PUBLIC, "10.0.0.1")}) as dns:
        guard = AddressGuard(AskingResolver(dns))
        allowed = await guard.judge("https://NAME.example/a?b#c")
        assert (allowed.allowed, allowed.reason, allowed.host) == (True, "", "name.example")
        assert allowed.addresses == (PUBLIC,)
        mixed = await guard.judge("https://mixed.example/")
        assert (mixed.allowed, mixed.addresses) == (False, (PUBLIC, "10.0.0.1"))
        assert mixed.reason == "mixed.example stands for 10.0.0.1, which is not public: private."


async def test_what_is_remembered_is_asked_for_once_also_by_those_who_wait() -> None:
    with DnsServer({"name.example": in_turn([PUBLIC], ["10.0.0.1"])}) as dns:
        remembering = RememberingResolver(AskingResolver(dns))
        async with trio.open_nursery() as nursery:
            for name in ["name.example"] * 20:
                nursery.start_soon(remembering.addresses, name)
        assert await remembering.addresses("name.example") == (PUBLIC,)
        for _ in range(2):
            with pytest.raises(FetchError, match="has no address"):
                await remembering.addresses("none.example")
    assert [name for name, kind in dns.asked if kind == "A"] == ["name.example", "none.example"]


class Silence:
    """In place of the system's resolver: it answers nobody before it is told to, and counts who asks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asking = 0
        self.answer = threading.Event()
        monkeypatch.setattr(socket, "getaddrinfo", self.wait)

    def wait(self, host: bytes, port: None, type: int) -> list[tuple[object, ...]]:
        self.asking += 1
        assert self.answer.wait(30)
        return [(socket.AF_INET, type, 6, "", (PUBLIC, 0))]


async def test_lookups_that_nobody_answers_are_bounded_and_those_behind_them_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silence = Silence(monkeypatch)
    limiter = trio.CapacityLimiter(2)
    resolver = SystemResolver(limiter, timeout_s=0.1)
    for _ in range(2):
        with pytest.raises(FetchError, match="did not answer within"):
            await resolver.addresses("silent.example")
    for _ in range(5):
        with pytest.raises(FetchError, match="Too many name lookups"):
            await resolver.addresses("silent.example")
    assert silence.asking == 2, "no more threads than places"
    silence.answer.set()
    while limiter.available_tokens < 2:  # noqa: ASYNC110  # a thread that was left tells nobody
        await trio.sleep(0.01)
    assert await resolver.addresses("name.example") == (PUBLIC,)


async def test_a_lookup_that_is_cancelled_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    silence = Silence(monkeypatch)
    with trio.fail_after(20), trio.move_on_after(0.05) as waiting:
        await SystemResolver(timeout_s=60).addresses("silent.example")
    assert waiting.cancelled_caught
    silence.answer.set()


@pytest.mark.parametrize("name", ["a..b", "a" * 64 + ".b", "." * 300, "_", "a!$&'()*+,;=b"])
async def test_a_name_that_cannot_be_one_is_nowhere(name: str) -> None:
    with pytest.raises(FetchError):
        await SystemResolver(timeout_s=30).addresses(name)


@pytest.mark.long
@pytest.mark.bubblewrap
def test_the_systems_resolver_is_believed_for_all_addresses_and_not_waited_for(tmp_path: Path) -> None:
    urls = {
        "http://public.example/": "",
        "https://public.example:8443/": "Port 8443",
        "http://mixed.example/": "10.0.0.1, which is not public: private",
        "http://mixed-in-ipv6.example/": "fd00::1, which is not public: private",
        "http://mapped.example/": "not public",
        "http://inside.example/": "loopback",
        "http://metadata.example/": "cloud metadata",
        "http://silent.example/": "did not answer within 1 s",
        "http://none.example/": "has no address",
        "http://localhost/": "loopback",
    }
    told = run_in_own_network(
        "tests.web.checks", folder=tmp_path, text="\n".join(urls), env={"RUMI_FETCH__TIMEOUT_S": "1"}
    )
    verdicts = [json.loads(line) for line in told.splitlines()]
    assert [verdict["url"] for verdict in verdicts] == list(urls)
    for verdict in verdicts:
        assert verdict["allowed"] == (urls[verdict["url"]] == "")
        assert urls[verdict["url"]] in verdict["reason"]
    assert sorted(verdicts[0]["addresses"]) == [PUBLIC6, PUBLIC]


@pytest.mark.bubblewrap
def test_a_machine_without_a_network_is_told_as_such(tmp_path: Path) -> None:
    told = run_in_own_network("tests.web.offline", "a.test", "93.184.216.34", folder=tmp_path)
    assert told.splitlines() == [
        "The name has no address: this machine has no network. Connect it and try again.",
        "93.184.216.34 does not answer: this machine has no network. Connect it and try again.",
    ]
