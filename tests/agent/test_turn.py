"""The turn: what it answers, when it stops itself, and that nothing of it is left behind."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence

import pytest
import trio

from rumi.agent.breakers import DO_OTHER, LAST_TIME, POLLS, REPEATED, WAIT, TurnLimits
from rumi.agent.events import Thinking, ToolFinished, ToolStarted, TurnEvent, TurnFinished
from rumi.agent.fitting import CLOSING, complete
from rumi.agent.tool import Question, ToolResult
from rumi.agent.turn import run_turn
from rumi.agent.turn_input import TurnInput, TurnMessage
from rumi.errors import RumiError
from rumi.models.chain import Chain, ChainStep
from rumi.models.fitting import messages_tokens, shortened
from rumi.models.model import (
    Discarded,
    Emit,
    Message,
    ModelError,
    ModelRequest,
    Reply,
    TextDelta,
    ToolCall,
    ToolCallNamed,
    ToolSpec,
    Usage,
)
from rumi.models.token_budget import TokenBudget
from rumi.store.journal.shown import CallFigures
from rumi.texts import Language

Said = Reply | ModelError | Callable[[ModelRequest], Reply]


class Scripted:
    """A model that says what it was told to say, one reply a call."""

    name = "scripted"

    def __init__(self, *steps: Said, delay_s: float = 0.0) -> None:
        self.steps = list(steps)
        self.requests: list[ModelRequest] = []
        self.delay_s = delay_s

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        self.requests.append(request)
        await trio.sleep(self.delay_s)
        step = self.steps.pop(0) if self.steps else Reply("done")
        if isinstance(step, ModelError):
            raise step
        reply = step if isinstance(step, Reply) else step(request)
        for call in reply.tool_calls:
            emit(ToolCallNamed(call.name))
            await trio.lowlevel.checkpoint()
        if reply.text:
            emit(TextDelta(reply.text))
        return reply


class Echo:
    """A tool that answers what its function makes of the arguments, and counts who is inside."""

    def __init__(
        self,
        answer: Callable[[Mapping[str, object]], ToolResult] = lambda a: ToolResult(True, json.dumps(a)),
        *,
        concurrent: bool = False,
        seconds: float = 0.0,
        name: str = "echo",
    ) -> None:
        self.spec = ToolSpec(name, "Says it back.", {"type": "object", "properties": {}})
        self.concurrent = concurrent
        self.answer = answer
        self.seconds = seconds
        self.prepared = 0
        self.inside = self.most = 0

    async def prepare(self) -> None:
        self.prepared += 1

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await trio.sleep(self.seconds)
            return self.answer(arguments)
        finally:
            self.inside -= 1


class Run:
    """A turn, what it told and what it kept."""

    def __init__(
        self, model: Scripted, *tools: Echo, limits: TurnLimits | None = None, language: Language = "en"
    ) -> None:
        self.language: Language = language
        self.model = model
        self.tools = tools
        self.limits = limits or TurnLimits()
        self.events: list[TurnEvent] = []
        self.figures: list[CallFigures] = []
        self.stored: list[Message] = []

    async def store(self, message: TurnMessage) -> None:
        await trio.lowlevel.checkpoint()
        self.stored.append(message.message)

    async def go(self) -> TurnFinished:
        turn_input = TurnInput(
            "be good", [Message("user", "hi")], self.model, self.tools, self.limits, self.language
        )
        return await run_turn(turn_input, self.watch, self.store)

    def watch(self, event: TurnEvent) -> None:
        if isinstance(event, CallFigures):
            self.figures.append(event)
        else:
            self.events.append(event)

    def results(self) -> list[ToolResult]:
        return [event.result for event in self.events if isinstance(event, ToolFinished)]


def call(name: str = "echo", number: int = 0, **arguments: object) -> ToolCall:
    return ToolCall(f"c{number}", name, json.dumps(arguments))


async def test_a_reply_without_calls_is_the_answer() -> None:
    run = Run(Scripted(Reply("hello", usage=Usage(3, 4))))
    finished = await run.go()
    assert finished == TurnFinished("complete", "hello", Usage(3, 4))
    assert run.stored == []
    assert run.events == [Thinking(1), TextDelta("hello"), finished]
    assert [(one.model, one.prompt, one.completion) for one in run.figures] == [("scripted", 3, 4)]


async def test_calls_are_answered_and_the_model_is_asked_again() -> None:
    run = Run(Scripted(Reply("", (call(x=1),)), Reply("it says 1")), Echo())
    assert (await run.go()).answer == "it says 1"
    assert [m.role for m in run.model.requests[1].messages] == ["system", "user", "assistant", "tool"]
    assert [m.role for m in run.stored] == ["assistant", "tool"]


async def test_a_tool_gets_ready_while_the_reply_still_streams() -> None:
    echo = Echo()
    ready_at: list[int] = []
    echo.answer = lambda a: ready_at.append(echo.prepared) or ToolResult(True, "ok")  # type: ignore[func-returns-value]
    await Run(Scripted(Reply("", (call(x=1), call(number=1, x=2)))), echo).go()
    assert ready_at == [1, 1]


async def test_calls_run_side_by_side_only_if_their_tool_says_so(autojump_clock: object) -> None:
    calls = (call(number=0, x=0), call(number=1, x=1), call(number=2, x=2))
    for concurrent, most in ((True, 3), (False, 1)):
        echo = Echo(concurrent=concurrent, seconds=1)
        run = Run(Scripted(Reply("", calls)), echo)
        await run.go()
        assert echo.most == most
        assert [m.tool_call_id for m in run.stored if m.role == "tool"] == ["c0", "c1", "c2"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [("{nope", "not valid JSON"), ("[1]", "must be a JSON object"), ("[" * 100_000, "not valid JSON")],
)
async def test_arguments_that_are_no_json_object_are_handed_back(arguments: str, says: str) -> None:
    run = Run(Scripted(Reply("", (ToolCall("c0", "echo", arguments),)), Reply("sorry")), Echo())
    assert (await run.go()).answer == "sorry"
    assert says in run.stored[1].content
    assert not run.results()[0].ok


async def test_an_unknown_tool_is_handed_back_with_those_that_exist() -> None:
    run = Run(Scripted(Reply("", (call("launch"),))), Echo())
    await run.go()
    assert run.stored[1].content == "there is no tool 'launch'; there are: echo"


async def test_a_tool_that_raises_is_a_failed_result() -> None:
    def fail(arguments: Mapping[str, object]) -> ToolResult:
        raise ZeroDivisionError

    run = Run(Scripted(Reply("", (call(),)), Reply("it broke")), Echo(fail))
    assert (await run.go()).reason == "complete"
    assert run.stored[1].content == "echo failed: ZeroDivisionError"


async def test_max_turns_counts_model_calls_and_keeps_the_work() -> None:
    model = Scripted(*[Reply("", (call(x=n),)) for n in range(3)], Reply("found three"))
    run = Run(model, Echo(), limits=TurnLimits(max_turns=3))
    finished = await run.go()
    assert finished.reason == "max_turns"
    assert finished.answer == "found three\n\n⚠️ Reached the maximum of 3 turns."
    assert len(model.requests) == 4
    assert len(run.results()) == 3


async def test_the_closing_answer_is_asked_for_as_a_user_would_with_the_tools_listed() -> None:
    model = Scripted(Reply("", (call(),)), Reply("so far"))
    run = Run(model, Echo(), limits=TurnLimits(max_turns=1))
    await run.go()
    first, closing = model.requests
    assert (closing.tools, closing.words_only, first.words_only) == (first.tools, True, False)
    assert closing.messages[: len(first.messages)] == first.messages
    assert closing.messages[-1] == Message("user", CLOSING)
    assert run.stored[-1] == Message("system", CLOSING), "the history keeps it as the program's words"


async def test_a_call_in_the_closing_answer_is_not_run_and_words_are_asked_for_once_more() -> None:
    model = Scripted(Reply("", (call(),)), Reply("One more: ", (call(number=1),)), Reply("so far"))
    run = Run(model, Echo(), limits=TurnLimits(max_turns=1))
    assert (await run.go()).answer == "so far\n\n⚠️ Reached the maximum of 1 turns."
    assert len(run.results()) == 1
    assert run.events[-4:-1] == [TextDelta("One more: "), Discarded(), TextDelta("so far")]
    *_, asked, stray, result, again = model.requests[2].messages
    assert (asked, again) == (Message("user", CLOSING),) * 2
    assert (stray.tool_calls, result.content[:7]) == ((call(number=1),), "not run")


async def test_a_closing_answer_of_calls_only_leaves_the_warning_alone() -> None:
    model = Scripted(*[Reply("", (call(x=n),)) for n in range(9)])
    finished = await Run(model, Echo(), limits=TurnLimits(max_turns=1)).go()
    assert finished.answer == "⚠️ Reached the maximum of 1 turns."
    assert len(model.requests) == 3


async def test_a_call_that_is_repeated_twice_trips_and_is_noted_before() -> None:
    model = Scripted(*[Reply("", (call(x=1),)) for _ in range(3)], Reply("stuck"))
    run = Run(model, Echo())
    finished = await run.go()
    assert (finished.reason, finished.answer) == ("repeated_call", "stuck\n\n⚠️ Detected a loop and stopped.")
    first, second, third = (m.content for m in run.stored if m.role == "tool")
    assert first == '{"x": 1}'
    assert second == first + REPEATED.format(times=2, advice=LAST_TIME)
    assert third == first + REPEATED.format(times=3, advice=DO_OTHER)
    assert [result.content for result in run.results()] == [first] * 3, "people see what the tool said"


async def test_repetitions_within_one_reply_are_counted_in_order() -> None:
    calls = tuple(call(number=n, x=n // 3) for n in range(5))
    for tool in (Echo(), Echo(concurrent=True)):
        run = Run(Scripted(Reply("", calls), Reply("stuck")), tool)
        assert (await run.go()).reason == "repeated_call"
    twice = (call(number=0, x=0), call(number=1, x=0), call(number=2, x=1))
    assert (await Run(Scripted(Reply("", twice), Reply("", twice)), Echo()).go()).reason == "complete"


async def test_any_other_call_in_between_begins_a_new_count() -> None:
    model = Scripted(*[Reply("", (call(x=x),)) for x in (1, 1, 2, 1, 1, 2, 2)], Reply("ok"))
    assert (await Run(model, Echo()).go()).reason == "complete"


async def test_the_same_call_with_another_result_is_no_loop() -> None:
    counter = iter(range(9))
    echo = Echo(lambda a: ToolResult(True, str(next(counter))))
    model = Scripted(*[Reply("", (call(x=1),)) for _ in range(4)], Reply("ok"))
    assert (await Run(model, echo).go()).reason == "complete"


async def test_a_result_that_was_cut_may_be_asked_for_again() -> None:
    page = Echo(lambda a: ToolResult(True, "p" * 50_000))
    run = Run(Small(*[Reply("", (call(x=1),)) for _ in range(6)], Reply("ok")), page)
    assert (await run.go()).reason == "complete"


async def test_three_replies_that_break_as_a_whole_trip_and_a_result_between_does_not() -> None:
    outcomes = iter([True, True, False, True, True, True])
    echo = Echo(lambda a: ToolResult(False, str(a), broken=next(outcomes)))
    model = Scripted(*[Reply("", (call(x=n),)) for n in range(6)], Reply("no luck"))
    finished = await Run(model, echo).go()
    assert finished.reason == "consecutive_errors"
    assert len(model.requests) == 7


async def test_refusals_and_failures_are_results_and_end_no_turn() -> None:
    echo = Echo(lambda a: ToolResult(False, f"refused: {a}", refused=True))
    model = Scripted(*[Reply("", (call(x=n),)) for n in range(8)], Reply("another way"))
    assert (await Run(model, echo).go()).answer == "another way"


async def test_refused_calls_that_come_back_are_errors() -> None:
    echo = Echo(lambda a: ToolResult(False, f"refused: {a}", refused=True))
    model = Scripted(*[Reply("", (call(x=n % 2),)) for n in range(8)], Reply("no luck"))
    run = Run(model, echo)
    finished = await run.go()
    assert (finished.reason, len(run.results())) == ("consecutive_errors", 5), "two new, three again"


async def test_a_poll_is_no_loop_and_the_model_is_told_to_wait() -> None:
    counter = iter(range(99))
    echo = Echo(lambda a: ToolResult(True, "there" if next(counter) > 8 else "not yet", may_change=True))
    model = Scripted(*[Reply("", (call(x=1),)) for _ in range(10)], Reply("it is there"))
    run = Run(model, echo, limits=TurnLimits(max_turns=30))
    assert (await run.go()).answer == "it is there"
    results = [m.content for m in run.stored if m.role == "tool"]
    assert results[-1] == "there"
    assert WAIT in results[-2]


async def test_a_poll_that_never_ends_is_a_loop_at_last() -> None:
    echo = Echo(lambda a: ToolResult(True, "not yet", may_change=True))
    model = Scripted(*[Reply("", (call(x=1),)) for _ in range(40)])
    run = Run(model, echo, limits=TurnLimits(max_turns=50))
    assert (await run.go()).reason == "repeated_call"
    assert len(run.results()) == 2 * POLLS + 1


async def test_calls_that_wait_a_second_or_more_are_no_loop() -> None:
    echo = Echo(lambda a: ToolResult(True, "not yet", duration_ms=1000))
    model = Scripted(*[Reply("", (call(x=1),)) for _ in range(20)], Reply("enough"))
    assert (await Run(model, echo, limits=TurnLimits(max_turns=50)).go()).answer == "enough"


async def test_advice_for_people_goes_to_people_only() -> None:
    def refuse(arguments: Mapping[str, object]) -> ToolResult:
        raise RumiError("The sandbox is not there.", "Set [sandbox] backend in config.toml.")

    run = Run(Scripted(Reply("", (call(),)), Reply("it broke")), Echo(refuse))
    await run.go()
    assert run.stored[1].content == "The sandbox is not there."
    assert run.results()[0].content == "The sandbox is not there. Set [sandbox] backend in config.toml."


async def test_dead_links_in_one_reply_are_one_error_and_one_that_works_makes_it_none() -> None:
    def links(*alive: bool) -> Reply:
        return Reply("", tuple(call(number=n, alive=is_alive, n=n) for n, is_alive in enumerate(alive)))

    echo = Echo(lambda a: ToolResult(bool(a["alive"]), json.dumps(a)))
    dead = (False, False, False, False)
    replies = [links(*dead), links(*dead), links(*dead[1:], True), links(*dead), links(*dead)]
    run = Run(Scripted(*replies, Reply("ok")), echo)
    assert (await run.go()).reason == "complete"
    assert len(run.results()) == 20


async def test_calls_behind_the_one_that_trips_are_answered_as_not_run() -> None:
    calls = tuple(call(number=n, x=0) for n in range(5))
    run = Run(Scripted(Reply("", calls)), Echo())
    assert (await run.go()).reason == "repeated_call"
    answers = [m.content for m in run.stored if m.role == "tool"]
    assert len(answers) == 5
    assert all("not run" in answer for answer in answers[3:])


@pytest.mark.parametrize(("most", "notes"), [(4, {2: "two more"}), (2, {1: "one more"}), (1, {})])
async def test_the_model_is_told_when_two_calls_are_left(most: int, notes: dict[int, str]) -> None:
    calls = (call(number=0, x=0), call(number=1, x=1))
    model = Scripted(*[Reply("", (call(x=n), call(number=1, y=n))) for n in range(most)], Reply("", calls))
    run = Run(model, Echo(), limits=TurnLimits(max_turns=most))
    await run.go()
    results = [m.content for m in run.stored if m.role == "tool"][: 2 * most]
    told = {at // 2 + 1: text for at, text in enumerate(results) if "in this turn" in text}
    assert told.keys() == notes.keys()
    assert all(notes[at] in text for at, text in told.items())
    assert all(at % 2 for at, text in enumerate(results) if "in this turn" in text), "behind the last result"


async def test_a_note_behind_a_block_of_strangers_words_leaves_it_closed_when_shortened() -> None:
    text = "<page>\n" + "evil " * 500 + "\n</page>" + REPEATED.format(times=2, advice=DO_OTHER)
    assert shortened(Message("tool", text), 100).content.endswith("\n</page>")


async def test_a_breaker_whose_closing_call_fails_warns_alone() -> None:
    model = Scripted(Reply("", (call(),)), ModelError("server", "gone"))
    finished = await Run(model, Echo(), limits=TurnLimits(max_turns=1)).go()
    assert finished.answer == "⚠️ Reached the maximum of 1 turns."


async def test_the_turn_runs_out_of_time_in_a_tool(autojump_clock: object) -> None:
    echo = Echo(seconds=1000)
    model = Scripted(Reply("", (call(),)), Reply("half of it"))
    run = Run(model, echo, limits=TurnLimits(timeout_s=10))
    with trio.fail_after(11):
        finished = await run.go()
    assert finished.reason == "timeout"
    assert finished.answer == "half of it\n\n⚠️ This turn ran out of time."
    assert echo.inside == 0
    closing = model.requests[1].messages
    assert [m.role for m in closing] == ["system", "user", "assistant", "tool", "user"]


async def test_a_model_that_fails_is_told_and_nothing_raises() -> None:
    run = Run(Scripted(ModelError("auth", "The key was refused.")))
    finished = await run.go()
    assert finished.reason == "model_error"
    assert "The key was refused" in finished.answer
    assert finished.answer.startswith("❌")


async def test_a_cancelled_turn_leaves_no_tool_running(autojump_clock: object) -> None:
    echo = Echo(seconds=1000)
    run = Run(Scripted(Reply("", (call(),))), echo)
    with trio.move_on_after(5):
        await run.go()
    assert echo.inside == 0
    assert any(isinstance(event, ToolStarted) for event in run.events)
    assert [result.content for result in run.results()] == ["stopped before it ended"]


def roles(messages: Sequence[Message]) -> list[str]:
    return [f"{m.role}:{m.tool_call_id}" if m.role == "tool" else m.role for m in messages]


def test_a_conversation_that_was_cut_off_gets_its_missing_results() -> None:
    cut = [
        Message("user", "a"),
        Message("assistant", "", (ToolCall("1", "x", "{}"), ToolCall("2", "x", "{}"))),
        Message("tool", "one", tool_call_id="1"),
        Message("user", "b"),
        Message("tool", "stray", tool_call_id="9"),
        Message("assistant", "", (ToolCall("3", "x", "{}"),)),
    ]
    assert roles(complete(cut)) == [
        "user", "assistant", "tool:1", "tool:2", "user", "assistant", "tool:3",
    ]  # fmt: skip
    assert complete(complete(cut)) == complete(cut)


def cut(text: str, *calls: ToolCall) -> Reply:
    return Reply(text, calls, finish_reason="length")


async def test_an_answer_that_was_cut_off_is_continued_where_it_stops() -> None:
    run = Run(Scripted(cut("one, "), cut("two, "), Reply("three", usage=Usage(1, 1))))
    finished = await run.go()
    assert (finished.reason, finished.answer) == ("complete", "one, two, three")
    first, second, third = (request.messages for request in run.model.requests)
    assert [m.content for m in second[:-1]] == [*[m.content for m in first], "one, "]
    assert third[-2] == Message("assistant", "one, two, ")
    assert third[-1].role == "user"
    assert run.stored == []
    assert run.events[:-1] == [Thinking(1), TextDelta("one, "), TextDelta("two, "), TextDelta("three")]


@pytest.mark.parametrize(
    ("language", "says"),
    [("en", "⚠️ The answer is cut off:"), ("es", "⚠️ La respuesta quedó cortada:")],
)
async def test_an_answer_that_never_ends_is_continued_three_times_and_then_said(
    language: Language, says: str
) -> None:
    model = Scripted(*[cut(f"{number} ") for number in range(9)])
    run = Run(model, language=language)
    finished = await run.go()
    assert finished.reason == "complete"
    assert finished.answer.startswith(f"0 1 2 3 \n\n{says}")
    assert len(model.requests) == 4


async def test_continuing_counts_against_the_models_calls() -> None:
    run = Run(Scripted(cut("one, "), cut("two, "), Reply("three")), limits=TurnLimits(max_turns=2))
    finished = await run.go()
    assert finished.reason == "max_turns"
    assert finished.answer == "one, two, \n\n⚠️ Reached the maximum of 2 turns."
    assert len(run.model.requests) == 2


async def test_an_answer_that_cannot_be_continued_is_shown_as_far_as_it_goes() -> None:
    finished = await Run(Scripted(cut("one, "), ModelError("server", "Gone."))).go()
    assert finished.reason == "complete"
    assert finished.answer.startswith("one, \n\n⚠️ The answer is cut off")


async def test_a_continuation_may_call_tools() -> None:
    run = Run(Scripted(cut("I will "), Reply("look", (call(x=1),)), Reply("seen")), Echo())
    assert (await run.go()).answer == "seen"
    assert run.stored[0] == Message("assistant", "I will look", (call(x=1),))


async def test_a_retry_within_a_continuation_voids_only_the_continuation() -> None:
    class Retried(Scripted):
        async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
            if self.requests:
                emit(TextDelta("tw"))
                emit(Discarded())
            return await super().reply(request, emit)

    run = Run(Retried(cut("one, "), Reply("two")))
    assert (await run.go()).answer == "one, two"
    words = ""
    for event in run.events:
        words = "" if event == Discarded() else words + (event.text if isinstance(event, TextDelta) else "")
    assert words == "one, two"


@pytest.mark.parametrize("arguments", ["", '{"x": "half of'])
async def test_a_call_that_was_cut_off_is_handed_back_and_those_before_it_run(arguments: str) -> None:
    calls = (call(x=1), ToolCall("c1", "echo", arguments))
    run = Run(Scripted(cut("", *calls), Reply("shorter")), Echo())
    assert (await run.go()).answer == "shorter"
    first, second = run.results()
    assert first.content == '{"x": 1}'
    assert not second.ok
    assert "cut off" in second.content
    assert [m.tool_call_id for m in run.stored if m.role == "tool"] == ["c0", "c1"]


async def test_a_whole_call_in_a_reply_that_was_cut_off_runs() -> None:
    run = Run(Scripted(cut("", call(x=1)), Reply("ok")), Echo())
    await run.go()
    assert [result.content for result in run.results()] == ['{"x": 1}']


async def test_reasoning_goes_along_within_the_turn_and_is_not_kept() -> None:
    run = Run(Scripted(Reply("", (call(x=1),), reasoning="because"), Reply("ok")), Echo())
    await run.go()
    assert run.model.requests[1].messages[2].reasoning == "because"
    assert [m.reasoning for m in run.stored] == ["", ""]


class Small(Scripted):
    """A model that takes less than the configuration says."""

    context_tokens = 8000


async def test_results_are_cut_to_the_room_that_is_left_when_they_come() -> None:
    page = Echo(lambda a: ToolResult(True, "p" * 50_000))
    for model, kept in ((Scripted, 50_000), (Small, 16_000)):
        run = Run(model(Reply("", (call(x=1),)), Reply("ok")), page)
        await run.go()
        assert kept * 0.9 < len(run.stored[1].content) <= kept
        assert run.model.requests[1].messages[-1] == run.stored[1]
        assert len(run.results()[0].content) == 50_000


async def test_results_of_one_reply_share_the_room() -> None:
    calls = tuple(call(number=n, x=n) for n in range(4))
    run = Run(Small(Reply("", calls), Reply("ok")), Echo(lambda a: ToolResult(True, "p" * 50_000)))
    await run.go()
    lengths = [len(m.content) for m in run.stored if m.role == "tool"]
    assert min(lengths) > 3000
    assert messages_tokens(run.model.requests[1].messages) <= 6000


async def test_a_later_result_gets_half_of_the_room_and_earlier_ones_make_it() -> None:
    page = Echo(lambda a: ToolResult(True, f"{a} " + "p" * 50_000))
    model = Small(*[Reply("", (call(number=n, x=n),)) for n in range(3)], Reply("ok"))
    chain = Chain([ChainStep(model, budget=TokenBudget(8000))], chat="c")
    turn_input = TurnInput("be good", [Message("user", "hi")], chain, [page], TurnLimits(), "en")
    run = Run(model)
    await run_turn(turn_input, run.events.append, run.store)
    assert all(len(m.content) > 7000 for m in run.stored if m.role == "tool")
    assert all(messages_tokens(request.messages) <= 6000 for request in model.requests)
    assert len(model.requests[-1].messages[-1].content) > 7000
