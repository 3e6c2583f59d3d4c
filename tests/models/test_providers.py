"""Each provider's protocol over real sockets, against servers made from its public documentation."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio

from rumi.errors import ConfigError
from rumi.models.body import Sampling, body_of
from rumi.models.build import build_models
from rumi.models.model import (
    Message,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    Picture,
    TextDelta,
    ToolCall,
    ToolCallNamed,
    ToolSpec,
)
from rumi.models.settings import (
    ModelSettings,
    context_tokens_of,
    lacks_key,
    missing_key,
    model_takes_pictures,
)
from rumi.platform.config.providers import PROVIDERS, SCHEMES
from rumi.platform.config.secrets import Secrets
from tests.fakes.anthropic_server import ANTHROPIC_KEY, serve_anthropic
from tests.fakes.groq_server import (
    KEY,
    Answer,
    Behaviour,
    Drop,
    Fail,
    GroqServer,
    Hang,
    Raw,
    answered_calls,
    serve_groq,
)
from tests.fakes.ollama_server import serve_ollama
from tests.fakes.provider_servers import PROVIDER_KEY, serve_provider
from tests.models.made import custom_server, model_settings

BASH = ToolSpec("bash", "Runs a command", {"type": "object", "properties": {"command": {"type": "string"}}})
HELLO = ModelRequest((Message("system", "You are Rumi."), Message("user", "hola")), (BASH,))
SCHEMA: Mapping[str, object] = {"type": "object", "properties": {"a": {"type": "string"}}}
PNG = Picture("cat.png", "image/png", b"\x89PNG-and-so-on")
CHAT_SCHEMES = ["openai", "openrouter", "mistral", "deepseek", "xai", "gemini", "llamacpp"]
MODELS = {"openai": "gpt-5-mini", "openrouter": "openai/gpt-5", "mistral": "mistral-large-latest"}


def ignore(_: ModelEvent) -> None:
    pass


def settings_of(scheme: str, url: str, model: str = "", **more: Any) -> ModelSettings:
    key = ANTHROPIC_KEY if scheme == "anthropic" else PROVIDER_KEY
    name = f"{scheme}:{model or MODELS.get(scheme, 'a-model')}"
    keys = {} if PROVIDERS[scheme].local else {scheme: key}
    return model_settings(name, (), **{"keys": keys, "base_urls": {scheme: url}, "timeout_s": 5, **more})


@asynccontextmanager
async def bound(settings: ModelSettings) -> AsyncIterator[Model]:
    models = build_models(settings)
    try:
        yield models.bind("c1")
    finally:
        await models.aclose()


async def reply_to(settings: ModelSettings, request: ModelRequest = HELLO) -> Any:
    async with bound(settings) as model:
        return await model.reply(request, ignore)


async def failure_of(scheme: str, url: str, fake: GroqServer) -> ModelError:
    """The error of one attempt, without retries."""
    models = build_models(settings_of(scheme, url))
    with pytest.raises(ModelError) as caught, trio.fail_after(30):
        await models.steps[0].model.reply(HELLO, ignore)
    await models.aclose()
    await fake.wait_idle()
    return caught.value


def with_a_tool(body: Mapping[str, Any]) -> Behaviour:
    if results := [message for message in body["messages"] if message["role"] == "tool"]:
        return Answer(f"it said {results[-1]['content']}", usage=(30, 4))
    return Answer(calls=[("bash", '{"command": "date"}')], reasoning="I need the date.")


async def round_trip(settings: ModelSettings) -> tuple[str, ToolCall]:
    """A call of a tool, its result, and the answer."""
    async with bound(settings) as model:
        reply = await model.reply(HELLO, ignore)
        (call,) = reply.tool_calls
        assert (call.name, reply.finish_reason) == ("bash", "tool_calls")
        assistant = Message("assistant", reply.text, reply.tool_calls, reasoning=reply.reasoning)
        result = Message("tool", "Tuesday", tool_call_id=call.id)
        request = replace(HELLO, messages=(*HELLO.messages, assistant, result))
        return (await model.reply(request, ignore)).text, call


# The table and the registry


def test_every_scheme_of_the_table_makes_its_model_without_a_request() -> None:
    for scheme in PROVIDERS:
        settings = settings_of(scheme, PROVIDERS[scheme].url)
        models = build_models(settings)
        assert models.name == settings.default
        assert [server.name for server in models.servers] == [scheme]
    assert set(SCHEMES) == {*PROVIDERS, "custom", "plugin"}


def test_a_provider_without_its_key_names_the_variable() -> None:
    for scheme, row in PROVIDERS.items():
        settings = model_settings(f"{scheme}:m", ())
        assert missing_key(settings) == (row.key or "")
        assert lacks_key(settings) == bool(row.key)
        if row.key:
            with pytest.raises(ConfigError, match=row.key):
                build_models(settings)
            assert not lacks_key(model_settings(f"{scheme}:m", (), commands={scheme: "pass"})), (
                "its command has not run yet"
            )


def test_facts_of_an_exact_name_go_before_those_of_its_beginning() -> None:
    openai = PROVIDERS["openai"]
    assert openai.model("gpt-4.1").context == 1_047_576
    assert openai.model("gpt-5-pro").pictures
    assert openai.model("gpt-5-chat-latest").effort is False
    assert openai.model("unheard-of").context is None
    assert context_tokens_of("anthropic:claude-haiku-4-5") == 200_000
    assert context_tokens_of("openai:unheard-of") == 8192
    assert context_tokens_of("ollama:qwen3") == 16_384


def test_an_alias_stands_for_its_model_everywhere() -> None:
    settings = model_settings(
        "fast",
        ("slow", "fast"),
        keys={"groq": KEY},
        aliases={"fast": "groq:a", "slow": "groq:b", "off": "offline"},
    )
    models = build_models(settings)
    assert [step.model.name for step in models.steps] == ["groq:a", "groq:b"]
    assert models.bind("c1", chosen="slow").name == "groq:b"
    assert models.bind("c1", chosen="off").name == "offline"
    assert missing_key(replace(settings, secrets=Secrets())) == "GROQ_API_KEY"


def test_which_models_take_pictures_is_known() -> None:
    custom = {
        "eyes": custom_server("http://h/v1", "m", pictures=True),
        "blind": custom_server("http://h/v1", "m"),
    }
    settings = model_settings(custom=custom, aliases={"see": "openai:gpt-5"})
    taken = {
        name: model_takes_pictures(name, settings)
        for name in (
            "see",
            "anthropic:claude-opus-5",
            "custom:eyes",
            "custom:blind",
            "custom:none",
            "offline",
        )
    }
    assert taken == {
        **dict.fromkeys(taken, False),
        "see": True,
        "anthropic:claude-opus-5": True,
        "custom:eyes": True,
        "offline": True,
    }
    assert not model_takes_pictures("groq:openai/gpt-oss-120b", settings)
    assert model_takes_pictures("ollama:gemma3:4b", settings)


async def test_a_model_that_takes_no_pictures_gets_none() -> None:
    request = ModelRequest((Message("user", "what is it?", pictures=(PNG,)),))
    async with serve_groq(Answer("a cat"), key=None) as fake:
        for pictures in (True, False):
            custom = {"mine": custom_server(fake.openai_url, "m", pictures=pictures)}
            await reply_to(model_settings("custom:mine", (), custom=custom), request)
    shown, hidden = (
        sent_request.body["messages"][0]["content"] for sent_request in fake.requests if sent_request.body
    )
    assert shown[1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert hidden == "what is it?\n[The picture cat.png is left out: this model takes none.]"


# Chat completions of each provider


@pytest.mark.parametrize("scheme", CHAT_SCHEMES)
async def test_a_tool_call_and_its_result_go_through(scheme: str) -> None:
    async with serve_provider(scheme, with_a_tool) as fake:
        answer, call = await round_trip(settings_of(scheme, fake.provider_url))
    assert (answer, call.arguments) == ("it said Tuesday", '{"command": "date"}')


@pytest.mark.parametrize("scheme", CHAT_SCHEMES)
async def test_words_are_streamed_and_cached_tokens_counted(scheme: str) -> None:
    events: list[ModelEvent] = []
    async with serve_provider(
        scheme, Answer("hola, ¿qué tal?", pieces=4, usage=(120, 9), cached=100)
    ) as fake:
        async with bound(
            settings_of(scheme, fake.provider_url, temperature=0.5, max_output_tokens=50)
        ) as model:
            reply = await model.reply(HELLO, events.append)
    assert reply.text == "".join(event.text for event in events if isinstance(event, TextDelta))
    assert len(events) == 4
    usage = reply.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (120, 9, 100)


@pytest.mark.parametrize("scheme", CHAT_SCHEMES)
@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (Fail(401, "Incorrect API key provided", "invalid_api_key"), "auth"),
        (Fail(402, "Insufficient Balance"), "auth"),
        (Fail(429, "slow down"), "rate_limited"),
        (Fail(503, "Loading model"), "server"),
        (Fail(400, "no such field"), "refused"),
        (Answer(""), "empty"),
    ],
)
async def test_failures_have_their_kinds(scheme: str, behaviour: Behaviour, kind: str) -> None:
    async with serve_provider(scheme, behaviour) as fake:
        error = await failure_of(scheme, fake.provider_url, fake)
    assert error.kind == kind
    assert PROVIDER_KEY not in str(error)


async def test_a_call_of_another_model_goes_to_gemini_without_its_signature() -> None:
    call = ToolCall("call_1", "bash", "{}", '{"anthropic": []}')
    messages = (
        Message("user", "hi"),
        Message("assistant", "", (call,)),
        Message("tool", "x", tool_call_id="call_1"),
    )
    async with serve_provider("gemini", Answer("ok")) as fake:
        assert (await reply_to(settings_of("gemini", fake.provider_url), ModelRequest(messages))).text == "ok"


def test_a_schema_goes_only_where_it_is_taken() -> None:
    asked = ModelRequest((Message("user", "facts?"),), schema=SCHEMA)
    for scheme, taken in (("openai", True), ("deepseek", False), ("mistral", True)):
        facts = PROVIDERS[scheme].model(MODELS.get(scheme, "deepseek-chat"))
        assert facts.schema is taken
        body = body_of(asked, "m", PROVIDERS[scheme], Sampling(), schema=facts.schema, small_plan=False)
        assert ("response_format" in body) is taken


# Anthropic


async def test_anthropic_streams_words_and_counts_what_its_cache_had() -> None:
    events: list[ModelEvent] = []
    long = replace(HELLO, messages=(Message("system", "You are Rumi. " * 500), Message("user", "hola")))
    async with serve_anthropic(Answer("hola, ¿qué tal?", pieces=4, usage=(0, 9))) as fake:
        async with bound(settings_of("anthropic", fake.base_url, "claude-haiku-4-5")) as model:
            first = await model.reply(long, events.append)
            more = (*long.messages, Message("assistant", first.text), Message("user", "and now?"))
            second = await model.reply(replace(long, messages=more), ignore)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["hola", ", ¿q", "ué t", "al?"]
    assert first.usage.cached_tokens == 0
    assert first.usage.written_tokens > 1500
    assert second.usage.cached_tokens >= first.usage.written_tokens
    assert second.usage.prompt_tokens > second.usage.cached_tokens
    assert second.usage.completion_tokens == 9
    body = fake.requests[0].body or {}
    assert (body["max_tokens"], body["system"][0]["cache_control"]) == (8192, {"type": "ephemeral"})


async def test_anthropic_calls_tools_and_gets_its_signed_thoughts_back() -> None:
    def script(body: Mapping[str, Any]) -> Behaviour:
        last = body["messages"][-1]["content"][-1]
        if last["type"] == "tool_result":
            return Answer(f"it said {last['content'][0]['text']}")
        return Answer("Let me look.", calls=[("bash", '{"command": "date"}')], reasoning="I need the date.")

    async with serve_anthropic(script) as fake:
        answer, call = await round_trip(settings_of("anthropic", fake.base_url))
    assert (answer, call.arguments) == ("it said Tuesday", '{"command": "date"}')
    assistant = (fake.requests[1].body or {})["messages"][1]
    assert [block["type"] for block in assistant["content"]] == ["thinking", "text", "tool_use"]


async def test_thoughts_are_no_part_of_anthropics_answer() -> None:
    async with serve_anthropic(Answer("42", reasoning="six by nine")) as fake:
        reply = await reply_to(settings_of("anthropic", fake.base_url))
    assert (reply.text, reply.reasoning) == ("42", "six by nine")


async def test_anthropic_gets_a_conversation_in_the_order_that_it_demands() -> None:
    calls = tuple(ToolCall(f"c{n}", "bash", arguments) for n, arguments in enumerate(("{}", "no json")))
    messages = (
        Message("system", "You are Rumi."),
        Message("user", "first"),
        Message("user", "second"),
        Message("assistant", "", calls),
        Message("tool", "", tool_call_id="c0"),
        Message("tool", "two", tool_call_id="c1", pictures=(PNG,)),
        Message("system", "Stop working now."),
        Message("assistant", " "),
        Message("user", "what is it?", pictures=(PNG,)),
    )
    async with serve_anthropic(Answer("ok")) as fake:
        settings = settings_of("anthropic", fake.base_url, "claude-haiku-4-5", temperature=1.5)
        reply = await reply_to(settings, ModelRequest(messages, (BASH,), words_only=True))
    assert reply.text == "ok"
    body = fake.requests[0].body or {}
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    assert (body["tool_choice"], body["temperature"]) == ({"type": "none"}, 1.0)
    kinds = [block["type"] for block in body["messages"][-1]["content"]]
    assert kinds == ["image", "text"]
    assert body["messages"][1]["content"][1]["input"] == {"invalid_arguments": "no json"}


@pytest.mark.parametrize(
    ("behaviour", "kind", "says"),
    [
        (Fail(401, "invalid x-api-key"), "auth", "ANTHROPIC_API_KEY"),
        (Fail(400, "Your credit balance is too low to access the API."), "auth", "no credit"),
        (Fail(404, "model: claude-9"), "not_found", "does not know"),
        (Fail(429, "rate limit", headers={"retry-after": "7"}), "rate_limited", ""),
        (Fail(529, "Overloaded"), "server", "529"),
        (Fail(400, "prompt is too long: 210000 tokens > 200000 maximum"), "too_large", ""),
        (Fail(400, "messages: at least one message is required"), "refused", ""),
        (Raw(b'data: {"type": "error", "error": {"type": "overloaded_error", "message": "O"}}\n\n'),
         "server", "529"),
        (Answer("some words", cut_after=5), "unreachable", ""),
        (Answer(""), "empty", ""),
        (Drop(), "unreachable", ""),
        (Raw(b'data: {"type": "content_block_delta", "index": 3, "delta": {}}\n\n'), "malformed", ""),
        (Raw(b"data: [1]\n\n"), "malformed", ""),
        (Raw(b"<html>log in</html>", "text/html"), "malformed", ""),
    ],
)  # fmt: skip
async def test_each_failure_of_anthropic_has_its_kind(behaviour: Behaviour, kind: str, says: str) -> None:
    async with serve_anthropic(behaviour) as fake:
        error = await failure_of("anthropic", fake.base_url, fake)
    assert error.kind == kind
    assert says in f"{error.message} {error.advice}"
    assert ANTHROPIC_KEY not in str(error)
    if kind == "rate_limited":
        assert error.retry_after_s == 7
    if kind == "too_large":
        assert error.too_large is not None
        assert (error.too_large.limit, error.too_large.requested) == (200_000, 210_000)


async def test_an_overload_is_tried_again() -> None:
    async with serve_anthropic(
        [Fail(529, "Overloaded", headers={"retry-after": "0.05"}), Answer("ok")]
    ) as fake:
        assert (await reply_to(settings_of("anthropic", fake.base_url))).text == "ok"


async def test_a_silent_anthropic_is_a_timeout_and_a_cancelled_one_leaves_nothing() -> None:
    async with serve_anthropic(Hang()) as fake:
        settings = settings_of("anthropic", fake.base_url, first_token_timeout_s=0.2)
        models = build_models(settings)
        with pytest.raises(ModelError, match=r"said nothing for 0\.2 s"):
            await models.steps[0].model.reply(HELLO, ignore)
        patient = build_models(settings.changed(first_token_timeout_s=60))
        with trio.move_on_after(0.2):
            await patient.steps[0].model.reply(HELLO, ignore)
        await models.aclose()
        await patient.aclose()
        with trio.fail_after(10):
            await fake.wait_idle()


async def test_a_kept_connection_of_anthropic_that_is_cut_is_tried_once_more() -> None:
    async with serve_anthropic(Answer("ok"), cuts_kept="reset") as fake:
        models = build_models(settings_of("anthropic", fake.base_url))
        for _ in range(3):
            assert (await models.steps[0].model.reply(HELLO, ignore)).text == "ok"
        await models.aclose()
    assert fake.connections == 3


def test_a_newer_claude_gets_an_effort_and_no_temperature() -> None:
    from rumi.models.anthropic import AnthropicProtocol

    request = ModelRequest((Message("user", "hi"),), temperature=0.0, effort="low")
    new, old, unknown = (
        AnthropicProtocol().body(request, name, Sampling(), None)
        for name in ("claude-opus-5-5", "claude-haiku-4-5", "claude-next")
    )
    assert (new["output_config"], "temperature" in new) == ({"effort": "low"}, False)
    assert ("output_config" in old, old["temperature"]) == (False, 0.0)
    assert not {"output_config", "temperature"} & unknown.keys()


# Ollama


async def test_ollamas_context_is_set_so_that_nothing_is_cut_off() -> None:
    words = Message("user", "The boiler is blue. " + "word " * 8000)
    request = ModelRequest((Message("system", "You are Rumi."), words, Message("user", "What colour?")))
    async with serve_ollama(Answer("blue")) as fake:
        reply = await reply_to(settings_of("ollama", fake.base_url, "qwen3:4b"), request)
    assert len(fake.seen[0]) == 3
    assert reply.usage.prompt_tokens > 4096
    assert (fake.requests[0].body or {})["options"]["num_ctx"] == 16_384


async def test_ollamas_context_can_be_chosen_and_its_address_may_end_with_v1() -> None:
    async with serve_ollama(Answer("ok")) as fake:
        await reply_to(settings_of("ollama", f"{fake.base_url}/v1", "qwen3:4b", context_tokens=40_000))
    assert (fake.requests[0].body or {})["options"]["num_ctx"] == 40_000


async def test_ollama_calls_tools_and_its_thoughts_are_no_answer() -> None:
    events: list[ModelEvent] = []
    async with serve_ollama(with_a_tool) as fake:
        answer, call = await round_trip(settings_of("ollama", fake.base_url))
    assert (answer, call.arguments) == ("it said Tuesday", '{"command": "date"}')
    async with serve_ollama(Answer("<think>hm</think>42", reasoning="six", pieces=9)) as fake:
        async with bound(settings_of("ollama", fake.base_url)) as model:
            reply = await model.reply(replace(HELLO, effort="low"), events.append)
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("42", "six\nhm", "stop")
    assert not any(isinstance(event, ToolCallNamed) for event in events)


async def test_ollama_gets_pictures_and_a_schema() -> None:
    request = ModelRequest((Message("user", "what?", pictures=(PNG,)),), schema=SCHEMA)
    async with serve_ollama(Answer('{"a": "cat"}')) as fake:
        await reply_to(settings_of("ollama", fake.base_url, "gemma3"), request)
    body = fake.requests[0].body or {}
    assert body["messages"][0]["images"] == ["iVBORy1hbmQtc28tb24="]
    assert body["format"] == SCHEMA


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (Fail(404, "model 'x' not found"), "not_found"),
        (Fail(500, "llama runner process has terminated"), "server"),
        (
            Raw(b'{"error": "an error was encountered while running the model"}\n', "application/x-ndjson"),
            "server",
        ),
        (
            Raw(b'{"message": {"tool_calls": [{"function": {}}]}, "done": true}\n', "application/x-ndjson"),
            "malformed",
        ),
        (Raw(b"nonsense\n", "application/x-ndjson"), "malformed"),
        (Answer("some words", cut_after=2), "unreachable"),
        (Answer(""), "empty"),
    ],
)
async def test_each_failure_of_ollama_has_its_kind(behaviour: Behaviour, kind: str) -> None:
    async with serve_ollama(behaviour) as fake:
        assert (await failure_of("ollama", fake.base_url, fake)).kind == kind


async def test_a_model_that_ollama_lacks_is_not_found() -> None:
    async with serve_ollama(Answer("ok"), models=["qwen3"]) as fake:
        assert (await failure_of("ollama", fake.base_url, fake)).kind == "not_found"


# llama.cpp


async def test_a_slot_that_a_cancelled_prompt_keeps_is_waited_for() -> None:
    async with serve_provider("llamacpp", Answer("ok"), slot_s=1.0) as fake:
        models = build_models(settings_of("llamacpp", fake.provider_url, timeout_s=0.3))
        model = models.steps[0].model
        assert (await model.reply(HELLO, ignore)).text == "ok"  # its prompt keeps the slot
        began = trio.current_time()
        assert (await model.reply(HELLO, ignore)).text == "ok"
        assert trio.current_time() - began > 0.3, "longer than a reply may be silent"
        await models.aclose()
    assert len(fake.requests) == 2


async def test_a_cut_kept_connection_of_llamacpp_is_tried_once_more() -> None:
    async with serve_provider("llamacpp", Answer("ok"), cuts_kept="close") as fake:
        models = build_models(settings_of("llamacpp", fake.provider_url))
        for _ in range(4):
            assert (await models.steps[0].model.reply(HELLO, ignore)).text == "ok"
        await models.aclose()
    assert fake.connections == 4


# Fallbacks across providers


async def test_a_rate_limit_at_one_provider_is_answered_by_another_at_once() -> None:
    limited = Fail(429, "slow down", headers={"retry-after": "20"})
    async with serve_provider("openai", limited) as openai, serve_anthropic(Answer("from Claude")) as claude:
        settings = model_settings(
            "openai:gpt-5-mini",
            ("anthropic:claude-haiku-4-5",),
            keys={"openai": PROVIDER_KEY, "anthropic": ANTHROPIC_KEY},
            base_urls={"openai": openai.provider_url, "anthropic": claude.base_url},
        )
        with trio.fail_after(10):
            reply = await reply_to(settings)
    assert (reply.text, reply.model) == ("from Claude", "anthropic:claude-haiku-4-5")
    assert len(openai.requests) == 1


async def test_an_answer_after_a_fallback_in_a_turn_reads_the_calls_of_the_other_provider() -> None:
    async with serve_groq(with_a_tool) as groq, serve_provider("mistral", with_a_tool) as mistral:
        settings = model_settings(
            "groq:openai/gpt-oss-120b", (), keys={"groq": KEY}, base_urls={"groq": groq.base_url}
        )
        async with bound(settings) as model:
            reply = await model.reply(HELLO, ignore)
        call = reply.tool_calls[0]
        messages = (
            *HELLO.messages,
            Message("assistant", "", (call,)),
            Message("tool", "Tuesday", tool_call_id=call.id),
        )
        answer = await reply_to(
            settings_of("mistral", mistral.provider_url), replace(HELLO, messages=messages)
        )
    assert answer.text == "it said Tuesday"
    assert answered_calls(mistral.requests[0].body or {}) == ["Tuesday"]
