"""Texts that a research task adds to its answer: the sources, and notes on unconfirmed statements."""

from collections.abc import Sequence
from typing import Final

from rumi.texts import Language, Text, gettext

MISSING_QUOTE: Final = Text("quote not found")
MISSING_REFERENCE: Final = Text("no such line")
"""Notes that follow a part of an answer. They contain no brackets or quotation marks, because the check of an
answer searches for these characters."""


def sources_title(language: Language) -> str:
    """Return the heading of the list of sources."""
    return gettext(language, "Sources")


def read_on(language: Language, date: str) -> str:
    """Say on which date a source was read."""
    return gettext(language, "read on {date}", date=date)


def also_read(language: Language, count: int) -> str:
    """Say how many sources were read that the answer does not cite."""
    if count == 1:
        return gettext(language, "One source was read and not cited.")
    return gettext(language, "{count} sources were read and not cited.", count=count)


def nothing_read(language: Language) -> str:
    """Say that the research task has read no sources."""
    return gettext(language, "No source was read.")


def removed_citations(language: Language, numbers: Sequence[int]) -> str:
    """Say which citations were removed because no source with their number was read."""
    listed = ", ".join(map(str, numbers))
    return gettext(
        language, "Citations removed, because no source of that number was read: {listed}.", listed=listed
    )


def unverified_title(language: Language) -> str:
    """Return the heading of the sentences that cite no source."""
    return gettext(language, "Without a source")


def and_more(language: Language, count: int) -> str:
    """Say how many entries a shortened list leaves out."""
    return gettext(language, "and {count} more", count=count)


def cut_short(language: Language) -> str:
    """Return the heading of the notes of a research task that a limit has ended."""
    return gettext(language, "Incomplete. What was noted until then")
