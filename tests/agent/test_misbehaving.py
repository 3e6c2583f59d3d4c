"""Models that misbehave, at a real server: each turn ends with a reply that its user can use."""

import json
from collections.abc import Callable, Iterable

import pytest

from rumi.agent.breakers import TurnLimits
from rumi.agent.events import TurnEvent, TurnFinished
from rumi.agent.tool import ToolResult
from rumi.agent.turn import run_turn
from rumi.agent.turn_input import TurnInput, TurnMessage
from rumi.models.chain import Chain, ChainStep
from rumi.models.chat_completions import ChatCompletions
from rumi.models.model import Message, ModelError, ModelRequest
from rumi.models.server import ModelServer
from rumi.models.token_budget import TokenBudget
from tests.agent.test_turn import Echo
from tests.fakes.groq_replies import closes
from tests.fakes.groq_server import (
    KEY,
    Answer,
    Behaviour,
    Body,
    GroqServer,
    Script,
    answered_calls,
    serve_groq,
    tool_use_failed,
)

NAME = "openai/gpt-oss-120b"


class Run:
    """A turn with a tool `echo`, at a server that behaves as its script says."""

    def __init__(self, script: Script, echo: Echo | None = None, **limits: int) -> None:
        self.script = script
        self.echo = echo or Echo(lambda arguments: ToolResult(True, json.dumps(arguments)[:100]))
        self.limits = TurnLimits(**limits)
        self.stored: list[Message] = []
        self.fake: GroqServer

    async def store(self, message: TurnMessage) -> None:
        self.stored.append(message.message)

    async def go(self) -> TurnFinished:
        events: list[TurnEvent] = []
        async with serve_groq(self.script) as self.fake:
            server = ModelServer("groq", self.fake.base_url, KEY, dialect="groq", key_name="GROQ_API_KEY")
            model = ChatCompletions(server, NAME, name=f"groq:{NAME}", timeout_s=5)
            chain = Chain([ChainStep(model, budget=TokenBudget(131_072))], chat="c")
            try:
                said = [Message("user", "hi")]
                turn_input = TurnInput("be good", said, chain, (self.echo,), self.limits, "en")
                return await run_turn(turn_input, events.append, self.store)
            finally:
                await server.aclose()

    def results(self) -> list[str]:
        return [message.content for message in self.stored if message.role == "tool"]


def call(name: str = "echo", arguments: str = '{"x": 1}', **more: object) -> Answer:
    return Answer(calls=[(name, arguments)], **more)  # type: ignore[arg-type]


def for_ever(answer: Answer, closing: Callable[[Body], Behaviour] = lambda _: Answer("so far")) -> Script:
    """The same answer, until a breaker asks for what was found."""
    return lambda body: closing(body) if closes(body) else answer


@pytest.mark.parametrize(
    ("name", "finds"),
    [
        ("functions.echo", "it worked"),
        ("echo<|channel|>commentary", "it worked"),
        ("assistant<|channel|>commentary to=functions.echo", "it worked"),
        ("ecoh", "there is no tool 'ecoh'; there are: echo"),
    ],
)
async def test_a_wrong_name_is_read_or_handed_back(name: str, finds: str) -> None:
    script = [call(name), Answer("it worked")]
    run = Run(script)
    assert (await run.go()).answer == "it worked"
    assert run.results() == ['{"x": 1}' if finds == "it worked" else finds]


HARMONY = "<|channel|>analysis<|message|>I think<|end|><|start|>assistant<|channel|>final<|message|>"


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (f"{HARMONY}It is 4.<|return|>", "It is 4."),
        ("<|channel|>final <|constrain|>markdown<|message|>It is **4**.", "It is **4**."),
        ("It is 4.<|end|>", "It is 4."),
        ("The token <|channel|> names a channel.", "The token <|channel|> names a channel."),
    ],
)
async def test_leftovers_of_a_models_own_format_are_not_in_the_answer(said: str, answer: str) -> None:
    assert (await Run(Answer(said)).go()).answer == answer


async def test_a_call_in_the_text_is_run() -> None:
    text = '<|channel|>commentary to=functions.echo <|constrain|>json<|message|>{"x": 1}<|call|>'
    run = Run([Answer(text), Answer("it worked")])
    assert (await run.go()).answer == "it worked"
    assert run.results() == ['{"x": 1}']


async def test_thoughts_alone_are_no_answer_and_it_is_asked_again() -> None:
    script = [Answer("<|channel|>analysis<|message|>Let me think"), Answer("It is 4.")]
    run = Run(script)
    assert (await run.go()).answer == "It is 4."
    assert len(run.fake.requests) == 2


async def test_broken_arguments_for_ever_end_with_what_was_found() -> None:
    run = Run(for_ever(call(arguments='{"x": ')))
    finished = await run.go()
    assert (finished.reason, finished.answer) == (
        "repeated_call",
        "so far\n\n⚠️ Detected a loop and stopped.",
    )
    assert "not valid JSON" in run.results()[0]


async def test_ever_new_broken_arguments_are_errors_in_a_row() -> None:
    def script(body: Body) -> Behaviour:
        return Answer("so far") if closes(body) else call(arguments="{" * (1 + len(answered_calls(body))))

    finished = await Run(script).go()
    assert finished.reason == "consecutive_errors"
    assert finished.answer == "so far\n\n⚠️ Too many errors in a row."


async def test_the_same_call_for_ever_is_a_loop_at_the_third_time() -> None:
    run = Run(for_ever(call()))
    assert (await run.go()).answer == "so far\n\n⚠️ Detected a loop and stopped."
    assert len(run.results()) == 3


async def test_huge_arguments_run_and_fit_the_next_prompt() -> None:
    run = Run([call(arguments=json.dumps({"text": "x" * 900_000})), Answer("it worked")])
    assert (await run.go()).answer == "it worked"
    assert len(json.dumps(run.fake.requests[1].body)) < 10_000


@pytest.mark.parametrize("cut_after", [1, 2])
async def test_an_answer_that_is_cut_by_length_is_continued(cut_after: int) -> None:
    parts = [Answer(f"part {n}, ", finish_reason="length") for n in range(cut_after)]
    finished = await Run([*parts, Answer("and the end")]).go()
    assert finished.answer == "".join(f"part {n}, " for n in range(cut_after)) + "and the end"


async def test_a_call_that_is_cut_by_length_is_handed_back() -> None:
    run = Run([call(arguments='{"text": "half of', finish_reason="length"), Answer("shorter then")])
    assert (await run.go()).answer == "shorter then"
    assert "cut off" in run.results()[0]


def stubborn(times: int) -> Callable[[Body], Behaviour]:
    """A closing answer that is a call so many times."""
    left: Iterable[int] = iter(range(times))
    return lambda _: call() if next(left, None) is not None else Answer("so far")  # type: ignore[call-overload]


@pytest.mark.parametrize(("times", "found"), [(0, "so far\n\n"), (1, "so far\n\n"), (2, "")])
async def test_a_call_in_the_closing_answer_is_refused_once(times: int, found: str) -> None:
    run = Run(for_ever(call(), stubborn(times)))
    assert (await run.go()).answer == f"{found}⚠️ Detected a loop and stopped."
    assert run.results()[3:] == ["not run: the turn was stopped before it"] * times
    assert all("tools" in (request.body or {}) for request in run.fake.requests)


async def test_a_call_that_groq_cannot_read_in_the_closing_answer_leaves_the_warning() -> None:
    run = Run(for_ever(call(), lambda _: tool_use_failed("nonsense")), max_turns=1)
    assert (await run.go()).answer == "⚠️ Reached the maximum of 1 turns."


async def test_without_tools_in_the_request_groq_refuses_a_call() -> None:
    async with serve_groq(call()) as fake:
        server = ModelServer("groq", fake.base_url, KEY, dialect="groq", key_name="GROQ_API_KEY")
        try:
            with pytest.raises(ModelError, match="Tool choice is none, but model called a tool") as caught:
                model = ChatCompletions(server, NAME, name=NAME, timeout_s=5)
                await model.reply(ModelRequest((Message("user", "hi"),)), lambda _: None)
        finally:
            await server.aclose()
    assert (caught.value.kind, json.loads(caught.value.failed_generation)["name"]) == ("malformed", "echo")
