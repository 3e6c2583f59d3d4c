"""The program's only URL parser: it applies the WHATWG rules once, and returns the parts of the URL.

The library ada parses the URL. All other code (the guard, the connection, the request line, the Host header)
uses the fields of a `Target` and never the original text, so two parts of the program cannot interpret a URL
differently.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rumi.web.messages import FetchRefused

if TYPE_CHECKING:
    from can_ada import URL

MAX_URL_BYTES: Final = 8192

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_BACKSLASH: Final = re.compile(r"[^?#]*\\")
_IPV4: Final = re.compile(r"\d+(?:\.\d+){3}")  # as the parser writes an address, however it was written
# An @ between the scheme's colon and the first slash of the path, even without a name before it.
_USER_INFO: Final = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*:/*[^/?#]*@")


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of a URL, as parsed by the WHATWG rules.

    `href` is the whole URL with its fragment. `host` is ASCII and has no brackets; `is_ip` means that the
    host is an IP address. `port` defaults to the scheme's port. `path_and_query` is used in the request line.
    `authority` is used in the Host header: it has brackets around IPv6 addresses, and no default port.
    """

    href: str
    scheme: str
    host: str
    is_ip: bool
    port: int
    path_and_query: str
    authority: str

    @property
    def origin(self) -> str:
        """The scheme, the host, and the port unless it is the scheme's."""
        return f"{self.scheme}://{self.authority}"

    @property
    def page(self) -> str:
        """The URL without its fragment."""
        return self.href.partition("#")[0]


def parse_target(text: str) -> Target:
    """Parse a URL that comes from a person, a model or a page.

    Raises:
        FetchRefused: The text is not a URL, its scheme is not http or https, or parsers could read it in
            different ways.
    """
    _refuse_writing(text)
    target = _target(_read(text))
    if _USER_INFO.match(text):
        raise FetchRefused("The URL has user info.", "Write it without the part before the @.")
    return target


def join_target(base: Target, location: str) -> Target:
    """Parse a server's `Location` header, which is relative to `base`.

    If the header has no fragment, the result has the fragment of `base`.

    Raises:
        FetchRefused: As in `parse_target`.
    """
    _refuse_writing(location)
    url = _read(location, _read(base.href))
    _, mark, fragment = base.href.partition("#")
    if mark and "#" not in url.href:
        url.hash = fragment
    return _target(url)


def host_of(text: str) -> str:
    """Return the host of a URL, as normalized by the WHATWG parser; empty if the text has no host.

    IPv6 addresses are in brackets.
    """
    try:
        return _parse(text).hostname
    except ValueError:
        return ""


def normal(text: str) -> str | None:
    """Return a web URL as normalized by the WHATWG parser; None for other texts and for refused URLs."""
    try:
        return parse_target(text).href
    except FetchRefused:
        return None


def _refuse_writing(text: str) -> None:
    """Refuse text that the WHATWG parser repairs silently, but other parsers do not.

    Raises:
        FetchRefused: The text is too long, or has control characters or a backslash.
    """
    if len(text) > MAX_URL_BYTES:
        raise FetchRefused(
            "The URL is too long.", "It may have {max_url_bytes} bytes.", max_url_bytes=MAX_URL_BYTES
        )
    if _CONTROL.search(text):
        raise FetchRefused("The URL has control characters.")
    if _BACKSLASH.match(text):
        raise FetchRefused("The URL has a backslash, which can be read in two ways.", "Write / in its place.")


def _read(text: str, base: "URL | None" = None) -> "URL":
    try:
        return _parse(text, base)
    except ValueError:
        raise FetchRefused(
            "This is not a valid URL.", "It needs a scheme and a host, as in https://example.com/."
        ) from None


def _parse(text: str, base: "URL | None" = None) -> "URL":
    """Parse a URL by the WHATWG rules.

    Raises:
        ValueError: The text is not a URL, or has half a surrogate pair.
    """
    from can_ada import parse

    text.encode()  # the library raises TypeError for half a surrogate pair
    return parse(text) if base is None else base + text


def _target(url: "URL") -> Target:
    scheme = url.protocol.removesuffix(":")
    if scheme not in _DEFAULT_PORTS:
        raise FetchRefused("Only http and https are fetched.")
    if url.username or url.password:
        raise FetchRefused("The URL has user info.", "Write it without the part before the @.")
    if len(url.href) > MAX_URL_BYTES:
        raise FetchRefused(
            "The URL is too long.", "It may have {max_url_bytes} bytes.", max_url_bytes=MAX_URL_BYTES
        )
    name = url.hostname
    host = name.removeprefix("[").removesuffix("]")
    return Target(
        href=url.href,
        scheme=scheme,
        host=host,
        is_ip=host != name or _IPV4.fullmatch(host) is not None,
        port=int(url.port) if url.port else _DEFAULT_PORTS[scheme],
        path_and_query=url.pathname + url.search,
        authority=url.host,
    )
