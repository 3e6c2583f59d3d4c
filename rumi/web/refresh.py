"""The redirects that pages declare: `<meta http-equiv="refresh">`, and the header `Refresh`."""

import re
from typing import Final

LONGEST_S: Final = 10
"""Maximum delay of a refresh that is followed, in seconds: longer ones are for people who read the page."""

# The shared declarative refresh steps of the HTML Standard.
_REFRESH: Final = re.compile(
    r"\s*+(?:(\d{1,9})|(?=\.))[\d.]*+(?:\s*+[;,]\s*+|\s++)(?:url\s*+=\s*+)?+"
    r"(?:\"([^\"]*+)|'([^']*+)|([^\"'].*+))",
    re.IGNORECASE | re.DOTALL,
)


_RELOAD: Final = re.compile(r"\s*+(\d{1,9})[\d.]*+\s*+[;,]?\s*+")


def reloads(content: str) -> bool:
    """Return True if the page is loaded again after at most `LONGEST_S`, because no URL is there."""
    found = _RELOAD.fullmatch(content[:10_000])
    return found is not None and int(found[1]) <= LONGEST_S


def refresh_url(content: str) -> str:
    """Return the URL to follow; an empty string if there is none, or if the delay exceeds `LONGEST_S`."""
    found = _REFRESH.match(content[:10_000])
    if found is None or int(found[1] or 0) > LONGEST_S:
        return ""
    return next(filter(None, found.groups()[1:]), "").strip()
