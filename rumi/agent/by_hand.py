"""A command that a person runs: a call of the `bash` tool without a model and its turn."""

import json
from collections.abc import Callable

import trio

from rumi.agent.acting import Acting
from rumi.agent.events import BY_HAND, TurnEvent
from rumi.agent.permissions.gate import Gate
from rumi.agent.tool import ToolResult
from rumi.agent.tools.bash import Bash
from rumi.models.model import ToolCall
from rumi.texts import Language


async def call_by_hand(
    tool: Bash, command: str, timeout_s: float, language: Language, watch: Callable[[TurnEvent], None]
) -> ToolResult:
    """Run a command with the events of a tool call. On cancellation, no process of the command is left."""
    arguments = {"command": command, "timeout_s": timeout_s}
    gate = Gate(
        tainted=False,
        known_urls=(),
        words="",
        history=(),
        language=language,
        watch=watch,
        confirm=None,
        parking=None,
        deadline=trio.CancelScope(),
    )
    call = ToolCall(BY_HAND, tool.spec.name, json.dumps(arguments, ensure_ascii=False))
    ((_, _, result),) = await Acting((tool,), watch, gate, language).run([call])
    return result
