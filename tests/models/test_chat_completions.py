"""The adapter against a real server on loopback. What takes real time here waits for a real socket."""

import base64
import json
import logging
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import formatdate

import pytest
import trio

from rumi.models.body import Sampling
from rumi.models.chat_completions import ChatCompletions
from rumi.models.model import (
    Message,
    ModelError,
    ModelEvent,
    ModelRequest,
    Reply,
    TextDelta,
    TooLarge,
    ToolCall,
    ToolCallNamed,
    ToolSpec,
    Usage,
)
from rumi.models.rates import RateLimits, Window
from rumi.models.server import ModelServer
from rumi.models.token_budget import TokenBudget
from tests.fakes.groq_server import (
    KEY,
    Answer,
    Behaviour,
    Drop,
    Fail,
    GroqServer,
    Hang,
    Plan,
    Raw,
    Script,
    serve_groq,
    tool_use_failed,
)

BASH = ToolSpec(
    "bash",
    "Runs a command",
    {"type": "object", "properties": {"command": {"type": "string"}}, "required": ("command",)},
)
HELLO = ModelRequest((Message("system", "You are Rumi."), Message("user", "hola")), (BASH,))


@asynccontextmanager
async def groq_model(
    script: Script,
    *,
    timeout_s: float = 5.0,
    first_s: float | None = None,
    sampling: Sampling | None = None,
    named: str = "openai/gpt-oss-120b",
    budget: TokenBudget | None = None,
    plan: Plan | None = None,
) -> AsyncIterator[tuple[ChatCompletions, GroqServer]]:
    async with serve_groq(script, plan=plan) as fake:
        server = ModelServer("groq", fake.base_url, KEY, dialect="groq", key_name="GROQ_API_KEY")
        model = ChatCompletions(
            server,
            named,
            name=f"groq:{named}",
            timeout_s=timeout_s,
            first_token_timeout_s=first_s,
            sampling=sampling,
            budget=budget,
        )
        await server.client()  # its import takes time, and is no silence
        try:
            yield model, fake
        finally:
            await server.aclose()


async def failure_of(behaviour: Script, *, timeout_s: float = 5.0) -> ModelError:
    async with groq_model(behaviour, timeout_s=timeout_s) as (model, fake):
        with pytest.raises(ModelError) as caught:
            await model.reply(HELLO, ignore)
        with trio.fail_after(30):
            await model._server.aclose()
            await fake.wait_idle()
    assert KEY not in "".join(traceback.format_exception(caught.value))
    return caught.value


def ignore(_: ModelEvent) -> None:
    pass


def sse(*chunks: object, done: bool = True) -> bytes:
    lines = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]
    return b"".join(lines) + (b"data: [DONE]\n\n" if done else b"")


def delta(finish: str | None = None, **fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


async def test_words_come_as_they_are_streamed_and_usage_is_the_servers() -> None:
    events: list[ModelEvent] = []
    async with groq_model(Answer("hola, ¿qué tal?", pieces=4, usage=(120, 9))) as (model, fake):
        reply = await model.reply(HELLO, events.append)
    assert reply == Reply("hola, ¿qué tal?", (), "stop", Usage(120, 9), "groq:openai/gpt-oss-120b")
    assert len(events) == 4
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "hola, ¿qué tal?"
    assert fake.requests[0].path == "/openai/v1/chat/completions"
    assert fake.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_the_request_has_what_was_asked_for_and_no_more() -> None:
    async with groq_model(Answer("x"), sampling=Sampling(0.5, 100)) as (model, fake):
        await model.reply(HELLO, ignore)
        await model.reply(ModelRequest((Message("user", "hi"),)), ignore)
    first, second = (request.body for request in fake.requests)
    assert first == {
        "model": "openai/gpt-oss-120b",
        "messages": [
            {"role": "system", "content": "You are Rumi."},
            {"role": "user", "content": "hola"},
        ],
        "stream": True,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "bash",
                    "description": "Runs a command",
                    "parameters": {
                        "type": "object",
                        "properties": {"command": {"type": "string"}},
                        "required": ["command"],
                    },
                },
            }
        ],
        "disable_tool_validation": True,
        "temperature": 0.5,
        "max_completion_tokens": 100,
    }
    assert second is not None
    assert second.keys() & {"tools", "disable_tool_validation"} == set()


async def test_a_requests_own_temperature_goes_before_the_configurations() -> None:
    cold, hello = (
        ModelRequest((Message("user", "hi"),), temperature=0.0),
        ModelRequest((Message("user", "hi"),)),
    )
    for sampling, expected in ((Sampling(0.5), [0.0, 0.5]), (Sampling(), [0.0, None])):
        async with groq_model(Answer("x"), sampling=sampling) as (model, fake):
            await model.reply(cold, ignore)
            await model.reply(hello, ignore)
        assert [(request.body or {}).get("temperature") for request in fake.requests] == expected


async def test_parallel_tool_calls_are_told_apart_and_named_before_their_arguments_are_there() -> None:
    events: list[ModelEvent] = []
    calls = [("bash", '{"command": "ls"}'), ("web_fetch", '{"url": "http://a/"}'), ("bash", "{}")]
    async with groq_model(Answer("let me see", calls=calls)) as (model, _):
        reply = await model.reply(HELLO, events.append)
    assert [(call.name, call.arguments) for call in reply.tool_calls] == calls
    assert len({call.id for call in reply.tool_calls}) == 3
    assert reply.finish_reason == "tool_calls"
    assert reply.text == "let me see"
    named = [event.name for event in events if isinstance(event, ToolCallNamed)]
    assert named == ["bash", "web_fetch", "bash"]


async def test_a_tool_is_named_while_its_arguments_are_still_on_their_way() -> None:
    named = trio.Event()

    def note(event: ModelEvent) -> None:
        if event == ToolCallNamed("bash"):
            named.set()

    async def run(model: ChatCompletions) -> None:
        await model.reply(HELLO, note)

    # The stream hangs after the name: only the name can have set the event.
    hanging = Answer(calls=[("bash", "{}")], hang_after=2)
    async with groq_model(hanging) as (model, _), trio.open_nursery() as nursery:
        nursery.start_soon(run, model)
        with trio.fail_after(30):
            await named.wait()
        nursery.cancel_scope.cancel()


async def test_tool_results_and_calls_go_back_in_the_shape_that_the_server_checks() -> None:
    call, bad = ToolCall("c1", "bash", '{"command": "ls"}'), ToolCall("c2", "no such tool!", "{not json")
    request = ModelRequest(
        (
            Message("user", "list"),
            Message("assistant", "", (call, bad)),
            Message("tool", "a.txt", tool_call_id="c1"),
            Message("tool", "broken \udcff output", tool_call_id="c2"),
        ),
        (BASH,),
    )
    async with groq_model(Answer("there is a.txt")) as (model, fake):
        assert (await model.reply(request, ignore)).text == "there is a.txt"
    body = fake.requests[0].body
    assert body is not None
    sent = body["messages"][1]
    assert sent["content"] is None
    assert sent["tool_calls"][0]["function"] == {"name": "bash", "arguments": '{"command": "ls"}'}
    assert json.loads(sent["tool_calls"][1]["function"]["arguments"]) == {"invalid_arguments": "{not json"}
    assert body["messages"][3]["content"] == "broken ? output"


async def test_arguments_that_are_no_json_are_passed_on_as_text() -> None:
    async with groq_model(Answer(calls=[("bash", "ls -la please")])) as (model, _):
        reply = await model.reply(HELLO, ignore)
    assert reply.tool_calls[0].arguments == "ls -la please"


@pytest.mark.parametrize(
    "behaviour",
    [
        Answer("42", reasoning="thinking…", pieces=1),
        Raw(sse(delta(reasoning_content="thinking…"), delta("stop", content="42"))),
        Raw(sse(delta(content="<think>thinking…</think>\n\n42"), delta("stop"))),
        Raw(sse(*[delta(content=letter) for letter in "<think>a</think> "], delta("stop", content="42"))),
    ],
)
async def test_reasoning_is_a_sign_of_life_but_no_answer(behaviour: Behaviour) -> None:
    events: list[ModelEvent] = []
    async with groq_model(behaviour) as (model, _):
        reply = await model.reply(HELLO, events.append)
    assert reply.text == "42"
    assert events == [TextDelta("42")]


async def test_a_stream_that_says_it_is_done_is_complete_without_a_reason() -> None:
    calls = [("bash", '{"command": "ls"}')]
    for script, reason in (
        (Answer("done", finish_reason=""), "stop"),
        (Answer(calls=calls, finish_reason=""), "tool_calls"),
    ):
        async with custom_model(script) as (model, _):
            assert (await model.reply(HELLO, ignore)).finish_reason == reason


async def test_tokens_that_the_server_had_cached_are_counted() -> None:
    async with groq_model(Answer("x", usage=(120, 9), cached=64)) as (model, _):
        assert (await model.reply(HELLO, ignore)).usage == Usage(120, 9, 64)
    async with custom_model(Answer("x", usage=(120, 9), cached=32)) as (model, _):
        assert (await model.reply(HELLO, ignore)).usage == Usage(120, 9, 32)


CALLED = ModelRequest(
    (
        Message("user", "list"),
        Message("assistant", "", (ToolCall("c1", "bash", "{}"),), reasoning="I need to look"),
        Message("tool", "a.txt", tool_call_id="c1"),
    ),
    (BASH,),
)


async def test_reasoning_goes_back_to_the_models_that_need_it_and_to_no_others() -> None:
    async with groq_model(Answer("x")) as (model, fake):
        await model.reply(CALLED, ignore)
        assert fake.requests[0].body["messages"][1]["reasoning"] == "I need to look"  # type: ignore[index]
    for other in (groq_model(Answer("x"), named="moonshotai/kimi-k2-instruct"), custom_model(Answer("x"))):
        async with other as (model, fake):
            await model.reply(CALLED, ignore)
            assert "reasoning" not in fake.requests[0].body["messages"][1]  # type: ignore[index]


async def test_a_reply_has_the_reasoning_that_led_to_its_calls() -> None:
    async with groq_model(Answer(calls=[("bash", "{}")], reasoning="I need to look")) as (model, _):
        assert (await model.reply(HELLO, ignore)).reasoning == "I need to look"


async def test_a_call_of_a_tool_that_is_not_there_comes_through_with_its_name_cleaned() -> None:
    calls = [("functions.bash", "{}"), ("bash<|channel|>commentary", "{}"), ("launch", "{}")]
    events: list[ModelEvent] = []
    async with groq_model(Answer(calls=calls)) as (model, _):
        reply = await model.reply(HELLO, events.append)
    assert [call.name for call in reply.tool_calls] == ["bash", "bash", "launch"]
    assert [event.name for event in events if isinstance(event, ToolCallNamed)] == ["bash", "bash", "launch"]


READABLE = '{"name": "functions.bash", "arguments": {"command": "ls"}}'


@pytest.mark.parametrize(
    "behaviour",
    [
        tool_use_failed(READABLE),
        tool_use_failed(READABLE, "Failed to parse tool call arguments as JSON"),
        Raw(b"event: error\n" + sse({"error": tool_use_failed(READABLE).body["error"]})),  # type: ignore[index]
    ],
)
async def test_a_call_that_groq_could_not_read_is_read_here(behaviour: Behaviour) -> None:
    async with groq_model(behaviour) as (model, _):
        reply = await model.reply(HELLO, ignore)
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("bash", '{"command": "ls"}')]
    assert (reply.finish_reason, reply.model) == ("tool_calls", "groq:openai/gpt-oss-120b")


async def test_words_before_a_call_that_groq_could_not_read_are_kept() -> None:
    data = sse(delta(content="I will look. "), {"error": tool_use_failed(READABLE).body["error"]})  # type: ignore[index]
    async with groq_model(Raw(data)) as (model, _):
        reply = await model.reply(HELLO, ignore)
    assert (reply.text, len(reply.tool_calls)) == ("I will look. ", 1)


async def test_what_nobody_can_read_as_a_call_is_an_error_that_has_it() -> None:
    error = await failure_of(tool_use_failed("import csv\nprint(1)"))
    assert (error.kind, error.failed_generation) == ("malformed", "import csv\nprint(1)")
    assert str(error).endswith("wrote a tool call that its server cannot read.")


def too_large(message: str, status: int = 400, **more: object) -> Fail:
    return Fail(status, body={"error": {"message": message, **more}})


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        (too_large("the request exceeds the available context size (4096 tokens), try increasing it",
                   code=400, type="exceed_context_size_error", n_ctx=4096, n_prompt_tokens=6000),
         TooLarge(4096, 6000)),
        (too_large("This model's maximum context length is 8192 tokens. However, you requested 9000"),
         TooLarge(8192)),
        (too_large("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389. "
                   "The input or output tokens must be reduced.", 429, code="rate_limit_exceeded"),
         TooLarge(30_000, 342_389, a_minute=True)),
        (too_large("The context is too long: reduce the context size by 500 tokens"), None),
        (Fail(413, "Request Entity Too Large"), None),
    ],
)  # fmt: skip
async def test_a_refusal_for_its_size_has_the_limit_that_the_server_told(
    behaviour: Fail, told: TooLarge | None
) -> None:
    error = await failure_of(behaviour)
    assert (error.kind, error.too_large) == ("too_large", told)


async def test_groqs_own_refusals_are_told_apart_and_its_headers_are_the_room() -> None:
    budget, plan = TokenBudget(131_072), Plan(8000, minute_s=3600)
    long = ModelRequest((Message("user", "word " * 8000),))
    async with groq_model(Answer("x"), budget=budget, plan=plan) as (model, _):
        with pytest.raises(ModelError) as caught:
            await model.reply(long, ignore)
        told = caught.value.too_large
        assert told is not None
        assert (caught.value.kind, told.limit, told.a_minute) == ("too_large", 8000, True)
        assert budget.context_tokens == 8000
        half = ModelRequest((Message("user", "word " * 4000),))
        await model.reply(half, ignore)
        with pytest.raises(ModelError) as caught:
            await model.reply(half, ignore)
        assert (caught.value.kind, caught.value.too_large) == ("rate_limited", None)
        assert caught.value.retry_after_s is not None


async def test_the_longest_reply_is_not_asked_of_a_plan_that_would_count_it() -> None:
    budget = TokenBudget(131_072)
    script, plan = Answer("x"), Plan(8000, minute_s=1)
    async with groq_model(script, sampling=Sampling(None, 7000), budget=budget, plan=plan) as (model, fake):
        for _ in range(2):
            await model.reply(HELLO, ignore)
    asked = [(request.body or {}).get("max_completion_tokens") for request in fake.requests]
    assert asked == [7000, None]


async def test_one_client_and_one_connection_serve_many_calls() -> None:
    async with groq_model(Answer("x")) as (model, fake):
        client = await model._server.client()
        for _ in range(5):
            await model.reply(HELLO, ignore)
        assert await model._server.client() is client
        assert fake.connections == 1


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (Fail(401, "Invalid API Key", "invalid_api_key"), "auth"),
        (Fail(403, "Forbidden"), "auth"),
        (Fail(404, "The model `x` does not exist", "model_not_found"), "not_found"),
        (Fail(400, "The model `x` has been decommissioned", "model_decommissioned"), "not_found"),
        (Fail(413, "Request too large for model", "rate_limit_exceeded"), "too_large"),
        (Fail(400, "Please reduce the length of the messages", "context_length_exceeded"), "too_large"),
        (Fail(400, "This model's maximum context length is 8192 tokens"), "too_large"),
        (Fail(429, "Rate limit reached", "rate_limit_exceeded"), "rate_limited"),
        (Fail(400, "Failed to call a function.", "tool_use_failed"), "malformed"),
        (Fail(400, "'temperature' : must be between 0 and 2"), "refused"),
        (Fail(422, "unprocessable"), "refused"),
        (Fail(500, "Internal Server Error"), "server"),
        (Fail(503, body="<html><h1>Bad gateway</h1></html>"), "server"),
        (Fail(498, "flex tier capacity exceeded"), "server"),
        (Fail(402, "out of money"), "auth"),
        (Fail(429, "You exceeded your current quota", "insufficient_quota"), "auth"),
        (Answer(""), "empty"),
        (Answer("  \n "), "empty"),
        (Answer("some words", cut_after=2), "unreachable"),
        (Answer("some words", cut_after=0), "unreachable"),
        (Drop(), "unreachable"),
        (Raw(sse(delta(content="words"), done=False)), "unreachable"),
        (Raw(b""), "unreachable"),
        (Raw(sse()), "empty"),
        (Raw(sse(delta(content="<think>and no answer"))), "empty"),
        (Raw(b"data: {nonsense\n\n"), "malformed"),
        (Raw(b"data: \xff\xfe\n\n"), "malformed"),
        (Raw(sse([1, 2])), "malformed"),
        (Raw(sse({"object": "something else"})), "malformed"),
        (Raw(sse({"choices": "none"})), "malformed"),
        (Raw(sse({"choices": [7]})), "malformed"),
        (Raw(sse(delta(content=7))), "malformed"),
        (Raw(sse(delta(tool_calls={"index": 0}))), "malformed"),
        (Raw(sse(delta(tool_calls=[{"index": "a"}]))), "malformed"),
        (Raw(sse(delta("tool_calls", tool_calls=[{"index": 0, "id": "a"}]))), "malformed"),
        (Raw(b"<html>log in first</html>", content_type="text/html"), "malformed"),
        (Raw(b'{"choices": []}', content_type="application/json"), "malformed"),
        (Raw(sse({"error": {"message": "overloaded", "code": 503}})), "server"),
        (Raw(sse({"error": {"message": "slow down", "code": "rate_limit_exceeded"}})), "rate_limited"),
        (Raw(sse({"error": {"message": "bad call", "code": "tool_use_failed"}})), "malformed"),
        (Raw(b"event: error\n" + sse({"error": {"message": "boom"}})), "server"),
        (Raw(sse({"choices": [], "x_groq": {"error": "over_capacity"}})), "server"),
    ],
)
async def test_each_failure_has_its_kind_and_leaves_no_connection(behaviour: Behaviour, kind: str) -> None:
    error = await failure_of(behaviour)
    assert error.kind == kind
    assert error.message.endswith(".")
    assert error.model == "groq:openai/gpt-oss-120b"


async def test_a_refused_key_names_where_the_key_is_set() -> None:
    error = await failure_of(Fail(401, "Invalid API Key", "invalid_api_key"))
    assert "GROQ_API_KEY" in error.advice
    assert error.exit_code == 4
    assert not error.retriable


async def test_a_wrong_key_is_an_auth_error() -> None:
    async with serve_groq(Answer("x")) as fake:
        server = ModelServer("groq", fake.base_url, "gsk_wrong_key_000000", dialect="groq")
        with pytest.raises(ModelError) as caught:
            await ChatCompletions(server, "m", name="groq:m", timeout_s=5).reply(HELLO, ignore)
        await server.aclose()
    assert caught.value.kind == "auth"


async def test_nothing_listening_is_unreachable_and_says_where() -> None:
    server = ModelServer("groq", "http://127.0.0.1:9", KEY, dialect="groq")
    with pytest.raises(ModelError) as caught:
        await ChatCompletions(server, "m", name="groq:m", timeout_s=5).reply(HELLO, ignore)
    await server.aclose()
    assert caught.value.kind == "unreachable"
    assert "http://127.0.0.1:9" in caught.value.message


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [(Hang(), 0), (Answer("some words", hang_after=3), 2), (Answer("some words", hang_after=1), 0)],
)
async def test_silence_is_a_timeout_wherever_it_begins(behaviour: Behaviour, words: int) -> None:
    events: list[ModelEvent] = []
    async with groq_model(behaviour, timeout_s=1.5) as (model, fake):
        await model._server.client()
        with pytest.raises(ModelError) as caught, trio.fail_after(30):
            await model.reply(HELLO, events.append)
        with trio.fail_after(30):
            await fake.wait_idle()
    assert caught.value.kind == "timeout"
    assert "1.5 s" in caught.value.message
    assert len(events) == words


async def test_a_long_prompt_may_be_read_for_longer_than_a_reply_may_be_silent() -> None:
    async with groq_model(Answer("at last", begin_s=0.6), timeout_s=0.2, first_s=20) as (model, _):
        assert (await model.reply(HELLO, ignore)).text == "at last"


async def test_pings_while_a_prompt_is_read_begin_no_reply() -> None:
    # Comments, and the first chunk, which has a role and no words, come before the prompt has been read.
    first = [b": ping\n", sse(delta(role="assistant", content=""), done=False)]
    data = b"".join(chunk.ljust(200, b"\n") for chunk in first) + sse(delta(content="ok"), delta("stop"))
    async with groq_model(Raw(data, step=200, pause_s=0.6), timeout_s=0.2, first_s=20) as (model, _):
        assert (await model.reply(HELLO, ignore)).text == "ok"


@pytest.mark.parametrize(
    ("behaviour", "key"),
    [
        (Hang(), "model.first_token_timeout_s"),
        (Answer("some words", hang_after=1), "model.first_token_timeout_s"),
        (Answer("some words", hang_after=2), "model.timeout_s"),
        (Answer("some words", reasoning="hm", hang_after=2), "model.timeout_s"),
        (Answer("<think>I have begun to think", pieces=9, hang_after=2), "model.timeout_s"),
    ],
)  # fmt: skip
async def test_a_silence_names_the_limit_that_it_was_too_long_for(behaviour: Behaviour, key: str) -> None:
    first_s, timeout_s = (0.2, 20) if "first" in key else (20, 0.2)
    async with groq_model(behaviour, timeout_s=timeout_s, first_s=first_s) as (model, _):
        with pytest.raises(ModelError) as caught, trio.fail_after(10):
            await model.reply(HELLO, ignore)
    assert caught.value.kind == "timeout"
    assert f"a longer {key}." in caught.value.advice
    assert "0.2 s" in caught.value.message


async def test_a_slow_drip_is_no_silence() -> None:
    async with groq_model(Answer("abcdefgh", pieces=8, pause_s=0.25), timeout_s=1.5) as (model, _):
        await model._server.client()
        assert (await model.reply(HELLO, ignore)).text == "abcdefgh"


async def test_comments_are_signs_of_life() -> None:
    data = (b": " + b"." * 77 + b"\n") * 6 + sse(delta(content="ok"), delta("stop"))
    async with groq_model(Raw(data, step=80, pause_s=0.3), timeout_s=1.5) as (model, _):
        await model._server.client()
        assert (await model.reply(HELLO, ignore)).text == "ok"


async def test_bytes_that_never_make_a_line_are_silence() -> None:
    raw = Raw(b"data: " + b"x" * 100, step=1, pause_s=0.05)
    async with groq_model(raw, timeout_s=0.3) as (model, _):
        await model._server.client()
        with pytest.raises(ModelError) as caught, trio.fail_after(30):
            await model.reply(HELLO, ignore)
    assert caught.value.kind == "timeout"


@pytest.mark.parametrize("step", [1, 2, 7, 0])
async def test_a_stream_reads_the_same_however_its_bytes_are_cut(step: int) -> None:
    data = sse(delta(content="año "), delta(content="nuevo"), delta("stop")).replace(b"\n", b"\r\n")
    async with groq_model(Raw(data, step=step)) as (model, _):
        assert (await model.reply(HELLO, ignore)).text == "año nuevo"


async def test_retry_after_is_read_as_seconds_and_as_a_date() -> None:
    seconds = await failure_of(Fail(429, "slow down", headers={"retry-after": "2.5"}))
    assert seconds.retry_after_s == 2.5
    date = await failure_of(Fail(429, headers={"retry-after": formatdate(time.time() + 30, usegmt=True)}))
    assert date.retry_after_s == pytest.approx(30, abs=3)
    past = await failure_of(Fail(429, headers={"retry-after": formatdate(time.time() - 30, usegmt=True)}))
    assert past.retry_after_s == 0
    nonsense = await failure_of(Fail(429, headers={"retry-after": "soon"}))
    assert nonsense.retry_after_s is None


async def test_rate_limit_headers_are_told_on_success_and_on_failure() -> None:
    headers = {
        "x-ratelimit-limit-requests": "1000",
        "x-ratelimit-remaining-requests": "997",
        "x-ratelimit-reset-requests": "4m19.2s",
        "x-ratelimit-limit-tokens": "8000",
        "x-ratelimit-remaining-tokens": "123",
        "x-ratelimit-reset-tokens": "870ms",
    }
    windows = Window(1000, 997, 259.2), Window(8000, 123, 0.87)
    seen: list[RateLimits] = []
    script = [Answer("x", headers=headers), Fail(429, headers={**headers, "retry-after": "7"}), Answer("x")]
    async with groq_model(script) as (model, _):
        await model.metered_reply(HELLO, ignore, seen.append)
        with pytest.raises(ModelError):
            await model.metered_reply(HELLO, ignore, seen.append)
        await model.metered_reply(HELLO, ignore, seen.append)
    assert seen == [RateLimits(*windows), RateLimits(*windows, retry_after_s=7.0)]


async def test_redirects_are_not_followed_and_the_key_stays_here() -> None:
    async with serve_groq(Answer("stolen")) as elsewhere:
        target = f"{elsewhere.base_url}/openai/v1/chat/completions"
        error = await failure_of(Fail(307, headers={"location": target}))
        assert elsewhere.requests == []
    assert error.kind == "refused"
    assert "redirect" in error.message


async def test_no_key_in_errors_or_logs_even_if_the_server_repeats_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = f"Incorrect API key provided: {KEY}. " + "x" * 280 + KEY
    for behaviour in (
        Fail(401, echo),
        Fail(400, echo),
        Fail(500, body=f"upstream said: Authorization: Bearer {KEY}"),
        Raw(sse({"error": {"message": echo}})),
    ):
        error = await failure_of(behaviour)
        assert KEY not in f"{error!r} {error} {error.detail} {error.advice}"
        assert KEY[:12] not in str(error)
    assert KEY not in caplog.text


async def test_account_ids_are_left_out_of_what_people_read() -> None:
    said = "Rate limit reached for model `x` in organization `org_01jabcdefgh` on tokens per day (TPD)"
    error = await failure_of(Fail(429, said))
    assert error.detail == "Rate limit reached for model `x` on tokens per day (TPD)"


async def test_the_servers_words_cannot_reach_the_terminal_as_control_characters() -> None:
    error = await failure_of(Fail(400, "bad\x1b[2J\r\nrequest\u202e"))
    assert error.detail == "bad [2J request"


async def test_cancelled_before_the_answer_it_closes_the_connection() -> None:
    async with groq_model(Hang()) as (model, fake), trio.open_nursery() as nursery:
        nursery.start_soon(model.reply, HELLO, ignore)
        with trio.fail_after(30):
            await fake.wait_requests(1)
        nursery.cancel_scope.cancel()
        with trio.fail_after(30), trio.CancelScope(shield=True):
            await fake.wait_idle()
        assert fake.left == 1


async def test_cancelled_in_the_middle_of_the_words_it_closes_the_connection() -> None:
    words = trio.Event()
    slow = Answer("abcdefgh" * 10, pieces=80, pause_s=0.02)
    async with groq_model(slow) as (model, fake), trio.open_nursery() as nursery:
        nursery.start_soon(model.reply, HELLO, lambda _: words.set())
        with trio.fail_after(30):
            await words.wait()
        nursery.cancel_scope.cancel()
        with trio.fail_after(30), trio.CancelScope(shield=True):
            await fake.wait_idle()
        assert fake.left == 1


async def test_after_a_cancellation_the_same_client_serves_the_next_call() -> None:
    async with groq_model([Hang(), Answer("still here")]) as (model, _):
        with trio.move_on_after(0.2):
            await model.reply(HELLO, ignore)
        assert (await model.reply(HELLO, ignore)).text == "still here"


async def test_bytes_after_the_end_do_not_keep_a_reply_waiting() -> None:
    data = sse(delta(content="ok"), delta("stop")) + b": and\n" * 200
    async with groq_model(Raw(data, step=20, pause_s=0.05)) as (model, _):
        await model._server.client()
        with trio.fail_after(30):
            assert (await model.reply(HELLO, ignore)).text == "ok"


@asynccontextmanager
async def custom_model(script: Script, key: str = "") -> AsyncIterator[tuple[ChatCompletions, GroqServer]]:
    async with serve_groq(script, key=key or None) as fake:
        server = ModelServer("custom:mine", fake.openai_url, key, dialect="openai")
        sampling = Sampling(max_output_tokens=50)
        yield ChatCompletions(server, "qwen3:4b", name="custom:mine", timeout_s=5, sampling=sampling), fake
        await server.aclose()


async def test_a_server_without_a_key_gets_none_and_its_usage_comes_in_a_chunk_of_its_own() -> None:
    async with custom_model(Answer("local words", usage=(5, 6))) as (model, fake):
        reply = await model.reply(HELLO, ignore)
    assert reply.usage == Usage(5, 6)
    assert "authorization" not in fake.requests[0].headers
    assert fake.requests[0].path == "/v1/chat/completions"
    body = fake.requests[0].body
    assert body is not None
    assert body["stream_options"] == {"include_usage": True}
    assert body["max_tokens"] == 50
    assert body["model"] == "qwen3:4b"


async def test_a_server_with_a_key_gets_it() -> None:
    async with custom_model(Answer("x"), key="sk-local-123456") as (model, _):
        assert (await model.reply(HELLO, ignore)).text == "x"


async def test_calls_that_share_an_index_are_told_apart_by_their_ids() -> None:
    def call(call_id: str, name: str, index: int | None = 0) -> dict[str, object]:
        begin = {} if index is None else {"index": index}
        return {**begin, "id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}

    data = sse(
        delta(tool_calls=[call("a", "bash"), call("b", "forget")]),
        delta(tool_calls=[call("c", "bash", None)]),
        delta("tool_calls"),
    )
    async with custom_model(Raw(data)) as (model, _):
        reply = await model.reply(HELLO, ignore)
    assert [(call.id, call.name) for call in reply.tool_calls] == [
        ("a", "bash"),
        ("b", "forget"),
        ("c", "bash"),
    ]


async def test_calls_without_ids_and_with_an_object_for_arguments_are_understood() -> None:
    function = {"name": "bash", "arguments": {"command": "ls"}}
    data = sse(delta("tool_calls", tool_calls=[{"index": 0, "function": function}]))
    async with custom_model(Raw(data)) as (model, _):
        reply = await model.reply(HELLO, ignore)
    assert reply.tool_calls[0].id
    assert reply.tool_calls[0].arguments == '{"command": "ls"}'


async def test_a_proxy_in_the_environment_does_not_stand_before_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with groq_model(Answer("direct")) as (model, _):
        assert (await model.reply(HELLO, ignore)).text == "direct"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("HTTPS_PROXY", "gopher://user:canary-0123456789@127.0.0.1:1", "The proxy of the environment cannot"),
        ("SSL_CERT_FILE", "/dev/null", "The certificates to trust cannot be read"),
    ],
)
async def test_an_environment_that_cannot_work_is_an_error_of_the_model(
    name: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    server = ModelServer("groq", "http://127.0.0.1:1", KEY, dialect="groq")
    with pytest.raises(ModelError, match=words) as raised:
        await ChatCompletions(server, "m", name="groq:m", timeout_s=5).reply(HELLO, ignore)
    assert "canary" not in str(raised.value)
    assert not raised.value.retriable


@pytest.mark.parametrize("pieces", [1, 7, 60])
async def test_a_groq_server_that_repeats_its_key_shows_it_nowhere(pieces: int) -> None:
    hidden = base64.b64encode(f"Authorization: Bearer {KEY}".encode()).decode()
    text = f"You are {KEY}, that is {hidden}, or {KEY.encode().hex()}."
    events: list[ModelEvent] = []
    answers = [
        Answer(text, (("bash", json.dumps({"command": f"echo {KEY}"})),), pieces=pieces, reasoning=text),
        Fail(400, f"the key {KEY} ({hidden}) may not do that"),
    ]
    async with groq_model(answers) as (model, _):
        reply = await model.reply(HELLO, events.append)
        with pytest.raises(ModelError) as caught:
            await model.reply(HELLO, events.append)
    seen = f"{reply} {events} {caught.value} {caught.value.detail}"
    for form in (KEY, KEY[4:20], hidden[30:60], KEY.encode().hex()[10:40]):
        assert form not in seen
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == reply.text
    assert reply.text.startswith("You are [hidden], that is ")
    assert reply.tool_calls[0].arguments == "[hidden]"
