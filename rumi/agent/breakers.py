"""Circuit breakers: they end a turn that makes no progress or reaches one of its limits."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rumi.agent.tool import ToolResult
from rumi.models.model import ToolCall, Usage
from rumi.platform.texts.replies import Breaker

ENDS_SOON = 2
"""The model is warned when at most this many model calls remain in the turn."""

NOTHING = Usage()

REPEATED = "\n[Note from the program: the same call gave the same result. Calling it again will not help.]"


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """The limits of a turn.

    `max_turns` limits the number of model calls. `repeated_call` limits the repetitions of a call with the
    same result, and `consecutive_errors` the consecutive replies whose calls all failed. `timeout_s` limits
    the duration of the whole turn, in seconds. `max_tokens` limits the tokens of all prompts and replies
    together; None means no limit. `max_nano_usd` limits the known cost of these tokens, in billionths of a
    USD.
    """

    max_turns: int = 10
    repeated_call: int = 2
    consecutive_errors: int = 3
    timeout_s: float = 600.0
    max_tokens: int | None = None
    max_nano_usd: int | None = None


class Breakers:
    """The circuit breakers of one turn, which count repetitions, errors and usage.

    A call is a repetition if the call directly before it, in the same or the previous reply, had the same
    name, arguments and result. Any other call in between resets the count, because it may have changed
    something: running the tests again after each edit is work, not a loop.
    """

    def __init__(self, limits: TurnLimits) -> None:
        self._limits = limits
        self._last: tuple[str, str, str] | None = None
        self._repeats = 0
        self._errors = 0
        self._warned = False

    def repeats(self, call: ToolCall, arguments: Mapping[str, object], result: ToolResult) -> int:
        """Count a call's result; return how many times the call has been repeated so far.

        Arguments that are not a JSON object are compared as text.
        """
        asked = json.dumps(arguments, sort_keys=True) if arguments else call.arguments
        this = (call.name, asked, result.same_as or result.content)
        self._repeats = self._repeats + 1 if this == self._last else 0
        self._last = this
        return self._repeats

    def forget_last(self) -> None:
        """Forget the last call. The model cannot see the call's whole result, so it may repeat the call."""
        self._last = None

    def after_result(self) -> Breaker | None:
        """Return the breaker that trips because of the last counted result; None if none trips."""
        return "repeated_call" if self._repeats >= self._limits.repeated_call else None

    def after_reply(self, results: Sequence[ToolResult], calls: int, used: Usage = NOTHING) -> Breaker | None:
        """Return the breaker that trips because of a reply with these results; None if none trips.

        `calls` is the number of model calls so far, including the one for this reply.
        """
        self._errors = 0 if any(result.ok for result in results) else self._errors + 1
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
