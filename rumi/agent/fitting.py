"""Keeping a turn's prompts within the model's token budget, in a few large steps.

Servers charge less for a prompt prefix that is in their cache, so a turn leaves earlier messages unchanged.
If the messages exceed the budget, the oldest tool results are shortened far enough to make room for several
more messages. So the prefix changes once and then stays the same for a while. If that makes too little room,
because the turn has made many calls, the turn replaces its oldest steps with a summary
(`rumi.agent.compaction`), and keeps the request and the last steps.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from rumi.agent.compaction.summaries import BEGINS, KEPT_TOKENS
from rumi.models.dialects.conversation import paired
from rumi.models.fitting import in_short, messages_tokens
from rumi.models.model import Message

STEP_SHARE: Final = 0.5
"""Shortening seen results reduces the messages to this share of the budget, if possible."""

COMPACT_AT: Final = 0.7
"""Old steps are replaced with a summary if shortening results leaves more than this share of the budget."""

KEPT_SHARE: Final = 0.35
"""Maximum share of the budget for the last steps, which stay whole."""

WORTH_SHARE: Final = 0.15
"""A summary is written only if it replaces at least this share of the budget."""


class Fitting:
    """The messages that a turn's prompts consist of, and their total size.

    The last user messages are the request, which always stays.
    """

    def __init__(self, messages: Iterable[Message]) -> None:
        self.messages = list(messages)
        self.tokens = messages_tokens(self.messages)
        self._request = _last_request(self.messages)

    def add(self, message: Message) -> None:
        """Append a message."""
        self.messages.append(message)
        self.tokens += message.tokens

    def outgrown(self, max_tokens: int) -> tuple[Message, ...]:
        """Return the oldest messages, to be replaced by a summary so that the others fit `max_tokens`.

        They do not include system messages, the request, and the last steps. Return nothing if a summary
        would make little room.
        """
        last = self._last_steps(min(KEPT_TOKENS, int(max_tokens * KEPT_SHARE)))
        gone = tuple(
            message
            for message in self.messages[:last]
            if message.role != "system" and not any(message is kept for kept in self._request)
        )
        return gone if messages_tokens(gone) >= max_tokens * WORTH_SHARE else ()

    def stand_in(self, gone: Sequence[Message], summary: Message) -> None:
        """Replace these messages, which `outgrown` has returned, with a summary before the request."""
        ids = {id(message) for message in gone}
        before = {id(message) for message in (*gone, *self._request)}
        first = next(index for index, message in enumerate(self.messages) if id(message) in before)
        kept = [message for message in self.messages if id(message) not in ids]
        self.messages = [*kept[:first], summary, *kept[first:]]
        self.tokens = messages_tokens(self.messages)

    def _last_steps(self, max_tokens: int) -> int:
        """Return the index of the first of the last steps that fit `max_tokens`; the last step always stays.

        A step is a reply of the model and the results of its calls.
        """
        starts = [n for n, message in enumerate(self.messages) if message.role == "assistant"]
        last = len(self.messages)
        for start in reversed(starts):
            if last < len(self.messages) and messages_tokens(self.messages[start:]) > max_tokens:
                break
            last = start
        return last

    def shorten_results(self, max_tokens: int) -> Message | None:
        """Shorten the oldest results if the messages exceed `max_tokens`; return the last shortened message.

        Results that the model has not seen yet are shortened only if shortening the results that it has seen
        is not enough. The latest result is shortened last. The returned message still has its original text.
        Return None if nothing was shortened.
        """
        if self.tokens <= max_tokens:
            return None
        seen = max(
            (index for index, earlier in enumerate(self.messages) if earlier.role == "assistant"), default=0
        )
        last = None
        for index, message in enumerate(self.messages):
            # Seen results are shortened below the budget, so that the prefix changes rarely. Unseen ones lose
            # only as much as needed.
            if self.tokens <= (max_tokens * STEP_SHARE if index < seen else max_tokens):
                break
            shorter = in_short(message)
            if shorter is not message:
                self.tokens += shorter.tokens - message.tokens
                self.messages[index] = shorter
                last = message
        return last


def _last_request(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the last user messages that directly follow each other, except a summary."""
    end = next((n for n in range(len(messages), 0, -1) if messages[n - 1].role == "user"), 0)
    begin = end
    while begin > 0 and messages[begin - 1].role == "user":
        begin -= 1
    return tuple(message for message in messages[begin:end] if not message.content.startswith(BEGINS))


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


def complete(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the conversation with a result after each tool call; drop results that belong to no call.

    An interrupted turn (stopped, timed out, crashed, restarted) leaves calls without results, and servers
    refuse such conversations. Rumi's own requests, which are system messages, become user messages.
    """
    return paired(
        [replace(message, role="user") if is_program_request(message) else message for message in messages]
    )


def is_program_request(message: Message) -> bool:
    """Return True if the message is a request that Rumi itself makes of the model."""
    asks = message.content.startswith(PROGRAM_REQUESTS)
    return asks and message.role == "system"
