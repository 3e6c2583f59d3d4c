"""The table of refused IP address blocks, each with a reason; all other addresses are allowed.

Reviewed on 2026-11-22 against the registries of the IANA:

- IANA IPv4 and IANA IPv6 Special-Purpose Address Registry (RFC 6890, RFC 8190): every block whose column
  "Globally Reachable" is False or N/A;
- IPv4 Multicast Address Space Registry (RFC 5771) and IPv6 Multicast Address Space Registry (RFC 4291);
- IPv6 Address Space: only 2000::/3 is assigned as global unicast; other IPv6 addresses are refused.

This table is deliberately stricter than these registries:

- 192.0.0.0/24 and 2001::/23 are refused as a whole. They contain anycast addresses of the nearest gateway
(PCP, TURN: RFC 7723, RFC 8155), relays, and identifiers (ORCHIDv2, DRIP), but no web servers.
- An address that contains an IPv4 address is always refused: another machine decides where its packets go.
- Metadata addresses of cloud providers are refused, including public ones (168.63.129.16).

Addresses that these registries call global stay allowed: the sinks of AS112 and AMT (192.31.196.0/24,
192.52.193.0/24, 192.175.48.0/24, 2620:4f:8000::/48). A table cannot contain the NAT64 prefixes that networks
choose for themselves (RFC 6052).

`ipaddress` only parses addresses and blocks here; its `is_global` follows older versions of these registries.
"""

import ipaddress
from typing import Final, TypeAlias

from rumi.texts import Text

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Endpoint: TypeAlias = tuple[IPAddress, int]

# Block, reason, source of the rule. The first block that contains an address gives the reason.
REFUSED: Final[tuple[tuple[str, str, str], ...]] = (
    ("169.254.169.254/32", Text("cloud metadata"), "AWS, Azure, Google, OpenStack and others"),
    ("168.63.129.16/32", Text("cloud metadata"), "Azure"),
    ("100.100.100.200/32", Text("cloud metadata"), "Alibaba"),
    ("192.0.0.192/32", Text("cloud metadata"), "Oracle"),
    ("169.254.170.2/32", Text("cloud metadata"), "AWS containers"),
    ("169.254.170.23/32", Text("cloud metadata"), "AWS containers"),
    ("169.254.42.42/32", Text("cloud metadata"), "Scaleway"),
    ("169.254.0.23/32", Text("cloud metadata"), "Tencent"),
    ("0.0.0.0/32", Text("unspecified"), "RFC 1122"),
    ("0.0.0.0/8", Text("this network"), "RFC 791"),
    ("10.0.0.0/8", Text("private"), "RFC 1918"),
    ("100.64.0.0/10", Text("shared, behind a carrier's NAT"), "RFC 6598"),
    ("127.0.0.0/8", Text("loopback"), "RFC 1122"),
    ("169.254.0.0/16", Text("link-local"), "RFC 3927"),
    ("172.16.0.0/12", Text("private"), "RFC 1918"),
    (
        "192.0.0.0/24",
        Text("reserved for protocols"),
        "RFC 6890, RFC 7335, RFC 7600, RFC 7723, RFC 8155, RFC 8880",
    ),
    ("192.0.2.0/24", Text("documentation"), "RFC 5737"),
    ("192.88.99.0/24", Text("6to4 relay"), "RFC 7526, RFC 6751"),
    ("192.168.0.0/16", Text("private"), "RFC 1918"),
    ("198.18.0.0/15", Text("benchmarks"), "RFC 2544"),
    ("198.51.100.0/24", Text("documentation"), "RFC 5737"),
    ("203.0.113.0/24", Text("documentation"), "RFC 5737"),
    ("224.0.0.0/4", Text("multicast"), "RFC 5771"),
    ("255.255.255.255/32", Text("broadcast"), "RFC 919, RFC 8190"),
    ("240.0.0.0/4", Text("reserved"), "RFC 1112"),
    ("fd00:ec2::254/128", Text("cloud metadata"), "AWS"),
    ("fd00:ec2::23/128", Text("cloud metadata"), "AWS containers"),
    ("fd20:ce::254/128", Text("cloud metadata"), "Google"),
    ("fd00:42::42/128", Text("cloud metadata"), "Scaleway"),
    ("fe80::a9fe:a9fe/128", Text("cloud metadata"), "OpenStack"),
    ("::/128", Text("unspecified"), "RFC 4291"),
    ("::1/128", Text("loopback"), "RFC 4291"),
    ("::/96", Text("IPv4 inside (compatible)"), "RFC 4291"),
    ("::ffff:0:0/96", Text("IPv4 inside (mapped)"), "RFC 4291"),
    ("::ffff:0:0:0/96", Text("IPv4 inside (SIIT)"), "RFC 2765"),
    ("64:ff9b::/96", Text("IPv4 inside (NAT64)"), "RFC 6052"),
    ("64:ff9b:1::/48", Text("IPv4 inside (local NAT64)"), "RFC 8215"),
    ("2002::/16", Text("IPv4 inside (6to4)"), "RFC 3056"),
    ("2001::/32", Text("IPv4 inside (Teredo)"), "RFC 4380, RFC 8190"),
    ("100::/64", Text("discarded"), "RFC 6666"),
    ("100:0:0:1::/64", Text("dummy prefix"), "RFC 9780"),
    ("2001:2::/48", Text("benchmarks"), "RFC 5180"),
    (
        "2001::/23",
        Text("reserved for protocols"),
        "RFC 2928, RFC 4843, RFC 7343, RFC 7723, RFC 8155, RFC 9374",
    ),
    ("2001:db8::/32", Text("documentation"), "RFC 3849"),
    ("3fff::/20", Text("documentation"), "RFC 9637"),
    ("3ffe::/16", Text("6bone, given back"), "RFC 3701"),
    ("5f00::/16", Text("segment routing"), "RFC 9602"),
    ("fc00::/7", Text("private"), "RFC 4193"),
    ("fe80::/10", Text("link-local"), "RFC 4291"),
    ("fec0::/10", Text("private (site-local)"), "RFC 3879"),
    ("ff00::/8", Text("multicast"), "RFC 4291"),
)

_V4: Final = tuple(
    (int(net.network_address), int(net.netmask), why)
    for block, why, _ in REFUSED
    if isinstance(net := ipaddress.ip_network(block), ipaddress.IPv4Network)
)
_V6: Final = tuple(
    (int(net.network_address), int(net.netmask), why)
    for block, why, _ in REFUSED
    if isinstance(net := ipaddress.ip_network(block), ipaddress.IPv6Network)
)
# ISATAP (RFC 5214): the interface id begins with 0000:5efe, or 0200:5efe if the IPv4 address is unique.
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)
_GLOBAL_UNICAST: Final = 0b001  # the first three bits of 2000::/3


def read_address(text: str) -> IPAddress | None:
    """Parse an IP address in standard notation (`10.0.0.1`, `2001:db8::1`).

    Return None for other notations, and for addresses with a zone id.
    """
    if "%" in text:
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def read_endpoint(text: str) -> Endpoint:
    """Parse and normalize an `ip:port`, so that endpoints can be compared. IPv6 addresses are in brackets.

    Raises:
        ValueError: The text does not have this format.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise ValueError("ip:port, with a port from 1 to 65535")
    bracketed = host.startswith("[") and host.endswith("]")
    address = read_address(host[1:-1] if bracketed else host)
    if address is None or bracketed != (address.version == 6):
        raise ValueError("ip:port such as 127.0.0.1:8000 or [::1]:8000")
    return address, int(port)


def why_refused(address: str) -> str | None:
    """Return the reason why an address is refused; None if it is allowed.

    Text that is not an address is refused.
    """
    known = read_address(address)
    if known is None:
        return Text("no address")
    number = int(known)
    if known.version == 4:
        return next((why for start, mask, why in _V4 if number & mask == start), None)
    listed = next((why for start, mask, why in _V6 if number & mask == start), None)
    if listed is not None:
        return listed
    if number >> 125 != _GLOBAL_UNICAST:
        return Text("not global")
    return Text("IPv4 inside (ISATAP)") if (number >> 32) & 0xFFFF_FFFF in _ISATAP else None
