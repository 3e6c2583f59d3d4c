"""All recordings of servers' differences, played through the adapters of their protocols."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Final

import pytest
import trio
from trio.testing import MockClock

from rumi.models.anthropic import AnthropicModel
from rumi.models.chat_completions import ChatCompletions
from rumi.models.model import (
    Discarded,
    Message,
    ModelError,
    ModelEvent,
    ModelRequest,
    Reply,
    TextDelta,
    ToolCall,
    ToolSpec,
)
from rumi.models.ollama import OllamaModel
from rumi.models.reading import FINISH_S, ServerModel
from rumi.models.server import ModelServer
from tests.dialects.recordings import Kind, Recording, kinds, recordings
from tests.dialects.replaying import Replayed
from tests.fakes.anthropic_server import ANTHROPIC_KEY, serve_anthropic
from tests.fakes.groq_server import KEY, Behaviour, Fail, GroqServer, Raw, serve_groq
from tests.fakes.ollama_server import serve_ollama


def tool(name: str, *required: str, **properties: str) -> ToolSpec:
    kinds = {name: {"type": kind} for name, kind in properties.items()}
    return ToolSpec(name, name, {"type": "object", "properties": kinds, "required": list(required)})


TOOLS: Final = (
    tool("bash", "command", command="string"),
    tool("read_file", "path", path="string", limit="integer"),
    tool("web_search", "query", query="string"),
    tool("now"),
)
BEFORE: Final = (
    Message("user", "list"),
    Message("assistant", "", (ToolCall("used_before", "now", "{}"),)),
    Message("tool", "noon", tool_call_id="used_before"),
)
REQUEST: Final = ModelRequest((Message("system", "You are Rumi."), *BEFORE, Message("user", "hola")), TOOLS)


def server_of(adapter: str, url: str) -> tuple[type[ServerModel], ModelServer]:
    match adapter:
        case "anthropic":
            return AnthropicModel, ModelServer("anthropic", url, ANTHROPIC_KEY, dialect="anthropic")
        case "ollama":
            return OllamaModel, ModelServer("ollama", url, "", dialect="ollama")
        case "groq":
            return ChatCompletions, ModelServer("groq", url, KEY, dialect="groq")
        case "openai":
            return ChatCompletions, ModelServer("openai", f"{url}/v1", KEY, dialect="openai")
    return ChatCompletions, ModelServer("custom:mine", f"{url}/v1", KEY, dialect="openai")


def adapters(recording: Recording) -> list[str]:
    """The adapters for which a recording means something."""
    if recording.protocol != "chat":
        return [recording.protocol]
    if "server" in recording.head:
        return [recording.head["server"]]
    return ["custom"] if recording.kind == "calls-without-a-mark" else ["custom", "groq"]


def behaviour(recording: Recording) -> Behaviour:
    if recording.status != 200:
        headers = recording.head.get("headers", {})
        return Fail(recording.status, headers=headers, body=recording.error_body)
    return Raw(recording.data, recording.content_type, cut=recording.cut)


@asynccontextmanager
async def served(adapter: str, played: list[Behaviour]) -> AsyncIterator[GroqServer]:
    script = lambda _: played[0]  # noqa: E731
    match adapter:
        case "anthropic":
            serving = serve_anthropic(script)
        case "ollama":
            serving = serve_ollama(script)
        case _:
            serving = serve_groq(script)
    async with serving as fake:
        yield fake


async def attempt(model: ServerModel) -> tuple[Reply | ModelError, str]:
    """One attempt, and the text that a user sees of it."""
    shown: list[str] = []

    def emit(event: ModelEvent) -> None:
        if isinstance(event, TextDelta):
            shown.append(event.text)
        elif isinstance(event, Discarded):
            shown.clear()

    try:
        outcome: Reply | ModelError = await model.reply(REQUEST, emit)
    except ModelError as error:
        outcome = error
    return outcome, "".join(shown)


def understood(arguments: str) -> object:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


def check(recording: Recording, outcome: Reply | ModelError, shown: str) -> None:
    """Compare an outcome with what is right."""
    expected = recording.expected
    if isinstance(outcome, ModelError):
        assert outcome.kind == expected.get("failure"), f"{outcome} {outcome.advice}"
        assert expected.get("says", "") in str(outcome)
        assert expected.get("part", outcome.partial) == outcome.partial
        assert expected.get("advice", "") in outcome.advice.lower()
        if "retry_after_s" in expected:
            assert outcome.retry_after_s == expected["retry_after_s"]
        return
    assert "failure" not in expected, outcome
    assert [[call.name, understood(call.arguments)] for call in outcome.tool_calls] == expected.get(
        "calls", []
    )
    assert outcome.text.strip() == expected.get("answer", "")
    assert outcome.text == shown
    assert outcome.finish_reason == expected.get("finish", "tool_calls" if "calls" in expected else "stop")
    if "thinking" in expected:
        assert outcome.reasoning.strip() == expected["thinking"]
    if "usage" in expected:
        assert [outcome.usage.prompt_tokens, outcome.usage.completion_tokens] == expected["usage"]
    numbers = [call.id for call in outcome.tool_calls]
    assert len({*numbers, "", "used_before"}) == len(numbers) + 2


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
async def test_each_server_is_understood_over_real_sockets(kind: Kind) -> None:
    wrong: list[str] = []
    for adapter in ("custom", "groq", "openai", "anthropic", "ollama"):
        mine = [one for one in kind.recordings if adapter in adapters(one) and not one.open]
        if not mine:
            continue
        played: list[Behaviour] = []
        async with served(adapter, played) as fake:
            make, server = server_of(adapter, fake.base_url)
            model = make(server, "m", name=f"{server.name}:m", timeout_s=5)
            for recording in mine:
                played[:] = [behaviour(recording)]
                outcome, shown = await attempt(model)
                try:
                    check(recording, outcome, shown)
                except AssertionError as error:
                    name = recording.head["from"]
                    wrong.append(f"{recording} ({name}) at {adapter}: {str(error)[:600]}\n   {outcome!r}")
            await server.aclose()
    assert not wrong, "\n".join(wrong)


def chopped(data: bytes, random: Random) -> Iterator[bytes]:
    """Pieces of random sizes, most of them small."""
    at = 0
    while at < len(data):
        size = random.choice((1, 2, 3, 7, 40, 200))
        yield data[at : at + size]
        at += size


async def test_a_stream_is_understood_however_it_is_chopped(autojump_clock: MockClock) -> None:
    random = Random(7)
    for recording in recordings():
        if recording.status != 200:
            continue
        for _ in range(3):
            pieces = list(chopped(recording.data, random))
            check(recording, *await attempt(Replayed(recording, pieces)))


async def test_a_reply_that_has_ended_is_taken_after_a_moment(autojump_clock: MockClock) -> None:
    still_open = [recording for recording in recordings() if recording.open]
    assert len(still_open) >= 4
    for recording in still_open:
        began = trio.current_time()
        check(recording, *await attempt(Replayed(recording, [recording.data])))
        assert trio.current_time() - began == pytest.approx(FINISH_S)


def test_each_kind_has_at_least_four_recordings() -> None:
    few = [kind.name for kind in kinds() if len(kind.recordings) < 4]
    assert not few
