"""How much the calls of a turn carry out to servers, in bits, and which calls carry out too much.

A model that obeys a page can put a secret into the arguments of a tool that only reads: into a text, into
many small numbers, or into the choice among values that are known already.
"""

from collections.abc import Callable, Collection, Mapping
from math import log2
from typing import Final

from rumi.agent.permissions.consent import LEAST_CHARS, Place, Words, chooses, places, plain, stands_in
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


class Carried:
    """What the calls of one turn have carried out.

    `known` returns what a server's own results say, by the names of its tools.
    """

    def __init__(self, words: Words, given: Collection[str], known: Callable[[Collection[str]], str]) -> None:
        self._words = words
        self._given = given
        self._known = known
        self._bits = 0.0
        self._told: set[tuple[frozenset[str], str]] = set()

    def takes(self, arguments: Mapping[str, object], claims: Claims) -> bool:
        """Return True, and count it, if a call may be made without a question."""
        known, server = self._known(claims.siblings), frozenset(claims.siblings)
        bits, free, told = float(CALL), 0, set[tuple[frozenset[str], str]]()
        for place in places(arguments, claims.schema):
            cost = self._cost(place, known, server)
            if cost is None:
                return False
            bits += cost
            free += place.in_list and self._is_free(place, known)
            told.add((server, plain(str(place.value))))
        if free > MOST_FREE_IN_LISTS or bits > CALL_BITS or self._bits + bits > TURN_BITS:
            return False
        self._bits += bits
        self._told |= told
        return True

    def allow(self) -> None:
        """Count from the beginning: the user has seen a call and said yes."""
        self._bits = 0.0

    def _cost(self, place: Place, known: str, server: frozenset[str]) -> float | None:
        """Return the bits of a value; None if it may say anything."""
        value = place.value
        if place.is_plain:
            return 0
        if place.listed:
            return log2(place.listed)
        if isinstance(value, bool):
            return 1
        if chooses(value) and (server, plain(str(value))) in self._told:
            return 1
        if self._words.have(value):
            return log2(len(self._words) + 1)
        if isinstance(value, str) and all(map(self._words.have, value.split())):
            return len(value.split()) * log2(len(self._words) + 1)
        if isinstance(value, str) and value in self._given:
            return log2(len(self._given) + 1)
        if isinstance(value, str) and len(value) >= LEAST_CHARS and stands_in(value, known):
            return ADDRESS if is_address(value) else OWN
        if isinstance(value, int | float) and value == int(value) and abs(value) < SMALL:
            return SMALL_BITS
        return None

    def _is_free(self, place: Place, known: str) -> bool:
        """Return True for a value that neither the user nor the server has said."""
        if place.is_plain or place.listed or self._words.have(place.value):
            return False
        return not (chooses(place.value) and stands_in(place.value, known))
