"""How much the calls of a turn carry out to servers, in bits, and which calls carry out too much.

A model that obeys a page can put a secret into the arguments of a tool that only reads: into a text, into
many small numbers, or into the choice among values that are known already.
"""

from collections.abc import Callable, Collection, Mapping
from math import log2
from typing import Final

from rumi.agent.permissions.consent import (
    LEAST_CHARS,
    ArgumentValue,
    Words,
    argument_values,
    chooses,
    plain,
    stands_in,
)
from rumi.agent.permissions.destinations import is_address
from rumi.agent.tool import Claims

CALL_BITS: Final = 64
TURN_BITS: Final = 128
"""What one call, and all calls of a turn between two questions, may carry out."""

SMALL: Final = 1000
SMALL_BITS: Final = 11
"""A whole number below `SMALL`, with its sign, carries so much."""

MOST_FREE_IN_LISTS: Final = 1
"""A list may have so many values that come from nowhere that we know."""

CALL: Final = 1
"""What a call carries by being made."""

OWN: Final = 3
ADDRESS: Final = 10
"""What a value carries that its server knows already. An address leads further, to others."""


class CarriedOut:
    """What the calls of one turn have carried out.

    `known` returns what a server's own results say, by the names of its tools.
    """

    def __init__(
        self, words: Words, known_urls: Collection[str], known: Callable[[Collection[str]], str]
    ) -> None:
        self._words = words
        self._known_urls = known_urls
        self._known = known
        self._bits = 0.0
        self._disclosed: set[tuple[frozenset[str], str]] = set()

    def takes(self, arguments: Mapping[str, object], claims: Claims) -> bool:
        """Return True, and count it, if a call may be made without a question."""
        known, server = self._known(claims.siblings), frozenset(claims.siblings)
        bits, free, disclosed = float(CALL), 0, set[tuple[frozenset[str], str]]()
        for argument in argument_values(arguments, claims.schema):
            cost = self._cost(argument, known, server)
            if cost is None:
                return False
            bits += cost
            free += argument.in_list and self._is_free(argument, known)
            disclosed.add((server, plain(str(argument.value))))
        if free > MOST_FREE_IN_LISTS or bits > CALL_BITS or self._bits + bits > TURN_BITS:
            return False
        self._bits += bits
        self._disclosed |= disclosed
        return True

    def allow(self) -> None:
        """Count from the beginning: the user has seen a call and said yes."""
        self._bits = 0.0

    def _cost(self, argument: ArgumentValue, known: str, server: frozenset[str]) -> float | None:
        """Return the bits of a value; None if it may say anything."""
        value = argument.value
        if argument.is_plain:
            return 0
        if argument.listed:
            return log2(argument.listed)
        if isinstance(value, bool):
            return 1
        if chooses(value) and (server, plain(str(value))) in self._disclosed:
            return 1
        if self._words.have(value):
            return log2(len(self._words) + 1)
        if isinstance(value, str) and all(map(self._words.have, value.split())):
            return len(value.split()) * log2(len(self._words) + 1)
        if isinstance(value, str) and value in self._known_urls:
            return log2(len(self._known_urls) + 1)
        if isinstance(value, str) and len(value) >= LEAST_CHARS and stands_in(value, known):
            return ADDRESS if is_address(value) else OWN
        if isinstance(value, int | float) and value == int(value) and abs(value) < SMALL:
            return SMALL_BITS
        return None

    def _is_free(self, argument: ArgumentValue, known: str) -> bool:
        """Return True for a value that neither the user nor the server has said."""
        if argument.is_plain or argument.listed or self._words.have(argument.value):
            return False
        return not (chooses(argument.value) and stands_in(argument.value, known))
