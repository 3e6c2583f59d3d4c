"""Texts that a research task adds to its answer: the sources, and notes on unconfirmed statements."""

from collections.abc import Sequence
from typing import Final

from rumi.texts import Language, Text, gettext

MISSING_QUOTE: Final = Text("quote not found")
MISSING_REFERENCE: Final = Text("no such line")
"""Notes that follow a part of an answer. They contain no brackets or quotation marks, because the check of an
answer searches for these characters."""


def also_read(language: Language, count: int) -> str:
    """Say how many sources were read that the answer does not cite."""
    if count == 1:
        return gettext(language, "One source was read and not cited.")
    return gettext(language, "{count} sources were read and not cited.", count=count)


def removed_citations(language: Language, numbers: Sequence[int]) -> str:
    """Say which citations were removed because no source with their number was read."""
    listed = ", ".join(map(str, numbers))
    return gettext(
        language, "Citations removed, because no source of that number was read: {listed}.", listed=listed
    )
