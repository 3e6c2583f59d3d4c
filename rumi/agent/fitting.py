"""Shortening of a turn's prompts so that they fit the model's token budget, in a few large steps.

Servers charge less for a prompt prefix that is in their cache, so a turn leaves earlier messages unchanged.
If the messages exceed the budget, the oldest tool results are shortened far enough to make room for several
more messages. So the prefix changes once and then stays the same for a while.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from rumi.models.fitting import in_short, messages_tokens
from rumi.models.model import Message

STEP_SHARE: Final = 0.5
"""Shortening seen results reduces the messages to this share of the budget, if possible."""


class Fitting:
    """The messages that a turn's prompts consist of, and their total size."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.messages = list(messages)
        self._total = messages_tokens(self.messages)

    def add(self, message: Message) -> None:
        """Append a message."""
        self.messages.append(message)
        self._total += message.tokens

    def shorten_results(self, max_tokens: int) -> Message | None:
        """Shorten the oldest results if the messages exceed `max_tokens`; return the last shortened message.

        Results that the model has not seen yet are shortened only if shortening the results that it has seen
        is not enough. The latest result is shortened last. The returned message still has its original text.
        Return None if nothing was shortened.
        """
        if self._total <= max_tokens:
            return None
        seen = max(
            (index for index, earlier in enumerate(self.messages) if earlier.role == "assistant"), default=0
        )
        last = None
        for index, message in enumerate(self.messages):
            # Seen results are shortened below the budget, so that the prefix changes rarely. Unseen ones lose
            # only as much as needed.
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
"""Rumi's request to the model for a closing answer, stored as a system message.

Models receive the request as a user message, because they follow user messages best.
"""

GO_ON = (
    "The user asks you to go on: a limit ended your last turn before the work was done. Continue where it "
    "stopped, and do not repeat what is done."
)
"""Rumi's request to the model for a user who continues a turn, stored like `CLOSING`."""

CHECK = "Before you end: this turn changed something, and you looked at nothing since."
"""The beginning of the request for a check before the end (`rumi.agent.end_check`); stored like `CLOSING`."""

PROGRAM_REQUESTS: Final = (CLOSING, GO_ON, CHECK)
"""Beginnings of Rumi's own requests."""

NO_RESULT = "interrupted: there is no result; the call may or may not have taken effect"


def complete(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the conversation with a result after each tool call; drop results that belong to no call.

    An interrupted turn (stopped, timed out, crashed, restarted) leaves calls without results, and servers
    refuse such conversations. Rumi's own requests, which are system messages, become user messages.
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
        whole.append(replace(message, role="user") if is_program_request(message) else message)
    whole.extend(_no_result(call) for call in unanswered)
    return tuple(whole)


def is_program_request(message: Message) -> bool:
    """Return True if the message is a request that Rumi itself makes of the model."""
    asks = message.content.startswith(PROGRAM_REQUESTS)
    return asks and message.role == "system"


def _no_result(call_id: str) -> Message:
    return Message("tool", NO_RESULT, tool_call_id=call_id)
