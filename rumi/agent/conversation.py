"""A conversation in the form that servers accept: every tool call has its result."""

from collections.abc import Sequence
from dataclasses import replace

from rumi.models.model import Message

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
