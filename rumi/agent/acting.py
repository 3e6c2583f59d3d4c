"""Execution of the tool calls of one reply: concurrency, progress, results and refusals."""

import codecs
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import count
from typing import Final, TypeAlias

import trio

from rumi.agent.events import ToolFinished, ToolOutput, ToolProgress, ToolStarted, TurnEvent
from rumi.agent.permissions.gate import Gate
from rumi.agent.tool import (
    CallsTools,
    CommandTrace,
    Delegates,
    LooksOutside,
    ReportsProgress,
    RunsCommands,
    StreamsOutput,
    SubTurn,
    SubTurnEnd,
    Tool,
    ToolResult,
)
from rumi.agent.tool_set import ToolSet, is_concurrent
from rumi.errors import RumiError, single
from rumi.models.model import ToolCall
from rumi.platform.redact import HIDDEN
from rumi.platform.untrusted_text import one_line
from rumi.texts import Language, Text, translate

logger = logging.getLogger(__name__)

STOPPED = ToolResult(False, Text("stopped before it ended"))
CUT_OFF = ToolResult(
    False,
    Text(
        "not run: this call was cut off before its end, because your reply reached the longest that "
        "you may write at once. Write less in one call, for example a long file in several parts."
    ),
    refused=True,
    broken=True,
)
SECRET = ToolResult(
    False,
    Text(
        "not run: the arguments held a secret of this installation, such as the key of a model, and "
        "is hidden. Do the work without it, or tell the user to do this step."
    ),
)

STEP_S: Final = 0.25
"""Minimum time between two published steps of a tool call, in seconds."""

MAX_STEP_CHARS: Final = 200

MAX_OUTPUT_BYTES: Final = 4096
"""Maximum size of the output that is published at once."""

MAX_NAME_CHARS: Final = 60
"""Maximum number of characters that a result repeats of an unknown tool's name."""

NAMES: Final = 5
"""Maximum number of names that a result names instead: those that are similar, if there are such."""

RunWithin: TypeAlias = Callable[[ToolCall, SubTurn], Awaitable[SubTurnEnd]]
"""Runs a turn within a tool call of a turn."""


class Acting:
    """Runner of one turn's tool calls, behind the turn's permission gate.

    `watch` receives an event for the start, each step and the end of a call. Without `run_within`, no call
    can delegate work.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        watch: Callable[[TurnEvent], None],
        gate: Gate,
        language: Language,
        withheld: Mapping[str, str] | None = None,
        run_within: RunWithin | None = None,
    ) -> None:
        self._run_within = run_within
        self._withheld = withheld or {}
        self._tools = ToolSet(tools)
        self._watch = watch
        self._gate = gate
        self._language = language

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the model can call now: the turn's first tools, and those that tools have added."""
        return self._tools.tools

    def tool(self, name: str) -> Tool | None:
        """Return the tool with the given name, or None."""
        return self._tools.named(name)

    def batches(self, calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
        """Group the calls into batches, in order. A batch has one call, or consecutive concurrent calls."""
        batches: list[list[ToolCall]] = []
        for call in calls:
            if batches and self._concurrent(call) and self._concurrent(batches[-1][-1]):
                batches[-1].append(call)
            else:
                batches.append([call])
        return batches

    def _concurrent(self, call: ToolCall) -> bool:
        return is_concurrent(self.tool(call.name), _parse(call, cut_off=False)[0])

    async def run(
        self, batch: Sequence[ToolCall], *, cut_off: bool = False
    ) -> list[tuple[ToolCall, Mapping[str, object], ToolResult]]:
        """Run a batch of calls concurrently; return each call with its arguments and its result, in order.

        The calls start in order: each call runs up to its first checkpoint before the next call starts. So
        events and questions are in the order of the calls too. `cut_off` means that the model's reply was cut
        off, so the last call may be incomplete.
        """
        done: dict[int, tuple[ToolCall, Mapping[str, object], ToolResult]] = {}

        async def run(index: int, call: ToolCall, *, task_status: trio.TaskStatus[None]) -> None:
            task_status.started()
            arguments, problem = _parse(call, cut_off)
            done[index] = (call, arguments, await self._run_reported(call, arguments, problem))

        async with trio.open_nursery() as nursery:
            for index, call in enumerate(batch):
                await nursery.start(run, index, call)
        return [done[index] for index in sorted(done)]

    async def _run_reported(
        self, call: ToolCall, arguments: Mapping[str, object], problem: ToolResult | None = None
    ) -> ToolResult:
        """Run one call and report its events. If a `problem` is given, only return the problem."""
        self._watch(ToolStarted(call, arguments))
        steps = _Steps(call.id, self._language, self._watch)
        try:
            result = problem or await self._call(call, arguments, steps)
        except BaseException:  # Cancelled, possibly in an exception group from a tool's nursery
            self._watch(ToolFinished(call, replace(STOPPED, trace=self._ran(call)), steps.shown))
            raise
        pictures = tuple(replace(picture, data=b"") for picture in result.pictures)
        shown = result.content
        if result.advice:
            shown = Text("{message} {advice}", message=result.content, advice=result.advice)
        self._watch(ToolFinished(call, replace(result, content=shown, pictures=pictures), steps.shown))
        return result

    async def _call(self, call: ToolCall, arguments: Mapping[str, object], steps: "_Steps") -> ToolResult:
        tool = self.tool(call.name)
        if tool is None and call.name in self._withheld:
            return ToolResult(False, self._withheld[call.name], refused=True)
        if tool is None:
            names = [tool.spec.name for tool in self.tools]
            names = get_close_matches(call.name, names, NAMES) or names[:NAMES]
            return ToolResult(
                False,
                Text(
                    "there is no tool {name}; there are: {names}",
                    name=repr(call.name[:MAX_NAME_CHARS]),
                    names=", ".join(names),
                ),
                refused=True,
                broken=True,
            )
        try:
            refused = await self._gate.refusal(tool, arguments, call.id)
            if refused is not None:
                return replace(refused, refused=True)
            if isinstance(tool, CallsTools):
                return await tool.call_within(arguments, partial(self._inner, call, count(1)))
            if isinstance(tool, Delegates) and self._run_within is not None:
                return await tool.call_delegating(arguments, self.tools, partial(self._run_within, call))
            return await self._work(tool, arguments, steps)
        except RumiError as error:
            return ToolResult(False, error.for_model, broken=True, advice=error.for_people)
        except Exception as error:  # a bug in a tool becomes a result, and the turn continues
            logger.warning("the tool %s raised", call.name, exc_info=error)
            cause = type(single(error)).__name__
            return ToolResult(False, Text("{name} failed: {error}", name=call.name, error=cause), broken=True)

    async def _work(self, tool: Tool, arguments: Mapping[str, object], steps: "_Steps") -> ToolResult:
        result = await self._result_of(tool, arguments, steps)
        return replace(result, may_change=True) if isinstance(tool, LooksOutside) else result

    async def _result_of(self, tool: Tool, arguments: Mapping[str, object], steps: "_Steps") -> ToolResult:
        if isinstance(tool, StreamsOutput):
            return await steps.show(lambda live: tool.call_streaming(arguments, live.heard))
        if isinstance(tool, ReportsProgress):
            return await steps.show(lambda live: tool.call_reporting(arguments, live.report))
        return await tool.call(arguments)

    def _ran(self, call: ToolCall) -> CommandTrace | None:
        """Return the command that an interrupted call had started; None if it had started none."""
        tool = self.tool(call.name)
        return tool.ran if isinstance(tool, RunsCommands) else None

    async def _inner(
        self, outer: ToolCall, numbers: "count[int]", name: str, arguments: Mapping[str, object]
    ) -> ToolResult:
        """Run a call that a tool makes, with the same gate and events as a call that the model makes."""
        call = ToolCall(f"{outer.id}.{next(numbers)}", name, json.dumps(arguments, default=str))
        if name == outer.name:
            return ToolResult(False, Text("{name} cannot call itself", name=name), refused=True)
        if isinstance(self.tool(name), Delegates):
            return ToolResult(False, Text("{name} cannot be called here", name=name), refused=True)
        result = await self._run_reported(call, arguments)
        self._gate.note_result(name, result)
        return result


class _Steps:
    """Publishes a call's progress every `STEP_S` seconds, and always at its end: the latest step, and output.

    A step that is not published costs almost nothing. Of much output, the end is published. `shown` counts
    the published steps.
    """

    def __init__(self, call: str, language: Language, watch: Callable[[TurnEvent], None]) -> None:
        self.shown = 0
        self._call = call
        self._language = language
        self._watch = watch
        self._latest = ""
        self._before = ""
        self._output = bytearray()
        self._cut = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._news = trio.Event()

    async def show(self, work: "Callable[[_Steps], Awaitable[ToolResult]]") -> ToolResult:
        """Run `work`, publish the steps and the output that it reports, and return its result."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._show_as_they_come)
                try:
                    return await work(self)
                finally:
                    self._show_latest()
                    nursery.cancel_scope.cancel()
        except ExceptionGroup as group:
            raise single(group) from None

    def report(self, text: str) -> None:
        """Report a step; see `Progress`."""
        self._latest = text
        self._news.set()

    def heard(self, piece: bytes) -> None:
        """Report output; see `StreamsOutput`."""
        self._output += piece
        if len(self._output) > 2 * MAX_OUTPUT_BYTES:
            del self._output[:-MAX_OUTPUT_BYTES]
            self._cut = True
        self._news.set()

    async def _show_as_they_come(self) -> None:
        while True:
            await self._news.wait()
            self._show_latest()
            await trio.sleep(STEP_S)

    def _show_latest(self) -> None:
        """Publish new output, and the latest step unless its text is the same as the previous one."""
        if self._output:
            cut = len(self._output) > MAX_OUTPUT_BYTES or self._cut
            text = self._decoder.decode(self._output[-MAX_OUTPUT_BYTES:])
            self._output, self._cut = bytearray(), False
            if cut and "\n" in text:  # of the first line, only the end is left
                text = text.partition("\n")[2]
            if text:
                self._watch(ToolOutput(self._call, text))
        latest, self._latest, self._news = self._latest, "", trio.Event()
        text = one_line(translate(self._language, latest)[: 10 * MAX_STEP_CHARS], MAX_STEP_CHARS - 1)
        if text and text != self._before:
            self._before = text
            self.shown += 1
            self._watch(ToolProgress(self._call, text, self.shown))


def _parse(call: ToolCall, cut_off: bool) -> tuple[Mapping[str, object], ToolResult | None]:
    """Return the call's arguments, and an error result for the model if they are not a JSON object."""
    if cut_off and not call.arguments.strip():
        return {}, CUT_OFF
    # `Hiding` has replaced the arguments, because they contained a secret.
    if call.arguments == HIDDEN:
        return {}, SECRET
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as error:
        if cut_off:
            return {}, CUT_OFF
        return {}, ToolResult(
            False,
            Text("the arguments of {name} are not valid JSON: {error}", name=call.name, error=error),
            refused=True,
            broken=True,
        )
    if not isinstance(arguments, dict):
        return {}, ToolResult(
            False,
            Text("the arguments of {name} must be a JSON object", name=call.name),
            refused=True,
            broken=True,
        )
    return arguments, None
