"""Keeps a turn's prompts within the model's token budget, in few and large steps.

Servers charge less for the beginning of a prompt that they have seen before, so a turn does not change
earlier messages. If the turn's results exceed the budget, the oldest ones are shortened until there is space
for a while. The prompt then has one new beginning, which stays unchanged again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from rumi.models.fitting import in_short, messages_tokens
from rumi.models.model import Message

STEP_SHARE: Final = 0.5
"""The share of the budget that is used after results have been shortened, if shortening suffices."""

_NOTE_CHARS: Final = 200


class Fitting:
    """The messages of a turn's prompts. `max_tokens` is their current budget."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.messages = list(messages)
        self._total = messages_tokens(self.messages)

    def add(self, message: Message) -> None:
        """Append a message."""
        self.messages.append(message)
        self._total += message.tokens

    def shorten_results(self, max_tokens: int) -> Message | None:
        """Shorten the oldest results if the messages exceed their budget. Return the last shortened message.

        Results that the model has not seen yet are shortened only if nothing else suffices, the latest one
        last.
        """
        if self._total <= max_tokens:
            return None
        seen = max(
            (place for place, earlier in enumerate(self.messages) if earlier.role == "assistant"), default=0
        )
        last = None
        for index, message in enumerate(self.messages):
            if self._total <= (max_tokens * STEP_SHARE if index < seen else max_tokens):
                break
            shorter = in_short(message)
            if shorter is not message:
                self._total += shorter.tokens - message.tokens
                self.messages[index] = shorter
                last = message
        return last


CLOSING = (
    "Stop working now: a limit of this turn was reached. Without calling any tool, tell the user in a few "
    "sentences, in their language, what you have found or done so far and what is still missing."
)
"""The program's words, kept as such. Models see them as a user's: they obey that best."""


NO_RESULT = "interrupted: there is no result; the call may or may not have taken effect"


def complete(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the conversation with a result after every tool call, and no result without its call.

    A turn that was cut off (stopped, timed out, crashed, restarted) leaves calls without results, and servers
    refuse such conversations. What a breaker asked is a user's message.
    """
    whole: list[Message] = []
    unanswered: list[str] = []
    for message in messages:
        if message.role == "tool":
            if message.tool_call_id not in unanswered:
                continue
            unanswered.remove(message.tool_call_id)
        else:
            whole.extend(_no_result(call) for call in unanswered)
            unanswered = [call.id for call in message.tool_calls]
        asks = message.role == "system" and message.content == CLOSING
        whole.append(replace(message, role="user") if asks else message)
    whole.extend(_no_result(call) for call in unanswered)
    return tuple(whole)


def _no_result(call_id: str) -> Message:
    return Message("tool", NO_RESULT, tool_call_id=call_id)
