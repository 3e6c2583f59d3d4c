"""What becomes of a turn that the end of a process interrupted: it goes on, or its user is asked.

The next process resumes such a turn at its last stored step, if nothing can happen twice. The history shows
which tool calls have no stored result. Such a call is repeated if it only reads, or if it still waited for a
person's yes. Any other call may have had its effect, so the turn ends, and its reply names the call. A
process that ends in order stores a result for the calls that it interrupts. Then the model knows about them,
and the turn goes on. See docs/decisions/0117-turns-go-on-after-a-restart.md.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from rumi.agent.tool import BringsTools, Delegates, Tool, only_reads
from rumi.models.model import Message, ToolCall
from rumi.platform.untrusted_text import one_line
from rumi.store.journal.records import BrokenTurn

MOST_RESUMED: Final = 2
"""Maximum number of times that a turn is resumed: a turn may be the reason for which the process ends."""

OLDEST_S: Final = 3600.0
"""A turn whose last stored step is older than this, in seconds, does not go on by itself: its user is asked.

What the user wanted then may not be what they want now. The same holds for a `/yes` that began nothing.
"""

CALL_CHARS: Final = 120
"""Maximum length of an interrupted call in a reply."""

CUT_SHORT: Final = (
    "interrupted: Rumi was restarted, and ended this call after {seconds:.0f} s. It may have had effects. "
    "Look at what is there before you repeat it."
)
"""The result of a call that a process ended because the process itself was ending."""

NOT_BEGUN: Final = "not run: Rumi was restarted before this call. Make it again if it is still needed."


def may_have_acted(broken: BrokenTurn, tools: Sequence[Tool]) -> ToolCall | None:
    """Return the first call of an interrupted turn that may have had an effect nobody knows of, or None.

    Calls of one reply run in order. So of the calls without a result, only the first one has begun, and those
    behind it that could run at the same time.
    """
    before: ToolCall | None = None
    for call in broken.open_calls:
        if before is not None and not (_concurrent(before, tools) and _concurrent(call, tools)):
            break
        waited = f"{broken.replies} {call.id}" == broken.asking
        if not waited and not only_reads(tool_named(call.name, tools), arguments_of(call)):
            return call
        before = call
    return None


def results_of_interrupted(
    calls: Sequence[ToolCall], begun: Mapping[str, float], now: float
) -> tuple[Message, ...]:
    """Return results for the calls that a process interrupts when it ends in order.

    `begun` has the times at which calls began, by their ids.
    """
    return tuple(
        Message(
            "tool",
            CUT_SHORT.format(seconds=now - begun[call.id]) if call.id in begun else NOT_BEGUN,
            tool_call_id=call.id,
        )
        for call in calls
    )


def in_words(call: ToolCall) -> str:
    """Return a call as one short line for people, such as `bash: make deploy`."""
    arguments = arguments_of(call)
    words = " ".join(str(value) for value in arguments.values()) if arguments else call.arguments
    if call.name == "bash":
        words = str(arguments.get("command", words))
    return one_line(f"{call.name}: {words}", CALL_CHARS).replace("`", "'")


def arguments_of(call: ToolCall) -> Mapping[str, object]:
    """Return the arguments of a stored call; none if they are not a JSON object."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def tool_named(name: str, tools: Collection[Tool]) -> Tool | None:
    """Return the tool with this name, or None. Tools that find others also know those that a model called."""
    found = next((tool for tool in tools if tool.spec.name == name), None)
    bringing = (tool for tool in tools if hasattr(tool, "brought") and isinstance(tool, BringsTools))
    return found or next((tool for more in bringing if (tool := more.named(name)) is not None), None)


def _concurrent(call: ToolCall, tools: Collection[Tool]) -> bool:
    tool = tool_named(call.name, tools)
    if tool is None:
        return False
    if isinstance(tool, Delegates):
        return tool.is_concurrent(arguments_of(call))
    return tool.concurrent
