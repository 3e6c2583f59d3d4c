"""One turn: think, act, observe.

A plain async function over explicit inputs. It tells what happens through `watch`, which must not
block, and hands each message on the way to `keep`, which may wait for the disk; the last word is the
answer that it returns, for its caller to store with the reply. Everything that it
starts ends with it: when its caller cancels it, the model's connection is closed, its permit is back and
no command runs when it has left.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import trio

from rumi import texts
from rumi.agent.breakers import Breakers, Limits
from rumi.agent.events import Thinking, ToolFinished, ToolStarted, TurnEvent, TurnFinished
from rumi.agent.fitting import fit
from rumi.errors import RumiError
from rumi.models import (
    Message,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    Reply,
    ToolCall,
    ToolCallNamed,
    Usage,
)
from rumi.texts import Breaker, Language
from rumi.tools import Tool, ToolResult

logger = logging.getLogger(__name__)

CLOSING_S = 30.0
"""How long the closing answer of a breaker may take, in seconds."""

PROMPT_SHARE = 0.75
"""How much of a model's context the prompt may take; the rest is the reply's."""

CUT_OFF = ToolResult(False, "stopped before it ended")

CLOSING = (
    "Stop working now: a limit of this turn was reached. Without calling any tool, tell the user in a few "
    "sentences, in their language, what you have found or done so far and what is still missing."
)


@dataclass(frozen=True, slots=True)
class TurnInput:
    """All that a turn works with. The last message of `history` is what is asked.

    `context_tokens` is how much the model takes, prompt and reply together.
    """

    instructions: str
    history: Sequence[Message]
    model: Model
    tools: Sequence[Tool]
    limits: Limits
    language: Language
    context_tokens: int = 131_072


Watch = Callable[[TurnEvent], None]
Keep = Callable[[Message], Awaitable[None]]


async def run_turn(given: TurnInput, watch: Watch, keep: Keep) -> TurnFinished:
    """Work until there is an answer or a breaker trips; never raises for a model or a tool that fails.

    Cancelled, it leaves only when its tool calls and its model call have ended.
    """
    turn = _Turn(given, watch, keep)
    with trio.move_on_after(given.limits.timeout_s) as deadline:
        try:
            finished = await turn.work()
        except ModelError as error:
            answer = texts.model_failed(given.language, str(error))
            finished = TurnFinished("model_error", answer, turn.usage)
    if deadline.cancelled_caught:
        finished = await turn.close("timeout")
    watch(finished)
    return finished


@dataclass(slots=True)
class _Turn:
    """The moving parts of a turn."""

    given: TurnInput
    watch: Watch
    keep: Keep
    messages: list[Message] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)

    async def work(self) -> TurnFinished:
        breakers = Breakers(self.given.limits)
        calls = 0
        while True:
            calls += 1
            self.watch(Thinking(calls))
            reply = await self._think()
            if not reply.tool_calls:
                return TurnFinished("complete", reply.text, self.usage)
            await self._remember(Message("assistant", reply.text, reply.tool_calls))
            tripped = await self._act(reply.tool_calls, breakers) or breakers.after_model_call(calls)
            if tripped is not None:
                return await self.close(tripped)

    async def _think(self) -> Reply:
        """One model call; tools get ready while the reply still streams."""
        outcome: Reply | ModelError
        async with trio.open_nursery() as nursery:
            try:
                outcome = await self._ask_model(nursery)
            except ModelError as error:
                outcome = error
            if isinstance(outcome, ModelError) or not outcome.tool_calls:
                nursery.cancel_scope.cancel()  # what was readied is not needed
        if isinstance(outcome, ModelError):
            raise outcome
        self.usage += outcome.usage
        return outcome

    async def _ask_model(self, nursery: trio.Nursery) -> Reply:
        readied: set[str] = set()

        def emit(event: ModelEvent) -> None:
            if not isinstance(event, ToolCallNamed):
                self.watch(event)
                return
            tool = self._tool(event.name)
            if tool is not None and event.name not in readied:
                readied.add(event.name)
                nursery.start_soon(_prepare, tool)

        request = ModelRequest(self._conversation(), tuple(tool.spec for tool in self.given.tools))
        return await self.given.model.reply(request, emit)

    def _conversation(self) -> tuple[Message, ...]:
        whole = (Message("system", self.given.instructions), *self.given.history, *self.messages)
        return fit(whole, int(self.given.context_tokens * PROMPT_SHARE))

    async def _remember(self, message: Message) -> None:
        self.messages.append(message)
        await self.keep(message)

    def _tool(self, name: str) -> Tool | None:
        return next((tool for tool in self.given.tools if tool.spec.name == name), None)

    async def _act(self, calls: Sequence[ToolCall], breakers: Breakers) -> Breaker | None:
        """Run the calls of one reply in order, neighbours whose tools allow it side by side.

        When a breaker trips, the calls that are left are answered as not run.
        """
        tripped: Breaker | None = None
        for batch in self._batches(calls):
            if tripped is not None:
                for call in batch:
                    await self._answer(call, ToolResult(False, "not run: the turn was stopped before it"))
                continue
            for call, arguments, result in await self._run_batch(batch):
                await self._answer(call, result)
                tripped = tripped or breakers.after_result(call.name, arguments, result)
        return tripped

    def _batches(self, calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
        batches: list[list[ToolCall]] = []
        for call in calls:
            tool = self._tool(call.name)
            alone = tool is None or not tool.concurrent
            if alone or not batches or not self._all_concurrent(batches[-1]):
                batches.append([call])
            else:
                batches[-1].append(call)
        return batches

    def _all_concurrent(self, calls: Sequence[ToolCall]) -> bool:
        tools = [self._tool(call.name) for call in calls]
        return all(tool is not None and tool.concurrent for tool in tools)

    async def _run_batch(
        self, batch: Sequence[ToolCall]
    ) -> list[tuple[ToolCall, Mapping[str, object], ToolResult]]:
        done: dict[int, tuple[ToolCall, Mapping[str, object], ToolResult]] = {}

        async def run(place: int, call: ToolCall) -> None:
            arguments, problem = _parse(call)
            self.watch(ToolStarted(call, arguments))
            try:
                result = problem or await self._call(call, arguments)
            except trio.Cancelled:
                self.watch(ToolFinished(call, CUT_OFF))
                raise
            self.watch(ToolFinished(call, result))
            done[place] = (call, arguments, result)

        async with trio.open_nursery() as nursery:
            for place, call in enumerate(batch):
                nursery.start_soon(run, place, call)
        return [done[place] for place in sorted(done)]

    async def _call(self, call: ToolCall, arguments: Mapping[str, object]) -> ToolResult:
        tool = self._tool(call.name)
        if tool is None:
            known = ", ".join(tool.spec.name for tool in self.given.tools)
            return ToolResult(False, f"there is no tool {call.name!r}; there are: {known}")
        try:
            return await tool.call(arguments)
        except RumiError as error:
            return ToolResult(False, str(error))
        except Exception as error:  # a tool's fault is a result, and the turn goes on
            logger.warning("the tool %s raised", call.name, exc_info=error)
            return ToolResult(False, f"{call.name} failed: {type(error).__name__}")

    async def _answer(self, call: ToolCall, result: ToolResult) -> None:
        await self._remember(Message("tool", result.content, tool_call_id=call.id))

    async def close(self, reason: Breaker) -> TurnFinished:
        """Ask once more, without tools, for what was found; the warning follows, or stands alone."""
        warning = texts.breaker(self.given.language, reason, self.given.limits.max_turns)
        found = ""
        self.watch(Thinking(0))
        with trio.move_on_after(CLOSING_S):
            try:
                request = ModelRequest((*complete(self._conversation()), Message("system", CLOSING)))
                reply = await self.given.model.reply(request, _only_words(self.watch))
            except ModelError:
                pass
            else:
                self.usage += reply.usage
                found = reply.text.strip()
        answer = f"{found}\n\n{warning}" if found else warning
        return TurnFinished(reason, answer, self.usage)


def _only_words(watch: Watch) -> Callable[[ModelEvent], None]:
    def emit(event: ModelEvent) -> None:
        if not isinstance(event, ToolCallNamed):
            watch(event)

    return emit


def _parse(call: ToolCall) -> tuple[Mapping[str, object], ToolResult | None]:
    """The call's arguments, or the error result that the model gets for what is no JSON object."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as error:
        return {}, ToolResult(False, f"the arguments of {call.name} are no valid JSON: {error}")
    if not isinstance(arguments, dict):
        return {}, ToolResult(False, f"the arguments of {call.name} must be a JSON object")
    return arguments, None


async def _prepare(tool: Tool) -> None:
    try:
        await tool.prepare()
    except RumiError:
        return  # the call that follows meets the same trouble and tells the model
    except Exception as error:  # as in a call: a tool's fault does not end the turn
        logger.warning("the tool %s could not be made ready", tool.spec.name, exc_info=error)


def complete(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The same conversation with a result behind every tool call, and no result without its call.

    A turn that was cut off (stopped, timed out, crashed, restarted) leaves calls without results, and
    servers refuse such conversations.
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
