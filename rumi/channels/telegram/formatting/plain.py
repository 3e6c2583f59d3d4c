"""Cuts plain text into pieces: for words that cannot be formatted, or whose formatting Telegram refuses."""

from rumi.channels.telegram.formatting.units import units


def cut(text: str, limit: int) -> list[str]:
    """Return the text in pieces of at most `limit` UTF-16 units each, cut at line ends or spaces if possible.

    Pieces without a visible character are left out.
    """
    pieces = []
    while text:
        end = _within(text, limit)
        if end < len(text):
            end = 1 + max(text.rfind("\n", end // 2, end), text.rfind(" ", end // 2, end)) or end
        pieces.append(text[:end].strip("\n"))
        text = text[end:]
    return [piece for piece in pieces if piece.strip()]


def _within(text: str, limit: int) -> int:
    """Return how many characters have at most `limit` units; at least one."""
    end = min(limit, len(text))
    while end > 1 and (over := units(text[:end]) - limit) > 0:
        end = max(1, end - (over + 1) // 2)
    return end
