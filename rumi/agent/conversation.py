"""A conversation in the form that servers accept: every tool call has its result."""

from collections.abc import Sequence

from rumi.models import Message


def complete(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the conversation with a result after every tool call, and no result without its call.

    A turn that was cut off (stopped, timed out, crashed, restarted) leaves calls without results, and servers
    refuse such conversations.
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
        whole.append(message)
    whole.extend(_no_result(call) for call in unanswered)
    return tuple(whole)


def _no_result(call_id: str) -> Message:
    return Message("tool", "interrupted: there is no result", tool_call_id=call_id)
