"""The one place that parses URLs: by the WHATWG rules, once, into the fields that a connection needs.

ada parses; all other code (the guard, the connection, the request line, the Host header) uses the fields of a
`Target` and never the text again, so no two readings can differ.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rumi.web.messages import FetchRefused

if TYPE_CHECKING:
    from ada_url import URL

MAX_URL_BYTES: Final = 8192

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_BACKSLASH: Final = re.compile(r"[^?#]*\\")
# An @ between the scheme's colon and the first slash of the path: also one with nothing before it.
_USER_INFO: Final = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*:/*[^/?#]*@")


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a URL, by the WHATWG parser.

    `href` is the whole URL with its fragment. `host` is ASCII and without brackets; `is_ip` says that it is
    an address. `port` is the scheme's where the URL has none. `path_and_query` is what the request line
    carries, `authority` what the Host header does: with brackets around IPv6, without the scheme's own port.
    """

    href: str
    scheme: str
    host: str
    is_ip: bool
    port: int
    path_and_query: str
    authority: str

    @property
    def page(self) -> str:
        """The URL without its fragment."""
        return self.href.partition("#")[0]


def parse_target(text: str) -> Target:
    """Return the target of a URL that a person, a model or a page wrote.

    Raises:
        FetchRefused: It is not a URL, not of the web, or written so that parsers could read it differently.
    """
    _refuse_writing(text)
    target = _target(_read(text))
    if _USER_INFO.match(text):
        raise FetchRefused("The URL has user info.", "Write it without the part before the @.")
    return target


def join_target(base: Target, location: str) -> Target:
    """Return the target of a server's `Location`, relative to `base`, whose fragment is passed on.

    Raises:
        FetchRefused: As in `parse_target`.
    """
    _refuse_writing(location)
    url = _read(location, base.href)
    _, mark, fragment = base.href.partition("#")
    if mark and "#" not in url.href:
        url.hash = fragment
    return _target(url)


def host_of(text: str) -> str:
    """Return the host in the form of the WHATWG parser, IPv6 in brackets; empty if the text has none."""
    from ada_url import URL

    try:
        return URL(text).hostname
    except ValueError:
        return ""


def normal(text: str) -> str | None:
    """Return a URL of the web in the form of the WHATWG parser; None for other text and for refused URLs."""
    try:
        return parse_target(text).href
    except FetchRefused:
        return None


def _refuse_writing(text: str) -> None:
    """Refuse text that the WHATWG parse would repair silently, and other parsers would not."""
    if len(text) > MAX_URL_BYTES:
        raise FetchRefused("The URL is too long.", f"It may have {MAX_URL_BYTES} bytes.")
    if _CONTROL.search(text):
        raise FetchRefused("The URL has control characters.")
    if _BACKSLASH.match(text):
        raise FetchRefused("The URL has a backslash, which can be read in two ways.", "Write / in its place.")


def _read(text: str, base: str | None = None) -> "URL":
    from ada_url import URL

    try:
        return URL(text, base)
    except ValueError:  # half a surrogate pair is one too
        raise FetchRefused(
            "This is not a valid URL.", "It needs a scheme and a host, as in https://example.com/."
        ) from None


def _target(url: "URL") -> Target:
    from ada_url import HostType

    scheme = url.protocol.removesuffix(":")
    if scheme not in _DEFAULT_PORTS:
        raise FetchRefused("Only http and https are fetched.")
    if url.username or url.password:
        raise FetchRefused("The URL has user info.", "Write it without the part before the @.")
    if len(url.href) > MAX_URL_BYTES:
        raise FetchRefused("The URL is too long.", f"It may have {MAX_URL_BYTES} bytes.")
    host = url.hostname.removeprefix("[").removesuffix("]")
    return Target(
        href=url.href,
        scheme=scheme,
        host=host,
        is_ip=url.host_type != HostType.DEFAULT,
        port=int(url.port) if url.port else _DEFAULT_PORTS[scheme],
        path_and_query=url.pathname + url.search,
        authority=url.host,
    )
