"""Names browsers in plain words, such as "Firefox · Linux", from what they say about themselves."""

from typing import Final

_BROWSERS: Final = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
"""Marks of browsers. The first mark counts, because most browsers also claim to be the ones that follow."""

_SYSTEMS: Final = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def browser_name(user_agent: str) -> str:
    """Return the browser and the system of a `User-Agent` header; empty if both are unknown.

    Only the names in this file are returned, so nothing that a client makes up is shown to people.
    """
    found = (
        next((name for mark, name in marks if mark in user_agent), "") for marks in (_BROWSERS, _SYSTEMS)
    )
    return " · ".join(filter(None, found))
