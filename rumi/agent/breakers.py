"""Circuit breakers: they end a turn that makes no progress or reaches one of its limits."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from rumi.agent.tool import ToolResult
from rumi.models.model import ToolCall, Usage
from rumi.platform.texts.replies import Breaker

ENDS_SOON: Final = 2
"""The model is warned when at most this many model calls remain in the turn."""

POLLS: Final = 10
"""How many times the limit of repetitions a call may be repeated whose result may change with time."""

WAITED_MS: Final = 1000
"""A call that took at least this long has waited for something, so its repetitions do not count."""

NOTHING: Final = Usage()

REPEATED: Final = (
    "\n[Note from the program: the same call gave the same result {times} times in a row. {advice}]"
)
DO_OTHER: Final = "Calling it again will not help: do something else, or answer."
LAST_TIME: Final = "Calling it once more ends the turn: do something else, or answer."
WAIT: Final = "If you wait for something, wait longer between two calls."


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """The limits of a turn.

    `max_turns` limits the number of model calls. `repeated_call` limits the repetitions of a call with the
    same result, and `consecutive_errors` the consecutive replies in which every call failed because of the
    machinery, or failed before in the same way. `timeout_s` limits the duration of the whole turn, in
    seconds. `max_tokens` limits the tokens of all prompts and replies together; None means no limit.
    `max_nano_usd` limits the known cost of these tokens, in billionths of a USD.
    """

    max_turns: int = 10
    repeated_call: int = 2
    consecutive_errors: int = 3
    timeout_s: float = 600.0
    max_tokens: int | None = None
    max_nano_usd: int | None = None


class _Call(NamedTuple):
    """What makes two calls the same: name, arguments and result."""

    name: str
    asked: str
    result: str


class Breakers:
    """The circuit breakers of one turn, which count repetitions, errors and usage.

    A call is a repetition if the call directly before it, in the same or the previous reply, had the same
    name, arguments and result. Any other call in between resets the count, because it may have changed
    something: running the tests again after each edit is work, not a loop. Neither is a poll: calls that took
    a second or more do not count, and other calls whose result may change with time have a limit `POLLS`
    times as high.

    Refused and failed calls are results, which a model can act on. An error is a reply in which every call
    failed because of the machinery (`ToolResult.broken`), or is a failed call of this turn once more, with
    the same failure.
    """

    def __init__(self, limits: TurnLimits) -> None:
        self._limits = limits
        self._last: _Call | None = None
        self._repeats = 0
        self._most_repeats = limits.repeated_call
        self._failures: set[_Call] = set()
        self._only_errors = True
        self._errors = 0
        self._warned = False

    def count(self, call: ToolCall, arguments: Mapping[str, object], result: ToolResult) -> str:
        """Count a call and its result; return a note for the model if the call is a repetition.

        Arguments that are not a JSON object are compared as text.
        """
        asked = json.dumps(arguments, sort_keys=True) if arguments else call.arguments
        this = _Call(call.name, asked, result.same_as or result.content)
        fails_again = not result.ok and this in self._failures
        self._only_errors = self._only_errors and (result.broken or fails_again)
        if not result.ok:
            self._failures.add(this)
        self._repeats = self._repeats + 1 if this == self._last else 0
        self._last = this
        if (result.duration_ms or 0) >= WAITED_MS:
            self._repeats = 0
        self._most_repeats = self._limits.repeated_call * (POLLS if result.may_change else 1)
        return self._note(result) if self._repeats else ""

    def _note(self, result: ToolResult) -> str:
        if self._repeats == self._most_repeats - 1:
            advice = LAST_TIME
        else:
            advice = WAIT if result.may_change else DO_OTHER
        return REPEATED.format(times=self._repeats + 1, advice=advice)

    def forget_last(self) -> None:
        """Forget the last call. The model cannot see the call's whole result, so it may repeat the call."""
        self._last = None

    def after_result(self) -> Breaker | None:
        """Return the breaker that trips because of the last counted result; None if none trips."""
        return "repeated_call" if self._repeats >= self._most_repeats else None

    def after_reply(self, calls: int, used: Usage = NOTHING) -> Breaker | None:
        """Return the breaker that trips because of a reply whose results are counted; None if none trips.

        `calls` is the number of model calls so far, including the one for this reply.
        """
        self._errors = self._errors + 1 if self._only_errors else 0
        self._only_errors = True
        if self._errors >= self._limits.consecutive_errors:
            return "consecutive_errors"
        return self.after_model_call(calls, used)

    def after_model_call(self, calls: int, used: Usage = NOTHING) -> Breaker | None:
        """Return the breaker that forbids another model call; None if another call is allowed.

        `calls` is the number of model calls so far.
        """
        limits, tokens = self._limits, used.prompt_tokens + used.completion_tokens
        if limits.max_tokens is not None and tokens >= limits.max_tokens:
            return "budget"
        if limits.max_nano_usd is not None and used.nano_usd >= limits.max_nano_usd:
            return "budget"
        return "max_turns" if calls >= self._limits.max_turns else None

    def warning(self, calls: int) -> str:
        """Return a warning that few model calls are left, to append to a tool result. Otherwise return "".

        The turn is warned only once.
        """
        left = self._limits.max_turns - calls
        if self._warned or not 0 < left <= ENDS_SOON:
            return ""
        self._warned = True
        more = "two more replies" if left > 1 else "one more reply"
        return f"\n[Note from the program: you have {more} in this turn. Finish, and answer the user.]"
