"""The names under which browsers may address the page: its own socket's, and that of a proxy with TLS."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from starlette.types import Scope

from rumi.channels.http.address import BoundSocket, is_loopback

_FORWARDING: Final = frozenset({"forwarded", "via", "x-real-ip"})


@dataclass(frozen=True, slots=True)
class Cookie:
    """The name of the session cookie, and whether browsers send it only over TLS."""

    name: str
    secure: bool


@dataclass(frozen=True, slots=True)
class PageAddress:
    """The page's socket, and the origin (`https://HOST[:PORT]`) of the proxy before it; empty without one.

    A request belongs to the name in its `Host` header: that alone decides which `Origin` and which cookie
    count. No `X-Forwarded-…` header is believed: every client can send them, and proxies pass them on.
    """

    bound: BoundSocket
    public: str = ""

    @property
    def url(self) -> str:
        """The URL for browsers, without a trailing slash."""
        return self.public or self.bound.url

    def origin_of(self, scope: Scope) -> str | None:
        """Return the page's origin under the name that a request uses; None if its Host is not the page's."""
        hosts = header_values(scope, b"host")
        if len(hosts) != 1:
            return None
        if self._is_proxied(hosts[0]):
            return self.public
        reached = scope["server"][0] if scope["server"] else ""
        return f"http://{hosts[0]}" if self.bound.is_own(hosts[0], reached) else None

    def is_public(self, scope: Scope) -> bool:
        """Return True if a request may come from another machine through a proxy on this one.

        Then the address of the connection says nothing about who asks. The headers of proxies only take
        rights away here; they never give any.
        """
        if any(self._is_proxied(host) for host in header_values(scope, b"host")):
            return True
        names = {name.decode("latin-1").lower() for name, _ in scope["headers"]}
        return bool(names & _FORWARDING) or any(name.startswith("x-forwarded-") for name in names)

    def is_local(self, scope: Scope) -> bool:
        """Return True if a program of this machine makes the request, and no proxy passes it on."""
        client = scope["client"][0] if scope["client"] else ""
        return is_loopback(client) and not self.is_public(scope)

    def cookie_of(self, scope: Scope) -> Cookie:
        """Return the session cookie of the name that a request uses.

        Browsers send a cookie to every port of a host, so each Rumi on a host uses a different name. With
        the prefix `__Host-`, browsers take the cookie only from this host and over TLS.
        """
        if any(self._is_proxied(host) for host in header_values(scope, b"host")):
            return Cookie(f"__Host-rumi_{urlsplit(self.public).port or 443}", secure=True)
        return Cookie(f"rumi_{self.bound.port}", secure=False)

    def _is_proxied(self, host: str) -> bool:
        if not self.public:
            return False
        named = self.public.removeprefix("https://")
        # Some proxies write the port of https too.
        full = named if urlsplit(self.public).port else f"{named}:443"
        return host.lower() in (named, full)


def public_origin(url: str) -> str:
    """Return the origin of a URL as browsers write it in `Origin`: lower case, punycode, no default port."""
    from can_ada import parse  # late: only a page behind a proxy needs it

    return parse(url).origin


def header_values(scope: Scope, name: bytes) -> list[str]:
    """Return the values of all headers with that name (in lower case)."""
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]


def session_of(scope: Scope, address: PageAddress) -> str:
    """Return the session secret in a request's cookie; empty if there is none."""
    wanted = address.cookie_of(scope).name
    for line in header_values(scope, b"cookie"):
        for pair in line.split(";"):
            name, _, value = pair.strip().partition("=")
            if name == wanted:
                return value
    return ""
