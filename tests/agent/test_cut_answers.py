"""Answers that ended before they were complete: tried again, or told with the part that came."""

import json

import pytest
from trio.testing import MockClock

from rumi.agent.breakers import TurnLimits
from rumi.agent.events import TurnEvent, TurnFinished
from rumi.agent.tool import ToolResult
from rumi.agent.turn import run_turn
from rumi.agent.turn_input import TurnInput, TurnMessage
from rumi.models.chain import Chain, ChainStep
from rumi.models.model import Discarded, Emit, Message, ModelRequest, Reply, TextDelta
from rumi.models.reading import ServerModel
from tests.agent.test_turn import Echo
from tests.dialects.recordings import Recording, recordings
from tests.dialects.replaying import Replayed

FAILED = [
    one
    for one in recordings()
    if one.kind in ("ended-by-an-error", "ended-by-a-filter", "cut-streams", "errors-in-a-stream", "refusals")
    and "failure" in one.expected
]
PART = "The three steps are: first, open the"


def recording(*events: object) -> Recording:
    return Recording("made", 0, {"expected": {}}, events)


def chunk(content: str = "", finish: str | None = None, **delta: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {"content": content, **delta}, "finish_reason": finish}]}


class Plays:
    """A model that plays one recording after the other, the last one for ever; `requests` is what came."""

    def __init__(self, *played: Recording, name: str = "x:m") -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self._played = list(played)

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        self.requests.append(request)
        one = self._played.pop(0) if len(self._played) > 1 else self._played[0]
        model: ServerModel = Replayed(one, [one.data])
        return await model.reply(request, emit)


async def turn(*models: Plays) -> tuple[TurnFinished, list[Message], list[TurnEvent]]:
    stored: list[Message] = []
    events: list[TurnEvent] = []

    async def store(message: TurnMessage) -> None:
        stored.append(message.message)

    chain = Chain([ChainStep(model) for model in models], chat="c")
    echo = Echo(lambda arguments: ToolResult(True, json.dumps(arguments)))
    turn_input = TurnInput("be good", [Message("user", "hi")], chain, (echo,), TurnLimits(), "en")
    return await run_turn(turn_input, events.append, store), stored, events


@pytest.mark.parametrize("one", FAILED, ids=str)
async def test_no_cut_answer_is_complete_or_silent(one: Recording, autojump_clock: MockClock) -> None:
    finished, _, _ = await turn(Plays(one))
    assert finished.reason == "model_error"  # the exit code is 4
    part = one.expected.get("part", "")
    assert finished.answer.startswith(part)
    assert "incomplete: " in finished.answer if part else "did not answer: " in finished.answer
    assert "/retry" in finished.answer


async def test_an_error_in_an_answer_is_tried_again(autojump_clock: MockClock) -> None:
    cut = recording(chunk(PART), chunk(finish="error"), "[DONE]")
    whole = recording(chunk("Hello there!"), chunk(finish="stop"), "[DONE]")
    model = Plays(cut, cut, whole)
    finished, _, events = await turn(model)
    assert (finished.reason, finished.answer, len(model.requests)) == ("complete", "Hello there!", 3)
    assert sum(isinstance(event, Discarded) for event in events) == 2


async def test_the_next_model_answers_what_a_filter_stopped(autojump_clock: MockClock) -> None:
    filtered = Plays(recording(chunk(PART), chunk(finish="content_filter"), "[DONE]"))
    other = Plays(recording(chunk("Hello there!"), chunk(finish="stop"), "[DONE]"), name="y:m")
    finished, _, _ = await turn(filtered, other)
    assert (finished.reason, finished.answer) == ("complete", "Hello there!")
    assert len(filtered.requests) == 1


async def test_a_filter_is_told_as_such(autojump_clock: MockClock) -> None:
    finished, _, _ = await turn(Plays(recording(chunk(PART), chunk(finish="SAFETY"), "[DONE]")))
    assert finished.answer == (
        f"{PART}\n\n❌ The answer is incomplete: x:m refused, or a content filter stopped it: finish reason: "
        "SAFETY. Ask in other words, or choose another model. Send /retry to try again."
    )


async def test_the_longest_part_is_told(autojump_clock: MockClock) -> None:
    long, short = (
        recording(chunk(PART), chunk(finish="error")),
        recording(chunk("The"), chunk(finish="abort")),
    )
    finished, _, _ = await turn(Plays(long, short))
    assert finished.answer.startswith(f"{PART}\n\n❌")


async def test_a_reason_that_nobody_knows_is_told(autojump_clock: MockClock) -> None:
    finished, _, _ = await turn(Plays(recording(chunk(PART), chunk(finish="moon_phase"), "[DONE]")))
    assert finished.reason == "complete"
    assert finished.answer.startswith(f"{PART}\n\n⚠️ The model's server ended this answer with “moon_phase”")


async def test_an_answer_that_lost_its_call_is_told(autojump_clock: MockClock) -> None:
    finished, _, _ = await turn(Plays(recording(chunk(PART), chunk(finish="tool_calls"), "[DONE]")))
    assert finished.answer.startswith(f"{PART}\n\n⚠️ The model's server ended this answer with “tool_calls”")


async def test_a_continuation_that_fails_keeps_its_part(autojump_clock: MockClock) -> None:
    begin = recording(chunk("One, two,"), chunk(finish="length"), "[DONE]")
    finished, _, _ = await turn(Plays(begin, recording(chunk(" three"), chunk(finish="error"))))
    assert finished.answer.startswith("One, two, three\n\n⚠️ The answer is cut off")


async def test_a_call_in_the_text_runs_and_is_not_shown(autojump_clock: MockClock) -> None:
    text = 'I look.\n<tool_call>\n{"name": "echo", "arguments": {}}\n</tool_call>'
    calls = recording(*[chunk(text[at : at + 8]) for at in range(0, len(text), 8)], chunk(finish="stop"))
    answer = recording(chunk("Hello there!"), chunk(finish="stop"))
    finished, stored, events = await turn(Plays(calls, answer))
    assert finished.answer == "Hello there!"
    assert [call.name for call in stored[0].tool_calls] == ["echo"]
    assert (stored[0].content, stored[1].content) == ("I look.", "{}")
    shown: list[str] = []
    for event in events:
        if isinstance(event, TextDelta):
            shown.append(event.text)
        elif isinstance(event, Discarded):
            shown.clear()
    assert "".join(shown) == "I look.Hello there!"


async def test_a_server_that_repeats_its_ids_does_not_stop_a_chat(autojump_clock: MockClock) -> None:
    def call(index: int, value: int) -> dict[str, object]:
        return {"index": index, "id": "x", "function": {"name": "echo", "arguments": f'{{"n": {value}}}'}}

    one, two = (
        recording(chunk(finish="tool_calls", tool_calls=[call(0, value), call(1, value + 1)]))
        for value in (1, 3)
    )
    model = Plays(one, two, recording(chunk("Hello there!"), chunk(finish="stop")))
    finished, stored, _ = await turn(model)
    assert finished.answer == "Hello there!"
    calls = [call.id for message in stored for call in message.tool_calls]
    assert len(set(calls)) == 4
    assert [message.tool_call_id for message in stored if message.role == "tool"] == calls
