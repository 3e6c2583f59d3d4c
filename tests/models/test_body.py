"""What a server gets besides the words: only what it takes, and what it refuses not a second time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from rumi.memory.extractor import SCHEMA
from rumi.models.body import Sampling, body_of
from rumi.models.chat_completions import ChatCompletions
from rumi.models.model import Message, ModelError, ModelRequest, TextDelta, ToolSpec, Usage
from rumi.models.server import OWN_SERVER, ModelServer
from rumi.platform.config.providers import PROVIDERS, Dialect
from tests.fakes.groq_server import KEY, Answer, Behaviour, Body, Fail, GroqServer, Raw, Script, serve_groq

OSS = "openai/gpt-oss-120b"
ASKED = ModelRequest((Message("user", "facts?"),), schema=SCHEMA)
ROWS = {"groq": PROVIDERS["groq"], "openai": OWN_SERVER}
TOOL = ToolSpec("bash", "Runs it.", {"type": "object", "properties": {}})
NOTHING = Answer('{"facts": []}')


@asynccontextmanager
async def model_of(
    script: Script, name: str = OSS, *, custom: bool = False
) -> AsyncIterator[tuple[ChatCompletions, GroqServer]]:
    async with serve_groq(script, key=None if custom else KEY) as fake:
        server = (
            ModelServer("custom:x", fake.openai_url, "", dialect="openai")
            if custom
            else ModelServer("groq", fake.base_url, KEY, dialect="groq")
        )
        try:
            yield ChatCompletions(server, name, name=f"m:{name}", timeout_s=5), fake
        finally:
            await server.aclose()


def asked(fake: GroqServer) -> list[tuple[object, bool]]:
    """Of each request, whether it is to be streamed and has a form for its answer."""
    bodies = [request.body or {} for request in fake.requests]
    return [(body["stream"], "response_format" in body) for body in bodies]


@pytest.mark.parametrize(
    ("name", "dialect", "sent"),
    [
        (OSS, "groq", True),
        ("openai/gpt-oss-20b", "groq", True),
        ("gpt-oss:20b", "openai", True),
        ("ggml-org/gpt-oss-20b-GGUF", "openai", True),
        ("gpt-5-mini", "openai", True),
        ("o4-mini", "openai", True),
        ("gpt-5-chat-latest", "openai", False),
        ("qwen/qwen3-32b", "groq", False),
        ("llama-3.3-70b-versatile", "groq", False),
        ("olmo-3", "openai", False),
        ("o1brian", "openai", False),
    ],
)
def test_the_effort_goes_to_models_that_are_known_to_take_one(
    name: str, dialect: Dialect, sent: bool
) -> None:
    def effort(request: ModelRequest, given: Sampling) -> object:
        body = body_of(request, name, ROWS[dialect], given, schema=False, small_plan=False)
        return body.get("reasoning_effort")

    plain = ModelRequest((Message("user", "hi"),))
    assert effort(plain, Sampling()) is None
    assert effort(plain, Sampling(effort="high")) == ("high" if sent else None)
    assert effort(replace(plain, effort="low"), Sampling(effort="high")) == ("low" if sent else None)


@pytest.mark.parametrize("dialect", ["groq", "openai"])
def test_nothing_is_sent_that_need_not_be(dialect: Dialect) -> None:
    body = body_of(
        ModelRequest((Message("user", "hi"),)), OSS, ROWS[dialect], Sampling(), schema=False, small_plan=False
    )
    assert body.keys() - {"stream_options"} == {"model", "messages", "stream"}


async def test_groq_sees_to_the_form_of_an_answer_and_does_not_stream_it() -> None:
    events: list[object] = []
    async with model_of(Answer('{"facts": []}', usage=(5, 3))) as (model, fake):
        reply = await model.reply(ASKED, events.append)
    assert (reply.text, reply.usage, reply.finish_reason) == ('{"facts": []}', Usage(5, 3), "stop")
    assert events == [TextDelta('{"facts": []}')]
    body = fake.requests[0].body
    assert body is not None
    assert body["response_format"]["json_schema"]["strict"] is True
    assert asked(fake) == [(False, True)]


@pytest.mark.parametrize(
    ("name", "request_", "custom", "expected"),
    [
        ("llama-3.3-70b-versatile", ASKED, False, (True, False)),
        (OSS, replace(ASKED, tools=(TOOL,)), False, (True, False)),
        (OSS, replace(ASKED, tools=(TOOL,)), True, (True, False)),
        ("any", ASKED, True, (True, True)),
    ],
)
async def test_a_form_is_asked_for_where_it_may_be_taken_and_never_with_tools(
    name: str, request_: ModelRequest, custom: bool, expected: tuple[bool, bool]
) -> None:
    async with model_of(NOTHING, name, custom=custom) as (model, fake):
        assert (await model.reply(request_, lambda _: None)).text == '{"facts": []}'
    assert asked(fake) == [expected]


@pytest.mark.parametrize("custom", [True, False])
async def test_a_server_that_refuses_a_form_is_asked_without_it_from_then_on(custom: bool) -> None:
    def script(body: Body) -> Behaviour:
        return Fail(400, "unknown field response_format") if "response_format" in body else NOTHING

    async with model_of(script, custom=custom) as (model, fake):
        for _ in range(2):
            assert (await model.reply(ASKED, lambda _: None)).text == '{"facts": []}'
    assert [form for _, form in asked(fake)] == [True, False, False]


async def test_another_failure_says_nothing_about_the_form() -> None:
    script = [Fail(429, "slow down", "rate_limit_exceeded"), Fail(500, "broken"), NOTHING]
    async with model_of(script) as (model, fake):
        for _ in range(2):
            with pytest.raises(ModelError):
                await model.reply(ASKED, lambda _: None)
        await model.reply(ASKED, lambda _: None)
    assert [form for _, form in asked(fake)] == [True, True, True]


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"choices": 5}', b'{"choices": [{}]}', b'{"choices": [5]}'])
async def test_a_whole_answer_that_is_no_chat_completion_is_an_error(data: bytes) -> None:
    async with model_of(Raw(data, "application/json")) as (model, _):
        with pytest.raises(ModelError) as caught:
            await model.reply(ASKED, lambda _: None)
    assert caught.value.kind == "malformed"


async def test_an_empty_whole_answer_is_an_empty_reply() -> None:
    async with model_of(Answer("")) as (model, _):
        with pytest.raises(ModelError) as caught:
            await model.reply(ASKED, lambda _: None)
    assert caught.value.kind == "empty"
