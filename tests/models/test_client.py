"""Kept connections that a server closes: over real sockets, as llama.cpp's server does it."""

from typing import Literal

import pytest

from rumi.models.chat_completions import ChatCompletions
from rumi.models.model import Message, ModelError, ModelRequest
from rumi.models.server import ModelServer
from rumi.models.transcription import Transcriber, groq_address
from tests.fakes.groq_server import KEY, Answer, Drop, GroqServer, Raw, Script, serve_groq

HELLO = ModelRequest((Message("user", "hola"),))


async def ask(fake: GroqServer, times: int) -> list[str]:
    """One request behind the other with the same client; what each came to."""
    server = ModelServer("groq", fake.base_url, KEY, dialect="groq")
    model = ChatCompletions(server, "m", name="groq:m", timeout_s=5)
    outcomes = []
    for _ in range(times):
        try:
            outcomes.append((await model.reply(HELLO, lambda _: None)).text)
        except ModelError as error:
            outcomes.append(error.kind)
    await server.aclose()
    return outcomes


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_request_that_met_the_close_of_a_kept_connection_is_sent_again(
    how: Literal["close", "reset"],
) -> None:
    async with serve_groq(Answer("hola"), cuts_kept=how) as fake:
        assert await ask(fake, 5) == ["hola"] * 5
        assert fake.connections == 5


async def test_a_new_connection_that_is_cut_is_left_to_the_chains_retries() -> None:
    async with serve_groq(Drop()) as fake:
        assert await ask(fake, 1) == ["unreachable"]
        assert len(fake.requests) == 1


async def test_it_is_sent_again_only_once() -> None:
    script: Script = [Answer("hola"), Drop(), Answer("later")]
    async with serve_groq(script, cuts_kept="close") as fake:
        assert await ask(fake, 2) == ["hola", "unreachable"]


async def test_a_kept_connection_that_is_cut_in_the_answer_is_not_asked_again() -> None:
    async with serve_groq([Answer("hola"), Answer("half", cut_after=2), Answer("no")]) as fake:
        assert await ask(fake, 2) == ["hola", "unreachable"]
        assert (fake.connections, len(fake.requests)) == (1, 2)


async def test_an_answer_without_a_body_yet_counts_as_begun() -> None:
    async with serve_groq([Answer("hola"), Raw(b"", cut=True), Answer("no")]) as fake:
        assert await ask(fake, 2) == ["hola", "unreachable"]
        assert len(fake.requests) == 2


async def test_a_recording_is_sent_again_too() -> None:
    async with serve_groq(Answer("hola"), cuts_kept="reset") as fake:
        transcriber = Transcriber(groq_address(KEY, fake.base_url), pauses_s=())
        words = [await transcriber.transcribe("voice.oga", b"OggS" * 50_000) for _ in range(3)]
        await transcriber.aclose()
        assert words == ["hola"] * 3
        assert [len((request.body or {})["file"]) for request in fake.requests] == [200_000] * 3
