"""What a command is to containers that are no containers: the words of a plain line."""

from collections.abc import Sequence

from rumi.sandbox.starting import reading
from rumi.sandbox.words import CommandRefused


def words_of(argv: Sequence[str]) -> Sequence[str]:
    """Return the words of a line for bash if it is one plain command; other argvs as they are."""
    if tuple(argv[:2]) != ("bash", "-c") or len(argv) != 3:
        return argv
    try:
        return reading(argv[2]).words or argv
    except CommandRefused:
        return argv
