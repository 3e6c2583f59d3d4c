"""How long a text is for Telegram."""

from typing import Final

LIMIT_UNITS: Final = 4096
"""The longest message that Telegram takes, in UTF-16 code units."""


def units(text: str) -> int:
    """The length that Telegram counts: UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
