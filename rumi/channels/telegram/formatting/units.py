"""The length of a text on Telegram."""

from typing import Final

LIMIT_UNITS: Final = 4096
"""Telegram's maximum length of a message, in UTF-16 code units."""


def units(text: str) -> int:
    """Return the length as Telegram counts it: UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
