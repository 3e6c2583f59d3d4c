"""Runs the tool calls of one reply: which calls may run concurrently, their results, and refused calls."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count

import trio

from rumi.agent.events import ToolFinished, ToolStarted, TurnEvent
from rumi.agent.gate import Gate
from rumi.errors import RumiError
from rumi.models import ToolCall
from rumi.tools import CallsTools, Tool, ToolResult

logger = logging.getLogger(__name__)

STOPPED = ToolResult(False, "stopped before it ended")
CUT_OFF = ToolResult(
    False,
    "not run: this call was cut off before its end, because your reply reached the longest that you may "
    "write at once. Write less in one call, for example a long file in several parts.",
)


class Acting:
    """The tools of one turn, behind its gate. `watch` gets every call and its end."""

    def __init__(self, tools: Sequence[Tool], watch: Callable[[TurnEvent], None], gate: Gate) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self._watch = watch
        self._gate = gate

    def tool(self, name: str) -> Tool | None:
        """Return the tool of that name."""
        return self._tools.get(name)

    def batches(self, calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
        """Return the calls in their order, in batches: neighbours that may run concurrently share a batch."""
        batches: list[list[ToolCall]] = []
        for call in calls:
            if batches and self._concurrent(call) and self._concurrent(batches[-1][-1]):
                batches[-1].append(call)
            else:
                batches.append([call])
        return batches

    def _concurrent(self, call: ToolCall) -> bool:
        tool = self.tool(call.name)
        return tool is not None and tool.concurrent

    async def run(
        self, batch: Sequence[ToolCall], *, cut_off: bool = False
    ) -> list[tuple[ToolCall, Mapping[str, object], ToolResult]]:
        """Run the calls of a batch concurrently; return each call with its arguments and its result, in
        order.

        The calls also start in order, up to each one's first wait, so that events and questions come in
        order. `cut_off`: the reply with these calls was cut off, so the last one may be incomplete.
        """
        done: dict[int, tuple[ToolCall, Mapping[str, object], ToolResult]] = {}

        async def run(place: int, call: ToolCall, *, task_status: trio.TaskStatus[None]) -> None:
            task_status.started()
            arguments, problem = _parse(call, cut_off)
            done[place] = (call, arguments, await self._told(call, arguments, problem))

        async with trio.open_nursery() as nursery:
            for place, call in enumerate(batch):
                await nursery.start(run, place, call)
        return [done[place] for place in sorted(done)]

    async def _told(
        self, call: ToolCall, arguments: Mapping[str, object], problem: ToolResult | None = None
    ) -> ToolResult:
        """Run one call, unless it has a problem already, and report its events."""
        self._watch(ToolStarted(call, arguments))
        try:
            result = problem or await self._call(call, arguments)
        except trio.Cancelled:
            self._watch(ToolFinished(call, STOPPED))
            raise
        self._watch(ToolFinished(call, result))
        return result

    async def _call(self, call: ToolCall, arguments: Mapping[str, object]) -> ToolResult:
        tool = self.tool(call.name)
        if tool is None:
            return ToolResult(False, f"there is no tool {call.name!r}; there are: {', '.join(self._tools)}")
        try:
            refused = await self._gate.refusal(tool, arguments)
            if refused is not None:
                return refused
            if isinstance(tool, CallsTools):
                return await tool.call_within(arguments, partial(self._inner, call, count(1)))
            return await tool.call(arguments)
        except RumiError as error:
            return ToolResult(False, str(error))
        except Exception as error:  # a tool's error is a result, and the turn continues
            logger.warning("the tool %s raised", call.name, exc_info=error)
            return ToolResult(False, f"{call.name} failed: {type(error).__name__}")

    async def _inner(
        self, outer: ToolCall, numbers: "count[int]", name: str, arguments: Mapping[str, object]
    ) -> ToolResult:
        """Run a call that a tool makes: it has the same gate and the same events as the model's calls."""
        call = ToolCall(f"{outer.id}.{next(numbers)}", name, json.dumps(arguments, default=str))
        if name == outer.name:
            return ToolResult(False, f"{name} cannot call itself")
        result = await self._told(call, arguments)
        self._gate.learn(result)
        return result


def _parse(call: ToolCall, cut_off: bool) -> tuple[Mapping[str, object], ToolResult | None]:
    """Return the call's arguments, or the error result for the model if they are not a JSON object."""
    if cut_off and not call.arguments.strip():
        return {}, CUT_OFF
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as error:
        if cut_off:
            return {}, CUT_OFF
        return {}, ToolResult(False, f"the arguments of {call.name} are not valid JSON: {error}")
    if not isinstance(arguments, dict):
        return {}, ToolResult(False, f"the arguments of {call.name} must be a JSON object")
    return arguments, None
