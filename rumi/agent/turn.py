"""One turn: think, act, observe.

A plain async function over explicit inputs. It tells what happens through `watch`, which must not
block, and hands each message on the way to `keep`, which may wait for the disk; the last word is the
answer that it returns, for its caller to store with the reply. Everything that it
starts ends with it: when its caller cancels it, the model's connection is closed, its permit is back and
no command runs when it has left.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field

import trio

from rumi import texts
from rumi.agent.acting import Acting
from rumi.agent.breakers import Breakers, Limits
from rumi.agent.conversation import complete
from rumi.agent.events import Thinking, TurnEvent, TurnFinished
from rumi.agent.fitting import fit
from rumi.agent.gate import Confirm, Gate
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
    ToolSpec,
    Usage,
    request_tokens,
)
from rumi.texts import Breaker, Language
from rumi.tools import Tool, ToolResult

logger = logging.getLogger(__name__)

CLOSING_S = 30.0
"""How long the closing answer of a breaker may take, in seconds."""

PROMPT_SHARE = 0.75
"""How much of a model's context the prompt may take; the rest is the reply's."""

CLOSING = (
    "Stop working now: a limit of this turn was reached. Without calling any tool, tell the user in a few "
    "sentences, in their language, what you have found or done so far and what is still missing."
)


@dataclass(frozen=True, slots=True)
class TurnInput:
    """All that a turn works with. The last message of `history` is what is asked.

    `context_tokens` is how much the model takes, prompt and reply together. `tainted`: something in this
    conversation came from outside. `given` are the addresses that its user or a page gave, word for word;
    without `confirm` there is nobody who could say yes to what a tainted turn wants to do.
    """

    instructions: str
    history: Sequence[Message]
    model: Model
    tools: Sequence[Tool]
    limits: Limits
    language: Language
    context_tokens: int = 131_072
    tainted: bool = False
    given: Collection[str] = ()
    confirm: Confirm | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """A message for the history. `tainted`: the turn had read something from outside when it was made.

    `links` are the addresses that came with it, word for word.
    """

    message: Message
    tainted: bool = False
    links: tuple[str, ...] = ()


Watch = Callable[[TurnEvent], None]
Keep = Callable[[Kept], Awaitable[None]]


async def run_turn(given: TurnInput, watch: Watch, keep: Keep) -> TurnFinished:
    """Work until there is an answer or a breaker trips; never raises for a model or a tool that fails.

    Cancelled, it leaves only when its tool calls and its model call have ended.
    """
    with trio.move_on_after(given.limits.timeout_s) as deadline:
        gate = Gate(
            tainted=given.tainted,
            given=given.given,
            language=given.language,
            watch=watch,
            confirm=given.confirm,
            deadline=deadline,
        )
        turn = _Turn(given, watch, keep, gate, Acting(given.tools, watch, gate))
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
    gate: Gate
    acting: Acting
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
            tool = self.acting.tool(event.name)
            if tool is not None and event.name not in readied:
                readied.add(event.name)
                nursery.start_soon(_prepare, tool)

        request = ModelRequest(self._conversation(), self._specs)
        return await self.given.model.reply(request, emit)

    def _conversation(self) -> tuple[Message, ...]:
        whole = (Message("system", self.given.instructions), *self.given.history, *self.messages)
        room = int(self.given.context_tokens * PROMPT_SHARE)
        return fit(whole, room - request_tokens(ModelRequest((), self._specs)))

    @property
    def _specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self.given.tools)

    async def _remember(self, message: Message, links: tuple[str, ...] = ()) -> None:
        self.messages.append(message)
        await self.keep(Kept(message, self.gate.tainted, links))

    async def _act(self, calls: Sequence[ToolCall], breakers: Breakers) -> Breaker | None:
        """Run the calls of one reply in order, neighbours whose tools allow it side by side.

        When a breaker trips, the calls that are left are answered as not run.
        """
        tripped: Breaker | None = None
        for batch in self.acting.batches(calls):
            if tripped is not None:
                for call in batch:
                    await self._answer(call, ToolResult(False, "not run: the turn was stopped before it"))
                continue
            for call, arguments, result in await self.acting.run(batch):
                await self._answer(call, result)
                tripped = tripped or breakers.after_result(call.name, arguments, result)
        return tripped

    async def _answer(self, call: ToolCall, result: ToolResult) -> None:
        self.gate.learn(result)
        await self._remember(Message("tool", result.content, tool_call_id=call.id), result.links)

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


async def _prepare(tool: Tool) -> None:
    try:
        await tool.prepare()
    except RumiError:
        return  # the call that follows meets the same trouble and tells the model
    except Exception as error:  # as in a call: a tool's fault does not end the turn
        logger.warning("the tool %s could not be made ready", tool.spec.name, exc_info=error)
