"""Pictures on their way to a server: who gets them, and what stands in their place."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from rumi.models.build import build_models
from rumi.models.fitting import fitted, in_short
from rumi.models.model import PER_PICTURE, Message, ModelRequest, Picture, ToolCall
from rumi.models.settings import model_takes_pictures, models_with_pictures
from rumi.models.token_budget import takes_pictures
from rumi.models.wire import messages_json
from tests.fakes.groq_server import KEY, GroqServer, serve_groq
from tests.fakes.vision import MODEL, sees
from tests.models.made import custom_server, model_settings
from tests.web.readers import files

PNG = files.picture(20, 10)
PICTURE = Picture(".pictures/x.png", "image/png", PNG)
SEEING = f"groq:{MODEL}"


@pytest.fixture
async def server() -> AsyncIterator[GroqServer]:
    async with serve_groq(sees) as server:
        yield server


async def said(server: GroqServer, model: str, *messages: Message) -> str:
    settings = model_settings(model, (), keys={"groq": KEY}, base_urls={"groq": server.base_url})
    models = build_models(settings)
    try:
        return (await models.bind("cli").reply(ModelRequest(messages), lambda event: None)).text
    finally:
        await models.aclose()


async def test_a_model_that_takes_pictures_gets_their_bytes(server: GroqServer) -> None:
    assert await said(server, SEEING, Message("user", "what", pictures=(PICTURE,))) == "I see PNG 20x10."


async def test_pictures_of_results_come_behind_all_results(server: GroqServer) -> None:
    calls = (ToolCall("c1", "read_file", "{}"), ToolCall("c2", "read_file", "{}"))
    results = [Message("tool", "a picture", tool_call_id=f"c{n}", pictures=(PICTURE,)) for n in (1, 2)]
    asked = Message("user", "say it")
    answer = await said(server, SEEING, asked, Message("assistant", "", calls), *results)
    assert answer == "I see PNG 20x10, PNG 20x10."
    roles = [message["role"] for message in messages_json(ModelRequest((asked, *results, asked)))]
    assert roles == ["user", "tool", "tool", "user", "user"]


async def test_others_get_a_note_in_place_of_each(server: GroqServer) -> None:
    answer = await said(server, "groq:openai/gpt-oss-120b", Message("user", "what", pictures=(PICTURE,)))
    assert answer.startswith("I see nothing.")
    assert "[The picture .pictures/x.png is left out: this model takes none.]" in answer


async def test_a_reference_without_bytes_becomes_a_note_too(server: GroqServer) -> None:
    reference = replace(PICTURE, data=b"")
    assert "is left out" in await said(server, SEEING, Message("user", "what", pictures=(reference,)))


def test_which_models_take_pictures() -> None:
    custom = {
        "vision": custom_server("http://127.0.0.1:1/v1", "llava", pictures=True),
        "words": custom_server("http://127.0.0.1:1/v1", "llama"),
    }
    settings = model_settings(custom=custom, keys={"groq": "k"}, default="custom:words", fallbacks=(SEEING,))
    names = ("custom:vision", "custom:words", "custom:none", SEEING, "groq:openai/gpt-oss-20b", "offline")
    assert [model_takes_pictures(name, settings) for name in names] == [True, False, False, True, False, True]
    assert models_with_pictures(settings) == (SEEING, "custom:vision")
    models = build_models(settings)
    assert not takes_pictures(models.bind("cli"))
    assert takes_pictures(models.bind("cli", chosen="custom:vision"))


def test_pictures_are_counted_and_give_way_where_there_is_no_room() -> None:
    seen = Message("tool", "a picture", tool_call_id="c", pictures=(PICTURE,))
    assert seen.tokens == replace(seen, pictures=()).tokens + PER_PICTURE
    assert in_short(seen).pictures == ()
    assert ".pictures/x.png is left out" in in_short(seen).content
    said = Message("user", "what is it", pictures=(PICTURE,))
    (short,) = fitted(ModelRequest((said,)), 200).messages
    assert short.pictures == ()
    assert "what is it" in json.dumps(short.content)
