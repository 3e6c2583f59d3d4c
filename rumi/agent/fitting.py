"""Keeping a turn's prompts within what its model takes, in few and large steps.

Servers charge less for the beginning of a prompt that they have seen before, so what was shown once stays as
it was. When a turn's own results have outgrown the room, so many of them are shortened, the oldest first,
that there is room for a while: one new beginning, and then it stays again.
"""

from collections.abc import Iterable
from typing import Final

from rumi.models import SHORT_CHARS, Message, message_tokens, messages_tokens, shortened

STEP_SHARE: Final = 0.5
"""How much of the room is taken when results have been shortened, if shortening them can do it."""

_NOTE_CHARS: Final = 200


class Fitting:
    """The messages of a turn's prompts. `max_tokens` is their room now."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.messages = list(messages)
        self._total = messages_tokens(self.messages)

    def add(self, message: Message) -> None:
        """Append a message."""
        self.messages.append(message)
        self._total += message_tokens(message)

    def make_room(self, max_tokens: int) -> Message | None:
        """Shorten the oldest results if the messages have outgrown their room. Returns the last of those.

        The results that the model has not seen yet are only shortened if nothing else helps, and the latest
        last.
        """
        if self._total <= max_tokens:
            return None
        seen = max((place for place, each in enumerate(self.messages) if each.role == "assistant"), default=0)
        last = None
        for place, message in enumerate(self.messages):
            if self._total <= (max_tokens * STEP_SHARE if place < seen else max_tokens):
                break
            shorter = in_short(message)
            if shorter is not message:
                self._total += message_tokens(shorter) - message_tokens(message)
                self.messages[place] = shorter
                last = message
        return last


def in_short(message: Message) -> Message:
    """A result's beginning, and a word on what is left out. What is short already stays as it is."""
    if message.role != "tool" or len(message.content) <= SHORT_CHARS + _NOTE_CHARS:
        return message
    return shortened(message, SHORT_CHARS)
