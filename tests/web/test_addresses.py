"""Which addresses may be fetched from, against lists that were written down without looking at the table."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.web.addresses import REFUSED, read_address, read_endpoint, why_refused

FORBIDDEN = """
0.0.0.0 0.0.0.1 0.255.255.255 10.0.0.0 10.0.0.1 10.255.255.255 100.64.0.0 100.64.0.1 100.100.100.200
100.127.255.255 127.0.0.0 127.0.0.1 127.0.0.53 127.0.1.1 127.1.2.3 127.255.255.255 168.63.129.16
169.254.0.0 169.254.0.1 169.254.0.23 169.254.42.42 169.254.169.253 169.254.169.254 169.254.170.2
169.254.255.255 172.16.0.0 172.16.0.1 172.17.0.1 172.31.255.255 192.0.0.0 192.0.0.1 192.0.0.7 192.0.0.8
192.0.0.9 192.0.0.10 192.0.0.170 192.0.0.171 192.0.0.192 192.0.0.255 192.0.2.0 192.0.2.1 192.0.2.255
192.88.99.0 192.88.99.1 192.88.99.2 192.88.99.255 192.168.0.0 192.168.0.1 192.168.1.1 192.168.255.255
198.18.0.0 198.18.0.1 198.19.255.255 198.51.100.0 198.51.100.1 198.51.100.255 203.0.113.0 203.0.113.1
203.0.113.255 224.0.0.0 224.0.0.1 224.0.0.251 225.1.2.3 232.0.0.1 233.252.0.1 239.255.255.250
239.255.255.255 240.0.0.0 240.0.0.1 250.1.1.1 255.255.255.254 255.255.255.255

:: ::1 ::2 ::ffff ::7f00:1 ::127.0.0.1 ::8.8.8.8 ::ffff:0.0.0.0 ::ffff:127.0.0.1 ::ffff:7f00:1
::ffff:8.8.8.8 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:255.255.255.255 ::ffff:0:127.0.0.1
::ffff:0:8.8.8.8 ::ffff:0:169.254.169.254 ::fffe:127.0.0.1 64:ff9b:: 64:ff9b::1 64:ff9b::127.0.0.1
64:ff9b::8.8.8.8 64:ff9b::169.254.169.254 64:ff9b::ffff:ffff 64:ff9b:1:: 64:ff9b:1::1
64:ff9b:1::127.0.0.1 64:ff9b:1:ffff:ffff:ffff:ffff:ffff 64:ff9b:2:: 100:: 100::1 100::ffff:ffff:ffff:ffff
100:0:0:1:: 100:0:0:1::1 100:1:: 1:: 1fff:ffff:: 200:: 400:: 1000:: 2001:: 2001::1 2001:0:7f00:1::
2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:1::1 2001:1::2 2001:1::3 2001:2:: 2001:2::1 2001:2:0:ffff::
2001:3::1 2001:4:112::1 2001:5:: 2001:10::1 2001:1f:: 2001:20::1 2001:2f:ffff:: 2001:30::1 2001:3f::
2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff 2001:db8:: 2001:db8::1 2001:db8:ffff:ffff:ffff:ffff:ffff:ffff
2002:: 2002::1 2002:7f00:1:: 2002:7f00:1::1 2002:808:808::1 2002:a9fe:a9fe::1
2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff 3ffe::1 3fff:: 3fff::1 3fff:fff:ffff:: 4000:: 4000::1 5f00::
5f00::1 5fff:: 8000::1 c000::1 e000::1 f000::1 f800::1 fc00:: fc00::1 fd00:: fd00::1 fd00:ec2::23
fd00:ec2::254 fd00:42::42 fd20:ce::254 fdff:ffff:: fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff fe00::1
fe7f:ffff:: fe80:: fe80::1 fe80::a9fe:a9fe fe80::5efe:a00:1 fe80::200:5efe:808:808 febf:ffff:: fec0::
fec0::1 feff:ffff:: ff00:: ff01::1 ff02::1 ff02::2 ff02::fb ff05::2 ff0e::1 ffff::
ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 2a00:1450::5efe:7f00:1 2a00:1450::200:5efe:808:808
2606:4700:1:2:0:5efe:a00:1 2001:4860:0:0:200:5efe:169.254.169.254
"""

PUBLIC = """
1.0.0.0 1.0.0.1 1.1.1.1 8.8.8.8 8.8.4.4 9.9.9.9 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0
126.255.255.255 128.0.0.0 168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255
172.32.0.0 191.255.255.255 192.0.1.0 192.0.1.255 192.0.3.0 192.31.196.1 192.52.193.1 192.88.98.255
192.88.100.0 192.167.255.255 192.169.0.0 192.175.48.1 198.17.255.255 198.20.0.0 198.51.99.255
198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255 93.184.216.34 140.82.112.3 151.101.1.1

2000:: 2000::1 2001:200:: 2001:200::1 2001:4860:4860::8888 2001:500:88:200::8 2001:db7:ffff:: 2001:db9::
2001:ffff:ffff:: 2003:: 2003::1 2400:cb00::1 2606:4700:4700::1111 2606:2800:220:1:248:1893:25c8:1946
2620:4f:8000::1 2620:fe::fe 2a00:1450:4003:80a::200e 2a01:4f8::1 2c0f:fb50::1 3ffd:ffff:: 3fff:1000::
3fff:ffff:ffff:: 2a00:1450::1:5efe:7f00:1 2a00:1450::5eff:7f00:1 2a00:1450::5efd:7f00:1
2a00:1450::100:5efe:7f00:1 2a00:5efe:7f00::1
"""

BLOCKS = [ipaddress.ip_network(block) for block, _, _ in REFUSED]


@pytest.mark.parametrize("address", FORBIDDEN.split())
def test_an_address_that_is_not_public_is_refused_with_a_reason(address: str) -> None:
    assert why_refused(address)


@pytest.mark.parametrize("address", PUBLIC.split())
def test_a_public_address_is_allowed(address: str) -> None:
    assert why_refused(address) is None


@pytest.mark.parametrize(
    "address",
    ["", " ", "localhost", "127.1", "0177.0.0.1", "0x7f.0.0.1", "2130706433", "8.8.8.08", "8.8.8.8 ",
     "8.8.8.8.", "8.8.8.8/32", "[2606::1]", "2606::1%eth0", "2606::1%", "fe80::1%1", "①.1.1.1",
     "١.1.1.1", "2606:::1", "8.8.8"],
)  # fmt: skip
def test_what_is_no_address_in_full_is_refused(address: str) -> None:
    assert read_address(address) is None
    assert why_refused(address) == "no address"


@pytest.mark.parametrize("network", BLOCKS, ids=str)
def test_the_first_and_the_last_address_of_each_refused_block_are_refused(
    network: ipaddress.IPv4Network | ipaddress.IPv6Network,
) -> None:
    assert why_refused(str(network[0]))
    assert why_refused(str(network[-1]))


@given(st.sampled_from(BLOCKS).flatmap(lambda net: st.ip_addresses(network=net)))
def test_every_address_of_a_refused_block_is_refused(address: object) -> None:
    assert why_refused(str(address))


@given(st.ip_addresses(v=4), st.sampled_from([
    "::{}", "::ffff:{}", "::ffff:0:{}", "64:ff9b::{}", "64:ff9b:1::{}",
    "2a00:1:2:3:0:5efe:{}", "2a00:1:2:3:200:5efe:{}",
]))  # fmt: skip
def test_whatever_ipv4_address_is_inside_is_refused(inside: ipaddress.IPv4Address, form: str) -> None:
    assert why_refused(str(ipaddress.IPv6Address(form.format(inside))))


@given(st.ip_addresses(v=6))
def test_no_ipv6_address_outside_of_global_unicast_is_allowed(address: ipaddress.IPv6Address) -> None:
    if address not in ipaddress.IPv6Network("2000::/3"):
        assert why_refused(str(address))


@given(st.ip_addresses())
def test_what_the_standard_library_knows_to_be_private_is_refused(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if not address.is_global or address.is_multicast or address.is_reserved or address.is_unspecified:
        assert why_refused(str(address))


def test_the_neighbours_of_the_blocks_are_refused_by_another_block_or_not_at_all() -> None:
    """So that no mask is one bit too wide: just outside of a block only other blocks count."""
    for network in BLOCKS:
        for number in (int(network[0]) - 1, int(network[-1]) + 1):
            if not 0 <= number < 2**network.max_prefixlen:
                continue
            address = type(network[0])(number)
            held = any(address in other for other in BLOCKS if other.version == network.version)
            listed = held or (address.version == 6 and address not in ipaddress.IPv6Network("2000::/3"))
            assert bool(why_refused(str(address))) == listed, address


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("127.0.0.1:8000", "127.0.0.1:08000"),
        ("[::1]:80", "[0:0:0:0:0:0:0:1]:80"),
        ("[2A00::]:443", "[2a00:0::]:443"),
    ],
)
def test_endpoints_compare_by_what_they_mean(text: str, same: str) -> None:
    assert read_endpoint(text) == read_endpoint(same)


@pytest.mark.parametrize(
    "text",
    ["", "127.0.0.1", ":80", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:+1", "127.0.0.1:８",
     "::1:80", "[127.0.0.1]:80", "[::1]", "[fe80::1%lo]:80", "localhost:80", "127.1:80", "*:80",
     "127.0.0.1:-1"],
)  # fmt: skip
def test_what_is_no_exact_endpoint_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="ip:port"):
        read_endpoint(text)
