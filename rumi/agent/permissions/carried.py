"""Estimate, in bits, of the information that a turn's calls send to MCP servers, and a limit on it.

A model that obeys instructions in a web page can hide a secret in the arguments of a read-only tool: in a
text, in many small numbers, or in a choice among known values.
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
"""Maximum bits that a turn's calls may send to servers between two questions; `CALL_BITS` is for one call."""

SMALL: Final = 1000
SMALL_BITS: Final = 11
"""Bits charged for a whole number, including its sign, if its absolute value is below `SMALL`."""

MOST_FREE_IN_LISTS: Final = 1
"""Maximum number of list items that neither the user nor the server has mentioned."""

CALL: Final = 1
"""Bits charged for each call, in addition to the bits of its arguments."""

OWN: Final = 3
ADDRESS: Final = 10
"""Bits charged for an address that the same server has sent before.

Other values that the server has sent cost `OWN` bits. An address costs more, because it leads to other
parties.
"""


class CarriedOut:
    """A counter of the bits of information that one turn's calls have sent to MCP servers.

    `known` takes the names of a server's tools, and returns the text of that server's earlier results.
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
        """Return True if a call may run without asking the user; if so, add the call's bits to the count."""
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
        """Reset the count after the user has seen and approved a call."""
        self._bits = 0.0

    def _cost(self, argument: ArgumentValue, known: str, server: frozenset[str]) -> float | None:
        """Return how many bits an argument value reveals; None if it may contain arbitrary information."""
        value = argument.value
        if argument.is_plain:
            return 0
        if argument.listed:
            return log2(argument.listed)
        if isinstance(value, bool):
            return 1
        if chooses(value) and (server, plain(str(value))) in self._disclosed:
            # The same server has received this value already; only the choice to repeat it is new.
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
        """Return True if neither the user nor the server has mentioned the value."""
        if argument.is_plain or argument.listed or self._words.have(argument.value):
            return False
        return not (chooses(argument.value) and stands_in(argument.value, known))
