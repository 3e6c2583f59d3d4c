"""What a command is to containers that are no containers: the words of a plain line."""

from collections.abc import Sequence
from itertools import dropwhile

from rumi.sandbox.starting import reading
from rumi.sandbox.words import CommandRefused


def words_of(argv: Sequence[str]) -> Sequence[str]:
    """Return the words of a line for bash if it is one plain command; other argvs as they are.

    The variables of a command, which `env` sets, are left out.
    """
    if argv[0] == "env":
        argv = list(dropwhile(lambda word: "=" in word, argv[1:]))
    if tuple(argv[:2]) != ("bash", "-c") or len(argv) != 3:
        return argv
    try:
        return reading(argv[2]).words or argv
    except CommandRefused:
        return argv
