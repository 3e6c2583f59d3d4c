"""The proxies that the environment names, and the hosts that are reached without one.

The variables are those of curl and Python: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in small
letters too, which come first. httpx's own parser fails on ordinary entries of `NO_PROXY`, such as `[::1]` or
`fd00::/8`, and leaves out networks; so this module reads the variables, and clients do not.
"""

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from rumi.errors import RumiError
from rumi.platform.printable import flat
from rumi.texts import Text

_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

KINDS: Final = ("http", "https", "socks5", "socks5h")
"""Kinds of proxies that can be used. With both SOCKS kinds, the proxy resolves the host's name."""

NO_PROXY: Final = "NO_PROXY"
PORTS: Final = {"http": 80, "https": 443}
SHOWN: Final = 3
"""Number of unreadable entries of NO_PROXY that a message shows."""
SHOWN_CHARS: Final = 40

_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_PORT: Final = re.compile(r"(.+):(\d{1,5})")
_KIND: Final = re.compile(r"[a-z][a-z0-9+.-]{0,15}")
_SPELLING: Final = Text(
    "It looks like http://host:3128 or socks5://host:1080. In a password, write @ as %40, : as %3A, / as %2F "
    "and # as %23."
)


class SetupError(RumiError):
    """The environment's proxy or certificates cannot be used. The error message contains no secret."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy: its URL, which may contain a password, and the variable that names it."""

    url: str
    variable: str

    def __repr__(self) -> str:
        return f"<Proxy {self.shown} of {self.variable}>"

    @property
    def shown(self) -> str:
        """The address without user and password."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    @property
    def socks(self) -> bool:
        """True if the proxy speaks SOCKS 5."""
        return self.url.startswith("socks")


@dataclass(frozen=True, slots=True)
class Proxies:
    """The environment's proxies, by the scheme of the address that is called.

    `unreadable` are the entries of NO_PROXY that are neither hosts nor networks, and that are ignored.
    """

    by_scheme: Mapping[str, Proxy]
    hosts: frozenset[tuple[str, int | None]] = frozenset()
    networks: tuple[_Network, ...] = ()
    unreadable: tuple[str, ...] = ()

    def to(self, scheme: str, host: str, port: int | None = None) -> Proxy | None:
        """Return the proxy for a host; None if the host is reached without one."""
        proxy = self.by_scheme.get(scheme)
        return None if proxy is None or self._is_direct(host, port or PORTS.get(scheme)) else proxy

    def to_url(self, url: str) -> Proxy | None:
        """Return the proxy for the host of a URL."""
        parts = urlsplit(url)
        return self.to(parts.scheme, parts.hostname or "", parts.port)

    @property
    def warning(self) -> Text | None:
        """What is wrong with NO_PROXY, as a sentence without its full stop; None if nothing is."""
        if not self.unreadable:
            return None
        # The part before an @ may be a password.
        entries = [flat(entry.rpartition("@")[2])[:SHOWN_CHARS] for entry in self.unreadable[:SHOWN]]
        more = len(self.unreadable) - len(entries)
        listed = ", ".join((*entries, *(["…"] if more else [])))
        return Text(
            "{name} has entries that are not hosts and are ignored: {listed}", name=NO_PROXY, listed=listed
        )

    def _is_direct(self, host: str, port: int | None) -> bool:
        name = _plain(host)
        address = _address(name)
        if address is not None:
            # A proxy on another machine would reach itself there.
            if address.is_loopback or any(address in network for network in self.networks):
                return True
            return bool(self.hosts & {(str(address), None), (str(address), port)})
        labels = name.split(".")
        suffixes = {".".join(labels[at:]) for at in range(len(labels))}
        return name == "localhost" or any(
            (suffix, a_port) in self.hosts for suffix in suffixes for a_port in (None, port)
        )


def proxies(environment: Mapping[str, str] | None = None) -> Proxies:
    """Return the proxies of the environment, by default of this process.

    Raises:
        SetupError: A proxy that would be used cannot be. The error names the variable and shows no secret.
    """
    variables = os.environ if environment is None else environment
    return _read(
        tuple(_value(variables, name) for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", NO_PROXY))
    )


def trouble() -> str:
    """Return what is wrong with this process's proxies, as a sentence; empty if nothing is."""
    try:
        warning = proxies().warning
    except SetupError as error:
        return error.message
    return "" if warning is None else Text("{what}.", what=warning)


def _value(variables: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return the name of the variable that is set, and its value. Small letters come first."""
    # A web server would set HTTP_PROXY from a header of the request (CVE-2016-5385).
    spellings = [name.lower(), name]
    if name == "HTTP_PROXY" and "REQUEST_METHOD" in variables:
        spellings.remove(name)
    for spelling in spellings:
        if spelling in variables:
            # Some tools keep the quotes of a line in an env file.
            return spelling, variables[spelling].strip().strip("\"'").strip()
    return name, ""


@lru_cache(maxsize=8)
def _read(values: tuple[tuple[str, str], ...]) -> Proxies:
    http, https, every, (_, none) = values
    hosts: set[tuple[str, int | None]] = set()
    networks: list[_Network] = []
    unreadable: list[str] = []
    for entry in re.split(r"[,;\s]+", none):
        if entry == "*":
            return Proxies({})
        if not entry.strip("\"'"):
            continue
        found = _entry(entry)
        if found is None:
            unreadable.append(entry)
        elif isinstance(found, tuple):
            hosts.add(found)
        else:
            networks.append(found)
    by_scheme = {}
    for scheme, (variable, value) in (("http", http), ("https", https)):
        chosen = (variable, value) if value else every
        if chosen[1]:
            by_scheme[scheme] = _proxy(*chosen)
    return Proxies(by_scheme, frozenset(hosts), tuple(networks), tuple(unreadable))


def _proxy(variable: str, value: str) -> Proxy:
    # An address without a scheme is that of an HTTP proxy, as in curl.
    scheme, separator, rest = value.partition("://")
    kind = scheme.lower() if separator else "http"
    rest = rest if separator else value
    kind = {"socks": "socks5h"}.get(kind, kind)  # GNOME writes socks://
    if _KIND.fullmatch(kind) and kind not in KINDS:
        why = Text("{variable} names a proxy of the kind {kind}", variable=variable, kind=kind)
        advice = Text("Set {variable} to an http, https, socks5 or socks5h proxy.", variable=variable)
        raise SetupError("The proxy of the environment cannot be used: {why}.", advice, why=why)
    url = f"{kind}://{rest.rstrip('/')}"
    try:
        parts = urlsplit(url)
        valid = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        valid = valid and not (parts.query or parts.fragment) and flat(rest) == rest and " " not in rest
        valid = valid and _host_of(parts.hostname or "") is not None
    except ValueError:
        valid = False
    if not valid:
        why = Text("{variable} is not the address of a proxy", variable=variable)
        raise SetupError("The proxy of the environment cannot be used: {why}.", _SPELLING, why=why)
    return Proxy(f"{kind}://{parts.netloc}", variable)


def _entry(entry: str) -> tuple[str, int | None] | _Network | None:
    """Return a host with its port (None for all ports), or a network; None if the entry is neither."""
    text = entry.strip("\"'").lower()
    text = text.partition("://")[2] or text
    port = None
    if text.startswith("["):  # an IPv6 address in brackets, perhaps with a port or the size of a network
        inside, _, after = text[1:].partition("]")
        text = inside + after if after.startswith("/") else inside
        if after.startswith(":") and after[1:].isdecimal():
            port = int(after[1:])
        elif after and not after.startswith("/"):
            return None
    elif text.count(":") == 1 and (found := _PORT.fullmatch(text)):
        text, port = found[1], int(found[2])
    if "/" in text and _address(text.partition("/")[0]) is None:
        text = text.rstrip("/")
    try:
        if "/" in text:
            return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    host = _host_of(text.removeprefix("*").lstrip("."))
    return None if host is None else (host, port)


def _host_of(text: str) -> str | None:
    """Return a host name or an address in its usual form; None if the text is neither."""
    name = _plain(text)
    address = _address(name)
    if address is not None:
        return str(address)
    return name if _HOST.fullmatch(name) and not re.fullmatch(r"[\d.]+", name) else None


def _plain(host: str) -> str:
    """Return a host in small letters, without a dot at its end, brackets and zone; names as in DNS."""
    host = host.strip("[]").rstrip(".").lower().partition("%")[0]
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return host


def _address(text: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped
