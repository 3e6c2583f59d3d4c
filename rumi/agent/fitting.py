"""Keeps a turn's prompts within the model's token budget, in few and large steps.

Servers charge less for the beginning of a prompt that they have seen before, so a turn does not change
earlier messages. If the turn's results exceed the budget, the oldest ones are shortened until there is space
for a while. The prompt then has one new beginning, which stays unchanged again.
"""

from collections.abc import Iterable
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
