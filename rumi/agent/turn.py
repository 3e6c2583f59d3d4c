"""One turn of the assistant: model calls and tool calls, until there is an answer.

A turn is a plain async function with explicit inputs. It reports events through `watch`, which must not
block, and passes each message to `store`, which may wait for the disk. The turn returns the answer, which the
caller stores together with the reply to the user. A turn leaves nothing running: on cancellation, it returns
only after the model's connection is closed, the permit is released and no command runs.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import trio

from rumi.agent.acting import Acting
from rumi.agent.breakers import NOTHING, Breakers
from rumi.agent.compaction.summaries import as_message, compact, cut_off, is_summary, text_in
from rumi.agent.end_check import EndCheck
from rumi.agent.events import Thinking, TurnEvent, TurnFinished, within
from rumi.agent.figures import measured
from rumi.agent.fitting import CLOSING, COMPACT_AT, Fitting, complete
from rumi.agent.permissions.consent import own_words
from rumi.agent.permissions.gate import Gate
from rumi.agent.tool import SubTurn, SubTurnEnd, Tool, ToolResult, WorksBeside
from rumi.agent.tool_names import NOTHING_NEW
from rumi.agent.turn_input import TurnInput, TurnMessage, ignore_shortened, nothing_meanwhile
from rumi.errors import RumiError, single
from rumi.models.dialects.endings import ending_of
from rumi.models.fitting import SHORT_CHARS, cut_to, messages_tokens, request_tokens
from rumi.models.model import (
    Discarded,
    Message,
    ModelError,
    ModelEvent,
    ModelRequest,
    Reply,
    TextDelta,
    ToolCall,
    ToolCallNamed,
    ToolSpec,
    Usage,
    text_tokens,
)
from rumi.models.token_budget import context_of, prompt_share
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts.operating import short_size
from rumi.platform.texts.replies import Breaker
from rumi.platform.texts.translation import error_text
from rumi.platform.untrusted_text import one_line
from rumi.texts import Text, gettext
from rumi.web.links import links_in

logger = logging.getLogger(__name__)

CLOSING_S = 30.0
"""Maximum time for the closing answer after a breaker has tripped, in seconds."""

CLOSINGS = 2
"""Maximum number of requests for a closing answer. If the model calls a tool instead, Rumi asks again."""

CONTINUATIONS = 3
"""Maximum number of model calls that continue an answer cut off at the model's maximum length."""

CONTINUE = (
    "[Your answer was cut off because it reached the longest that you may write at once. Continue it exactly "
    "where it stops: repeat nothing, and say nothing about the interruption.]"
)

WHOLE_OUTPUT = "\n[The whole output, {size}, is in {path}.]"

EMPTY = (
    f"[Your reply was empty. If there is nothing to tell the user, call {NOTHING_NEW}. Otherwise write what "
    "the user should read.]"
)

FAILURE_CHARS = 300
"""Maximum length of a failed call's result in the end of a turn that has nothing to tell."""

KEPT_CALLS = 2
"""Number of model calls that a turn within a turn leaves to the outer turn."""

RESERVE_SHARE = 1 / 8
"""Share of the prompt budget that tool results must leave free for later messages."""

NOT_RUN = ToolResult(False, Text("not run: the turn was stopped before it"), refused=True)
"""The result of calls that were not run, because an earlier call tripped a breaker."""


async def _not_stored(message: "TurnMessage") -> None:
    await trio.lowlevel.checkpoint()


Watch = Callable[[TurnEvent], None]
StoreMessage = Callable[[TurnMessage], Awaitable[None]]


async def run_turn(turn_input: TurnInput, watch: Watch, store: StoreMessage) -> TurnFinished:
    """Run a turn until there is an answer or a breaker trips.

    Failures of models and tools raise no exception.

    On cancellation, returns only after the tool calls and the model call have ended.
    """
    with trio.move_on_after(turn_input.limits.timeout_s) as deadline:
        gate = Gate(
            tainted=turn_input.tainted,
            known_urls=turn_input.known_urls,
            words=turn_input.words,
            declare_for=turn_input.declare_for,
            tools=lambda: acting.tools,  # evaluated later: `acting` itself needs the gate
            history=turn_input.history,
            language=turn_input.language,
            watch=watch,
            confirm=turn_input.confirm,
            parking=turn_input.parking,
            deadline=deadline,
            approved=turn_input.approved,
        )
        acting = Acting(
            turn_input.tools,
            watch,
            gate,
            turn_input.language,
            turn_input.withheld,
            lambda call, sub: turn.run_within(call, sub),
        )
        turn = _turn(turn_input, watch, store, gate, acting)
        try:
            async with trio.open_nursery() as beside:
                for tool in turn_input.tools:
                    # The check of a runtime protocol is slow, and few tools have the method.
                    if hasattr(tool, "run_in") and isinstance(tool, WorksBeside):
                        tool.run_in(beside)
                finished = await turn.run()
                beside.cancel_scope.cancel()
        except ExceptionGroup as group:
            raise single(group) from None
    # Outside of the deadline's scope, which is cancelled by now: the closing call has its own time limit.
    if deadline.cancelled_caught:
        finished = await turn.close("timeout")
    watch(finished)
    return finished


def _turn(
    turn_input: TurnInput,
    watch: Watch,
    store: StoreMessage,
    gate: Gate,
    acting: Acting,
    outer: "_Turn | None" = None,
) -> "_Turn":
    fitting = Fitting((Message("system", turn_input.instructions), *turn_input.history))
    breakers, check = Breakers(turn_input.limits), EndCheck(turn_input.checks, watch)
    turn = _Turn(turn_input, watch, store, gate, acting, fitting, breakers, check, outer)
    turn.calls = turn_input.calls_before
    return turn


@dataclass(slots=True)
class _Turn:
    """The state of a running turn. `outer` is the turn that it works for, in a tool call of that turn."""

    input: TurnInput
    watch: Watch
    store: StoreMessage
    gate: Gate
    acting: Acting
    fitting: Fitting
    breakers: Breakers
    check: EndCheck
    outer: "_Turn | None" = None
    usage: Usage = field(default_factory=Usage)
    calls: int = 0
    kept: int = 0
    """Number of whole outputs that were written to files."""
    last_result: Message | None = None
    """The last tool result, if prompts contain it uncut."""
    nothing_new: str | None = None
    """Why the turn has nothing to tell, if a call has ended it."""
    failed: dict[str, str] = field(default_factory=dict)
    """The results of failed calls, by tool, if no later call of the same tool succeeded."""
    asked_for_end: bool = False

    async def run(self) -> TurnFinished:
        """Work until there is an answer, a breaker trips, or the model fails."""
        try:
            return await self.work()
        except ModelError as error:
            if error.kind == "budget":  # not a failure: the message is the answer
                return TurnFinished("budget", error.message, self.usage)
            why = error_text(self.input.language, error)
            answer = reply_texts.model_failed(self.input.language, why)
            if error.partial:
                answer = f"{error.partial.lstrip()}\n\n{reply_texts.model_stopped(self.input.language, why)}"
            return TurnFinished("model_error", answer, self.usage)

    async def run_within(self, call: ToolCall, sub: SubTurn) -> SubTurnEnd:
        """Run a turn within one of this turn's calls.

        Both turns have the same gate: what one reads taints the other, and questions are asked as usual. The
        inner turn's model calls and costs count in this turn too, and end with its limits. Its messages are
        not stored.
        """
        if self._reached_within() is not None:
            return SubTurnEnd("max_turns", "", self.gate.tainted)
        inner = replace(
            self.input,
            instructions=f"{self.input.instructions}\n\n{sub.instructions}",
            history=(Message("user", sub.request),),
            repeats=(),
            calls_before=0,
            model=self.input.delegate_model or self.input.model,
            tools=sub.tools,
            limits=replace(self.input.limits, max_turns=sub.max_calls, max_tokens=None, max_nano_usd=None),
            checks=None,
            meanwhile=nothing_meanwhile,
            shortened=ignore_shortened,
        )
        watch = within(call.id, self.watch)
        acting = Acting(inner.tools, watch, self.gate, inner.language, inner.withheld)
        finished = await _turn(inner, watch, _not_stored, self.gate, acting, self).run()
        known = tuple(filter(self.gate.knows, links_in(finished.answer)))
        return SubTurnEnd(finished.reason, finished.answer, self.gate.tainted, known)

    def _reached_within(self) -> Breaker | None:
        """Return the limit of this turn that ends a turn within it. A few calls are left for the answer."""
        return self.breakers.after_model_call(self.calls + KEPT_CALLS, self.usage)

    def _spend(self, usage: Usage = NOTHING, calls: int = 0) -> None:
        """Count model calls and their usage, also in the outer turn."""
        self.usage += usage
        self.calls += calls
        if self.outer is not None:
            self.outer._spend(usage, calls)

    async def work(self) -> TurnFinished:
        if self.input.repeats:
            tripped = await self._act(Reply("", self.input.repeats))
            if self.nothing_new is not None:
                return self._ended_silently(self.nothing_new)
            if tripped is not None:
                return await self.close(tripped)
        while True:
            for said in await self.input.meanwhile():
                self._hear(said)
            self.watch(Thinking(self.calls + 1))
            self.check.begin_reply(self._calls_left)
            try:
                reply = await self._whole_reply()
            except ModelError as error:
                if await self._asks_for_end(error):
                    continue
                if not self.check.asked:
                    raise
                logger.info("an answer was not checked: %s", error)  # it is an answer all the same
                return self._answered(Reply(""))
            if not reply.tool_calls:
                if not self.check.due(self._calls_left) or _cut_off(reply):
                    return self._answered(reply)
                await self._remember(Message("system", self.check.ask(reply.text)))
                continue
            self.check.release(reply.text)
            message = Message("assistant", reply.text, reply.tool_calls, reasoning=reply.reasoning)
            await self._remember(message)
            calls = tuple(call.unsigned() for call in reply.tool_calls)  # only the model needs signatures
            tripped = await self._act(replace(reply, tool_calls=calls))
            if self.nothing_new is not None:
                return self._ended_silently(self.nothing_new)
            if tripped is not None:
                return await self.close(tripped)

    async def _asks_for_end(self, error: ModelError) -> bool:
        """After an empty reply in a turn that may end silently, ask the model once whether it means that.

        An empty reply alone is no end: it may as well come from a server that fails.
        """
        if error.kind != "empty" or self.asked_for_end or not self._calls_left:
            return False
        if self.acting.tool(NOTHING_NEW) is None:
            return False
        self.asked_for_end = True
        await self._remember(Message("system", EMPTY))
        return True

    def _hear(self, said: TurnMessage) -> None:
        """Take a message that the user sends during the turn."""
        self.fitting.add(said.message)
        words = "" if said.tainted else own_words((said.message,))
        self.gate.hear(words, said.links, tainted=said.tainted)
        self.check.hear(words)

    @property
    def _calls_left(self) -> int:
        """The number of model calls that the turn may still make; 0 if a limit on its usage is reached."""
        tripped = self.breakers.after_model_call(self.calls, self.usage)
        return 0 if tripped is not None else self.input.limits.max_turns - self.calls

    async def _whole_reply(self) -> Reply:
        """Return the next reply; continue a cut-off reply as long as the turn may make model calls."""
        reply = await self._think()
        for _ in range(CONTINUATIONS):
            if not _cut_off(reply) or self.calls >= self.input.limits.max_turns:
                break
            try:
                more = await self._think(reply.text)
            except ModelError as error:  # an incomplete answer is better than none
                logger.info("an answer could not be continued: %s", error)
                reply = replace(reply, text=reply.text + error.partial)
                break
            reply = replace(more, text=reply.text + more.text)
        return reply

    def _answered(self, reply: Reply) -> TurnFinished:
        """Return a `TurnFinished` with the model's answer, which may be incomplete."""
        answer = self.check.final(reply.text)
        self.check.release(answer)
        language, limits = self.input.language, self.input.limits
        ending = ending_of(reply.finish_reason)
        if ending == "unknown" or (ending == "tool_calls" and not reply.tool_calls):  # its call was lost
            answer = f"{answer}\n\n{reply_texts.ended_oddly(language, reply.finish_reason)}"
        if not _cut_off(reply) or self.outer is not None:
            return TurnFinished("complete", answer, self.usage)
        tripped = self.breakers.after_model_call(self.calls, self.usage)
        if tripped is None:
            warning = gettext(
                language, "⚠️ The answer is cut off: it is longer than the model can write. Ask me to go on."
            )
            return TurnFinished("complete", f"{reply.text}\n\n{warning}", self.usage)
        warning = reply_texts.breaker(language, tripped, limits.max_turns)
        return TurnFinished(tripped, f"{reply.text}\n\n{warning}", self.usage)

    async def _think(self, so_far: str = "") -> Reply:
        """Make one model call; while the reply arrives, prepare the tools that it names.

        `so_far` is the cut-off answer that this call continues.
        """
        outcome: Reply | ModelError
        self._spend(calls=1)
        async with trio.open_nursery() as nursery:
            # The error leaves the nursery as a value: raised inside, it would arrive in an exception group.
            try:
                outcome = await self._ask_model(nursery, so_far)
            except ModelError as error:
                outcome = error
            if isinstance(outcome, ModelError) or not outcome.tool_calls:
                nursery.cancel_scope.cancel()  # the prepared tools are not needed
        if isinstance(outcome, ModelError):
            raise outcome
        self._spend(outcome.usage)
        return outcome

    async def _ask_model(self, nursery: trio.Nursery, so_far: str) -> Reply:
        readied: set[str] = set()

        def emit(event: ModelEvent) -> None:
            if self.check.holds(event, so_far):
                return
            if not isinstance(event, ToolCallNamed):
                self.watch(event)
                if so_far and isinstance(event, Discarded):
                    self.watch(TextDelta(so_far))  # `Discarded` voids the whole text, so show its valid part
                return
            tool = self.acting.tool(event.name)
            if tool is not None and event.name not in readied:
                readied.add(event.name)
                nursery.start_soon(_prepare, tool)

        cut = (Message("assistant", so_far), Message("user", CONTINUE)) if so_far else ()
        request = ModelRequest((*await self._prompt(), *cut), self._specs)
        return await measured(self.input.model, request, emit, self.watch)

    async def _prompt(self) -> tuple[Message, ...]:
        fitting, budget = self.fitting, self._prompt_budget
        if fitting.tokens > budget:
            last = fitting.shorten_results(budget)
            if last is not None:
                await self.input.shortened(last)
            if fitting.tokens > budget * COMPACT_AT:
                await self._compact(budget)
        return complete(await self.input.look(fitting.messages))

    async def _compact(self, max_tokens: int) -> None:
        """Replace the oldest steps of a long turn with a summary, for the rest of this turn."""
        gone = self.fitting.outgrown(max_tokens)
        if not gone:
            return
        earlier = "\n".join(text_in(message) for message in gone if is_summary(message))
        messages = [message for message in gone if not is_summary(message)]
        try:
            compaction = await compact(self.input.model, earlier, messages, max_tokens)
        except ModelError as error:
            logger.warning("the steps of a turn are cut without a summary: %s", error)
            text = cut_off(earlier, messages, max_tokens)
        else:
            text = compaction.text
            self._spend(compaction.usage)
        self.fitting.stand_in(gone, as_message(text, tainted=self.gate.tainted, within=True))

    def _result_budget(self) -> int:
        """Return the number of tokens that new results may take before the next model call.

        The number is at least half of the budget that shortening earlier results would free, because the next
        prompt shortens earlier results if needed.
        """
        messages, budget = self.fitting.messages, self._prompt_budget
        left = budget - messages_tokens(messages)
        short = text_tokens("x" * SHORT_CHARS)
        spare = sum(max(0, message.tokens - short) for message in messages if message.role == "tool")
        return int(max(left - budget * RESERVE_SHARE, (left + spare) / 2))

    @property
    def _prompt_budget(self) -> int:
        """The number of tokens that the messages of the next prompt may take."""
        budget = prompt_share(context_of(self.input.model, self.input.context_tokens))
        return budget - request_tokens(ModelRequest((), self._specs))

    @property
    def _specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self.acting.tools)

    async def _remember(self, message: Message, links: tuple[str, ...] = ()) -> None:
        self.fitting.add(message)
        stored = message
        if message.role == "assistant":  # reasoning and signatures are only needed within the turn
            stored = replace(
                message, reasoning="", tool_calls=tuple(call.unsigned() for call in message.tool_calls)
            )
        await self.store(TurnMessage(stored, self.gate.tainted, links))

    async def _act(self, reply: Reply) -> Breaker | None:
        """Run the calls of one reply in order; consecutive calls run concurrently if their tools allow it.

        When a breaker trips, the remaining calls get the result `NOT_RUN`.
        """
        tripped: Breaker | None = None
        budget, to_come = self._result_budget(), len(reply.tool_calls)
        for batch in self.acting.batches(reply.tool_calls):
            if tripped is not None:
                for call in batch:
                    await self._answer(call, NOT_RUN, 0)
                continue
            for call, arguments, result in await self.acting.run(
                batch, cut_off=reply.finish_reason == "length"
            ):
                # A model that no longer sees a result may ask for it again; that is not a loop.
                if not self._sees_last():
                    self.breakers.forget_last()
                self.check.note(call, result)
                self._note_end(call, result)
                note = self.breakers.count(call, arguments, result)
                tripped = tripped or self.breakers.after_result()
                # Only on the last result, which the model reads directly before its next reply.
                if to_come == 1:
                    note += self.breakers.warning(self.calls)
                # An equal share for each remaining result; a short result leaves more for the later ones.
                budget -= await self._answer(call, result, budget // to_come, note)
                to_come -= 1
        tripped = tripped or self.breakers.after_reply(self.calls, self.usage)
        return tripped or (self.outer._reached_within() if self.outer is not None else None)

    def _note_end(self, call: ToolCall, result: ToolResult) -> None:
        """Record the failures that a silent end must not hide, and a call that ends the turn."""
        if result.ends_turn:
            self.nothing_new = result.content
        elif result.ok:
            self.failed.pop(call.name, None)
        elif not result.parked:  # the reply asks about parked calls
            self.failed[call.name] = one_line(result.content, FAILURE_CHARS)

    def _ended_silently(self, why: str) -> TurnFinished:
        failed = tuple(f"{one_line(name, 60)}: {said}" for name, said in self.failed.items())
        return TurnFinished("complete", why, self.usage, nothing_new=True, failed=failed)

    def _sees_last(self) -> bool:
        """Return True if prompts show the last tool result completely, neither cut nor shortened."""
        return any(message is self.last_result for message in reversed(self.fitting.messages))

    async def _answer(self, call: ToolCall, result: ToolResult, max_tokens: int, note: str = "") -> int:
        """Store a result, cut to `max_tokens`, with Rumi's `note` appended; return its number of tokens."""
        # Before the message is stored: a message with tainted content must be stored as tainted.
        self.gate.note_result(call.name, result)
        # The history refers to pictures by path; each model call loads the bytes again (`look`).
        pictures = tuple(replace(picture, data=b"") for picture in result.pictures)
        whole = Message("tool", result.content, tool_call_id=call.id, pictures=pictures)
        message = cut_to(whole, max_tokens)
        is_whole = message is whole
        output = result.whole_output or (b"" if is_whole else result.content.encode("utf-8", "replace"))
        if output and (path := await self._kept(output)):
            note = WHOLE_OUTPUT.format(path=path, size=short_size(len(output))) + note
        if note:  # otherwise the content stays a `Text`, which the demo model translates
            message = replace(message, content=message.content + note)
        await self._remember(message, result.links)
        self.last_result = message if is_whole else None
        return message.tokens

    async def _kept(self, output: bytes) -> str:
        """Write the whole output of a call to a file of the sandbox; return its path, or "" without one."""
        outermost = self
        while outermost.outer is not None:  # its turns share a folder
            outermost = outermost.outer
        outermost.kept += 1
        try:
            return await self.input.keep(f"{outermost.kept}.txt", output, self.gate.tainted)
        except RumiError as error:
            logger.info("a whole output was not kept: %s", error)
            return ""

    async def close(self, reason: Breaker) -> TurnFinished:
        """End the turn after a breaker has tripped: ask the model for its findings, and append the warning.

        Without findings, the answer is the warning alone. The request still lists the tools, see
        `ModelRequest.words_only`. If the model calls a tool, the call gets the result `NOT_RUN`, and the
        model is asked a second and last time. All messages are stored, so that the next prompt begins with
        the same messages and servers can use their prompt cache.
        """
        warning = reply_texts.breaker(self.input.language, reason, self.input.limits.max_turns)
        if self.outer is not None:
            warning = ""  # the warning is for people, and the outer turn's model gets the reason
        found = self.check.answer
        self.watch(Thinking(0))
        with trio.move_on_after(CLOSING_S), suppress(ModelError):
            for _ in range(CLOSINGS):
                reply = await self._closing_reply()
                said = reply.text.strip()
                found = said or found
                if not reply.tool_calls:
                    break
                if said:
                    self.watch(Discarded())  # text before a call only announces the call
                await self._remember(Message("assistant", reply.text, reply.tool_calls))
                for call in reply.tool_calls:
                    await self._answer(call, NOT_RUN, 0)
        answer = "\n\n".join(filter(None, (found, warning)))
        return TurnFinished(reason, answer, self.usage)

    async def _closing_reply(self) -> Reply:
        await self._remember(Message("system", CLOSING))
        request = ModelRequest(await self._prompt(), self._specs, words_only=True)
        reply = await measured(self.input.model, request, _only_words(self.watch), self.watch)
        self._spend(reply.usage)
        return reply


def _cut_off(reply: Reply) -> bool:
    """Return True if a reply's text was cut off at the model's maximum length.

    Replies with tool calls do not count: a cut-off tool call gets an error result instead.
    """
    return reply.finish_reason == "length" and not reply.tool_calls


def _only_words(watch: Watch) -> Callable[[ModelEvent], None]:
    def emit(event: ModelEvent) -> None:
        if not isinstance(event, ToolCallNamed):
            watch(event)

    return emit


async def _prepare(tool: Tool) -> None:
    try:
        await tool.prepare()
    except RumiError:
        return  # the following call fails with the same error and reports it to the model
    except Exception as error:  # as in a call: a bug in a tool does not end the turn
        logger.warning("the tool %s could not be made ready", tool.spec.name, exc_info=error)
