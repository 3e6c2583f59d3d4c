"""Circuit breakers: they end a turn that makes no progress."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from rumi.texts import Breaker
from rumi.tools import ToolResult


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """The limits of a turn.

    `max_turns` counts model calls, `repeated_call` equal calls with equal results (in a row or not),
    `consecutive_errors` failures one after the other; `timeout_s` is the whole turn in seconds.
    """

    max_turns: int = 10
    repeated_call: int = 2
    consecutive_errors: int = 3
    timeout_s: float = 600.0


class Breakers:
    """Counts the tool results of one turn."""

    def __init__(self, limits: TurnLimits) -> None:
        self._limits = limits
        self._seen: Counter[tuple[str, str, str]] = Counter()
        self._errors = 0

    def after_result(self, name: str, arguments: Mapping[str, object], result: ToolResult) -> Breaker | None:
        """Return the breaker that this result trips, if any."""
        self._errors = 0 if result.ok else self._errors + 1
        if self._errors >= self._limits.consecutive_errors:
            return "consecutive_errors"
        call = (name, json.dumps(arguments, sort_keys=True), result.same_as or result.content)
        self._seen[call] += 1
        if self._seen[call] >= self._limits.repeated_call:
            return "repeated_call"
        return None

    def after_model_call(self, calls: int) -> Breaker | None:
        """Return the breaker that forbids another model call, if any."""
        return "max_turns" if calls >= self._limits.max_turns else None
