"""Stored conversations that strict servers would refuse are repaired before they are sent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.models.build import build_models
from rumi.models.dialects.conversation import KIMI, NO_RESULT, USUAL, id_form, paired, with_new_ids
from rumi.models.model import Message, ModelRequest, Role, ToolCall, ToolSpec
from rumi.platform.config.providers import PROVIDERS
from tests.fakes.anthropic_server import ANTHROPIC_KEY, serve_anthropic
from tests.fakes.groq_server import KEY, Answer, GroqServer, serve_groq
from tests.fakes.ollama_server import serve_ollama
from tests.fakes.provider_servers import PROVIDER_KEY, serve_provider
from tests.models.made import custom_server, model_settings

BASH: Final = ToolSpec("bash", "Runs", {"type": "object", "properties": {"command": {"type": "string"}}})
SERVERS: Final = [
    "groq",
    "openai",
    "mistral",
    "gemini",
    "openrouter",
    "deepseek",
    "custom",
    "anthropic",
    "ollama",
]


def said(*numbers: str, text: str = "") -> Message:
    return Message(
        "assistant",
        text,
        tuple(ToolCall(n, "bash", f'{{"command": "{at}"}}') for at, n in enumerate(numbers)),
    )


def result(number: str | None, text: str = "done") -> Message:
    return Message("tool", text, tool_call_id=number)


USER: Final = Message("user", "go on")
BROKEN: Final[dict[str, tuple[Message, ...]]] = {
    "one id for two calls": (USER, said("x", "x"), result("x", "ONE"), result("x", "TWO"), USER),
    "one id in two replies": (USER, said("x"), result("x", "ONE"), said("x"), result("x", "TWO"), USER),
    "one id in two turns": (USER, said("a"), result("a"), said(text="ok"), USER, said("a"), result("a")),
    "no ids": (USER, said("", ""), result("", "ONE"), result(None, "TWO"), USER),
    "ids of 100 characters": (USER, said("x" * 100, "x" * 99), result("x" * 100), result("x" * 99), USER),
    "ids with other characters": (USER, said("functions.bash:0", "a|b c", "ñ"), result("ñ", "THREE"), USER),
    "a call without a result": (USER, said("a", "b"), result("b", "TWO"), USER),
    "the last call without a result": (USER, said("a")),
    "a result without a call": (USER, result("z"), said("a"), result("a"), result("z"), USER),
    "a result twice": (USER, said("a"), result("a", "ONE"), result("a", "ONE"), USER),
    "a result too late": (USER, said("a"), USER, result("a"), USER),
    "results in another order": (USER, said("a", "b"), result("b", "TWO"), result("a", "ONE"), USER),
    "empty texts": (Message("user", " "), said(), USER, said("a"), result("a", ""), Message("user", "")),
    "a call without a name": (USER, Message("assistant", "", (ToolCall("a", "", "{}"),)), result("a"), USER),
    "no object": (USER, Message("assistant", "", (ToolCall("a", "b c", "[1"),)), result("a"), USER),
}  # fmt: skip


@asynccontextmanager
async def strict(scheme: str) -> AsyncIterator[tuple[GroqServer, Any]]:
    """A server that refuses what its documentation says, and the settings of its model."""
    if scheme == "groq":
        async with serve_groq(Answer("ok")) as fake:
            yield fake, model_settings("groq:m", (), keys={"groq": KEY}, base_urls={"groq": fake.base_url})
    elif scheme == "custom":
        async with serve_groq(Answer("ok"), key=None) as fake:
            yield fake, model_settings("custom:c", (), custom={"c": custom_server(fake.openai_url, "m")})
    elif scheme == "ollama":
        async with serve_ollama(Answer("ok")) as fake:
            yield fake, model_settings("ollama:m", (), base_urls={"ollama": fake.base_url})
    elif scheme == "anthropic":
        async with serve_anthropic(Answer("ok")) as fake:
            keys, urls = {"anthropic": ANTHROPIC_KEY}, {"anthropic": fake.base_url}
            yield fake, model_settings("anthropic:claude-haiku-4-5", (), keys=keys, base_urls=urls)
    else:
        async with serve_provider(scheme, Answer("ok")) as fake:
            keys, urls = {scheme: PROVIDER_KEY}, {scheme: fake.provider_url}
            yield fake, model_settings(f"{scheme}:m", (), keys=keys, base_urls=urls)


@pytest.mark.parametrize("scheme", SERVERS)
async def test_a_strict_server_takes_every_broken_conversation(scheme: str) -> None:
    async with strict(scheme) as (fake, settings):
        models = build_models(settings)
        model = models.steps[0].model  # one attempt, without the chain's retries
        for name, messages in BROKEN.items():
            request = ModelRequest((Message("system", "You are Rumi."), *messages), (BASH,))
            assert (await model.reply(request, lambda _: None)).text == "ok", name
        await models.aclose()
    assert len(fake.requests) == len(BROKEN)


@pytest.mark.parametrize("name", BROKEN)
def test_each_result_stays_with_its_call(name: str) -> None:
    messages = paired(BROKEN[name], USUAL)
    calls = [call.id for message in messages for call in message.tool_calls]
    results = [message.tool_call_id for message in messages if message.role == "tool"]
    assert results == calls
    assert len(set(calls)) == len(calls)
    texts = [message.content for message in messages if message.role == "tool"]
    if "ONE" in texts and "TWO" in texts:
        assert texts.index("ONE") < texts.index("TWO")


def test_a_good_conversation_stays_as_it_is() -> None:
    good = (USER, said("a", "call_b"), result("a"), result("call_b"), said(text="ok"), USER)
    assert paired(good, USUAL) == good


def test_the_same_conversation_gets_the_same_ids_when_it_grows() -> None:
    before = BROKEN["one id in two turns"]
    assert paired((*before, said(text="more")), USUAL)[: len(before)] == paired(before, USUAL)


def test_a_call_without_a_result_says_so() -> None:
    assert paired((USER, said("a")))[-1] == result("a", NO_RESULT)


def test_kimi_keeps_the_form_of_its_ids() -> None:
    assert id_form(None, "moonshotai/Kimi-K2") is KIMI
    assert KIMI.fits("functions.bash:12")
    assert not id_form(None, "gpt-5").fits("functions.bash:12")
    assert id_form(PROVIDERS["mistral"].call_ids, "m").fits("aB3456789")


def test_new_ids_are_new_in_the_whole_conversation() -> None:
    calls = tuple(ToolCall(number, "bash", "{}") for number in ("a", "b", "b", ""))
    numbers = [call.id for call in with_new_ids(calls, (USER, said("a")))]
    assert numbers[1] == "b"
    assert len({*numbers, "a", ""}) == 6


ROLES: Final[list[Role]] = ["user", "assistant", "tool"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(ROLES), st.lists(st.sampled_from(["a", "b", "", "é", "x" * 70]), max_size=3)
        )
    )
)
def test_any_conversation_is_complete_afterwards(parts: list[tuple[Role, list[str]]]) -> None:
    messages = [
        said(*numbers) if role == "assistant" else Message(role, "x", tool_call_id=(numbers or [""])[0])
        for role, numbers in parts
    ]
    whole = paired(messages, USUAL)
    for at, message in enumerate(whole):
        numbers = [call.id for call in message.tool_calls]
        following = whole[at + 1 : at + 1 + len(numbers)]
        assert [one.tool_call_id for one in following] == numbers
        assert all(USUAL.fits(number) for number in numbers)
    assert paired(whole, USUAL) == whole
