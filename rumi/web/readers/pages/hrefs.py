"""Resolution of a page's links to URLs that can be written in Markdown and later extracted from it."""

import re
from typing import Final

from rumi.web.messages import FetchRefused
from rumi.web.url import Target, join_target, parse_target

MOST_CHARS: Final = 2048  # longer URLs carry data, and are useless for a reader
_AUTHORITY: Final = re.compile(r"https?://[^/?#]*")
_AMBIGUOUS: Final = re.compile(r"[()\[\]{}|\\^`'<>\"\s]")
_ENDS_A_SENTENCE: Final = re.compile(r"[.,;:!?*_~]$")


class Hrefs:
    """Resolves the links of one page; `base` is the URL in its <base> element.

    A page without a URL, such as a part of a document, has absolute links only.
    """

    def __init__(self, url: str, base: str | None = None) -> None:
        self._page = _without_fragment(url)
        self._base = _target(self._page)
        if self._base is not None and base:
            self._base = _joined(self._base, base) or self._base

    def absolute(self, href: str | None) -> str | None:
        """Return the absolute URL of a link, normalized by the WHATWG parser and safe in Markdown.

        Returns None for links that do not lead to the web, for links that are too long, and for links to
        anchors in the same page.
        """
        if not href or href.lstrip().startswith("#"):
            return None
        target = _target(href.strip()) if self._base is None else _joined(self._base, href)
        if target is None or len(target.href) > MOST_CHARS:
            return None
        if "#" in target.href and _without_fragment(target.href) == self._page:
            return None
        return unambiguous(target.href)


def unambiguous(href: str) -> str:
    """Encode the characters in a URL that could be mistaken for Markdown or for the surrounding text.

    Examples of such characters are brackets, bars and a final full stop.
    """
    begins = _AUTHORITY.match(href)
    end = begins.end() if begins else 0
    rest = _AMBIGUOUS.sub(_encoded, href[end:])
    return href[:end] + _ENDS_A_SENTENCE.sub(_encoded, rest)


def _encoded(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())


def _without_fragment(url: str) -> str:
    return url.partition("#")[0]


def _target(url: str) -> Target | None:
    try:
        return parse_target(url)
    except FetchRefused:
        return None


def _joined(base: Target, href: str) -> Target | None:
    try:
        # Browsers drop line ends and tabs from attributes; other control characters are refused.
        return join_target(base, href.strip().translate({9: None, 10: None, 13: None}))
    except FetchRefused:
        return None
