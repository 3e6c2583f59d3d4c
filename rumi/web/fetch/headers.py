"""The headers of a response, and their meaning: media type, charset, size and cache lifetime."""

import re
from collections.abc import Iterable
from email.utils import parsedate_to_datetime
from typing import Final

_MEDIA_TYPE: Final = re.compile(r"[a-z0-9!#$&^_.+*-]{1,60}/[a-z0-9!#$&^_.+*-]{1,80}")
# Possessive quantifiers: otherwise tens of thousands of spaces would cause quadratic backtracking.
_CHARSET: Final = re.compile(r";\s*+charset\s*+=\s*+[\"']?\s*+([\w.:+-]{1,40})", re.IGNORECASE)
_SECONDS: Final = re.compile(r"\d{1,9}")
_DIRECTIVE: Final = re.compile(r"([a-z-]+)(?:\s*=\s*\"?([^\s,\"]*)\"?)?")
_PERSONAL: Final = {"*", "cookie", "authorization"}
_CACHED_IF_EXPLICIT: Final = {302, 303, 307}  # temporary redirects: RFC 9110, 15.4


class Headers:
    """Headers by name. As in HTTP, their values are decoded as Latin-1."""

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def all(self, name: str) -> list[str]:
        """Return all values of a header; `name` must be in lower case."""
        return self._values.get(name, [])

    def first(self, name: str) -> str:
        """Return a header's first value, stripped, or an empty string; `name` must be in lower case."""
        return self._values.get(name, [""])[0].strip()

    @property
    def media_type(self) -> str:
        """The media type without parameters, in lower case; empty if it is missing or malformed."""
        name = self.first("content-type").partition(";")[0].strip().lower()
        return name if _MEDIA_TYPE.fullmatch(name) else ""

    @property
    def charset(self) -> str | None:
        """The charset that the server declares, or None."""
        found = _CHARSET.search(self.first("content-type"))
        return found[1].lower() if found else None

    @property
    def size(self) -> int | None:
        """The size of the body before decompression, in bytes; None if the server does not declare it."""
        length = self.first("content-length")
        return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None

    def ttl_s(self, status: int, longest_s: float) -> float:
        """Return the time for which a shared cache may store the answer: up to `longest_s` seconds.

        0 means that the answer may not be stored.
        """
        cache_control = _DIRECTIVE.findall(", ".join(self.all("cache-control")).lower())
        said = dict(cache_control)
        vary = {name.strip().lower() for value in self.all("vary") for name in value.split(",")}
        if said.keys() & {"no-store", "no-cache", "private"} or vary & _PERSONAL or self.all("set-cookie"):
            return 0
        if not said and "no-cache" in self.first("pragma").lower():
            return 0
        max_age = said.get("s-maxage") or said.get("max-age")
        if max_age is not None:
            age = self.first("age")
            used = int(age) if _SECONDS.fullmatch(age) else 0
            return max(0.0, min(longest_s, int(max_age) - used)) if _SECONDS.fullmatch(max_age) else 0
        if self.first("expires"):
            return min(longest_s, self._expires_s())
        return 0 if status in _CACHED_IF_EXPLICIT else longest_s

    def _expires_s(self) -> float:
        """Return the seconds until the time in `Expires`, by the server's clock; 0 if a date is invalid."""
        try:
            expires, now = (parsedate_to_datetime(self.first(name)[:64]) for name in ("expires", "date"))
            return max(0.0, (expires - now).total_seconds())
        except (ValueError, TypeError, OverflowError):
            return 0
