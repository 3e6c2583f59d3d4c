"""The cookies of one fetch: what a server sets with a redirect, and expects at its target (RFC 6265).

Some servers redirect to the same URL until a cookie comes back. A jar lives for one fetch only, and a cookie
goes only to the host that has set it: the attribute `Domain` never widens this.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

from rumi.web.url import Target

MOST_COOKIES: Final = 30
MOST_BYTES: Final = 8192
"""Maximum number of cookies of a fetch, and their maximum total size in a request, in bytes."""

_NAME: Final = re.compile(r"[-!#$%&'*+.^_`|~0-9a-zA-Z\[\]:@/?{}()<>]{1,256}")
_VALUE: Final = re.compile(r"[\x20-\x7e]{0,4096}")
_MAX_AGE: Final = re.compile(r"-?\d{1,15}")


@dataclass(frozen=True, slots=True)
class _Cookie:
    name: str
    value: str
    path: str
    secure: bool


class CookieJar:
    """The cookies of one fetch, by host."""

    def __init__(self) -> None:
        self._cookies: dict[tuple[str, str, str], _Cookie] = {}

    def set(self, target: Target, headers: Iterable[str]) -> None:
        """Store the cookies of `Set-Cookie` headers that the answer of a target has; ignore invalid ones."""
        for header in headers:
            pair, *attributes = header.split(";")
            name, equals, value = (part.strip(" \t") for part in pair.partition("="))
            if not equals or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
                continue
            known = {key.strip().lower(): at.strip() for key, _, at in (a.partition("=") for a in attributes)}
            path = known.get("path", "")
            path = path if path.startswith("/") else _folder(target)
            secure = "secure" in known or name.startswith(("__Secure-", "__Host-"))
            key = (target.host, path, name)
            self._cookies.pop(key, None)
            kept = not _is_over(known) and (not secure or target.scheme == "https")
            if kept and len(self._cookies) < MOST_COOKIES:
                self._cookies[key] = _Cookie(name, value, path, secure)

    def header(self, target: Target) -> str:
        """Return the value of the header `Cookie` for a request; empty if no cookie belongs to it."""
        found = [
            cookie
            for (host, _, _), cookie in self._cookies.items()
            if host == target.host
            and _is_below(_path(target), cookie.path)
            and (not cookie.secure or target.scheme == "https")
        ]
        # The cookies with longer paths come first; the sort keeps the order of the others.
        pairs = [f"{cookie.name}={cookie.value}" for cookie in sorted(found, key=lambda it: -len(it.path))]
        while sum(len(pair) + 2 for pair in pairs) > MOST_BYTES:
            pairs.pop()
        return "; ".join(pairs)


def _path(target: Target) -> str:
    return target.path_and_query.partition("?")[0]


def _folder(target: Target) -> str:
    return _path(target).rpartition("/")[0] or "/"


def _is_below(path: str, folder: str) -> bool:
    return path == folder or (path.startswith(folder) and (folder.endswith("/") or path[len(folder)] == "/"))


def _is_over(attributes: dict[str, str]) -> bool:
    """Return True if a server deletes a cookie: its lifetime is over already. Other lifetimes are ignored."""
    max_age = attributes.get("max-age", "")
    if _MAX_AGE.fullmatch(max_age):
        return int(max_age) <= 0
    try:
        return parsedate_to_datetime(attributes.get("expires", "")[:64].replace("-", " ")).year < 2000
    except (ValueError, TypeError, IndexError, OverflowError):
        return False
