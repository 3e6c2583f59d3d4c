"""What becomes of a turn that the end of a process interrupted: it goes on, or its user is asked.

The next process resumes such a turn at its last stored step, if nothing can happen twice. The history shows
which tool calls have no stored result. A call gets its result if its tool knows how it ended. It is repeated
if it only reads, or if it still waited for a person's yes. Any other call may have had its effect, so the
turn ends, and its reply names the call. A process that ends in order stores a result for the calls that it
interrupts. Then the model knows about them, and the turn goes on. See
docs/decisions/0117-turns-go-on-after-a-restart.md and 0142-effects-are-reserved.md.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from rumi.agent.tool import KnowsOutcome, Tool, only_reads
from rumi.agent.tool_set import ToolSet, is_concurrent
from rumi.errors import RumiError
from rumi.models.model import Message, ToolCall
from rumi.platform.untrusted_text import one_line
from rumi.store.journal.records import BrokenTurn, HistoryEntry

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
    known, before = ToolSet(tools), True
    for number, call in enumerate(open_calls(broken.entries)):
        tool, arguments = known.named(call.name), call.parsed_arguments
        beside = is_concurrent(tool, arguments)
        if number and not (before and beside):
            break
        waited = asking_mark(broken.entries, call.id) == broken.asking
        if not waited and not only_reads(tool, arguments):
            return call
        before = beside
    return None


async def known_outcomes(broken: BrokenTurn, tools: Sequence[Tool]) -> tuple[tuple[Message, bool], ...]:
    """Return the results of a turn's open calls if the tool of the first one knows how that call ended.

    Each is a pair with True if it has content from outside. The calls behind the first one had not begun.
    Return no results if nobody knows the outcome of the first call, or if it waited for a person's yes.
    """
    first, *others = open_calls(broken.entries) or (None,)
    tool = None if first is None else ToolSet(tools).named(first.name)
    if first is None or tool is None or not isinstance(tool, KnowsOutcome):
        return ()
    if asking_mark(broken.entries, first.id) == broken.asking:
        return ()
    try:
        result = await tool.outcome(first.parsed_arguments)
    except RumiError:
        return ()
    if result is None:
        return ()
    said = Message("tool", result.content, tool_call_id=first.id), result.tainted
    return said, *((Message("tool", NOT_BEGUN, tool_call_id=call.id), False) for call in others)


def open_calls(entries: Sequence[HistoryEntry]) -> tuple[ToolCall, ...]:
    """Return the calls of a turn without a stored result, in their order: the last ones of its last reply."""
    results: set[str] = set()
    for entry in reversed(entries):
        if entry.message.role == "tool":
            results.add(entry.message.tool_call_id or "")
        elif entry.message.role == "assistant":
            return tuple(call for call in entry.message.tool_calls if call.id not in results)
    return ()


def replies_in(entries: Sequence[HistoryEntry]) -> int:
    """Return the number of model replies that a turn has stored."""
    return sum(entry.message.role == "assistant" for entry in entries)


def asking_mark(entries: Sequence[HistoryEntry], call: str) -> str:
    """Return what is stored of a turn's call that waits for a person's yes. A model may use an id again."""
    return f"{replies_in(entries)} {call}"


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
    arguments = call.parsed_arguments
    words = " ".join(str(value) for value in arguments.values()) if arguments else call.arguments
    if call.name == "bash":
        words = str(arguments.get("command", words))
    return one_line(f"{call.name}: {words}", CALL_CHARS).replace("`", "'")
