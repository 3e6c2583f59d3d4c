"""Speech from servers of the user's own: OpenAI's API, and Piper's servers, on loopback."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
import trio

from rumi.models.media_server import MediaAddress
from rumi.models.model import ModelError
from rumi.models.speech import Speaker, format_of
from tests.fakes.media_servers import (
    M4A,
    MP3,
    NOT_FOUND,
    OPUS,
    PAGE,
    WAV,
    MediaAnswer,
    MediaFake,
    OpenAiSpeech,
    Piper,
    as_json,
    serving_media,
)


@asynccontextmanager
async def speaking(fake: MediaFake, path: str = "/v1", **more: Any) -> AsyncIterator[Speaker]:
    async with serving_media(fake):
        key, timeout_s = more.pop("key", ""), more.pop("timeout_s", 5.0)
        setting = "voice.speech_server"
        at = MediaAddress(f"{fake.root}{path}", "tts-1", key, setting, timeout_s=timeout_s)
        speaker = Speaker(at, **more)
        try:
            yield speaker
        finally:
            await speaker.aclose()


async def refusal(fake: MediaFake, path: str = "/v1", **more: Any) -> ModelError:
    async with speaking(fake, path, **more) as speaker:
        with pytest.raises(ModelError) as caught:
            await speaker.speak("hello")
    return caught.value


async def test_a_text_becomes_a_voice_message() -> None:
    fake = OpenAiSpeech(key="sk-key")
    async with speaking(fake, key="sk-key", voice="af_heart") as speaker:
        speech = await speaker.speak("hello")
    assert (speech.content, speech.format) == (OPUS, "ogg")
    (request,) = fake.requests
    assert request.json == {
        "model": "tts-1",
        "input": "hello",
        "voice": "af_heart",
        "response_format": "opus",
    }


@pytest.mark.parametrize(
    ("formats", "asked", "format"),
    [(("mp3", "wav"), ["opus", "mp3", "mp3"], "mp3"), (("wav",), ["opus", "mp3", "wav", "wav"], "wav")],
)
async def test_a_server_without_opus_is_asked_for_what_it_has(
    formats: tuple[str, ...], asked: list[str], format: str
) -> None:
    fake = OpenAiSpeech(*formats)
    async with speaking(fake) as speaker:
        assert (await speaker.speak("one")).format == format
        assert (await speaker.speak("two")).format == format
    assert [request.json["response_format"] for request in fake.requests] == asked


async def test_a_server_that_ignores_the_format_is_heard_all_the_same() -> None:
    for content, format in ((MP3, "mp3"), (b"\xff\xfb\x90" + bytes(99), "mp3"), (M4A, "m4a"), (WAV, "wav")):
        answer = MediaAnswer(content, "audio/ogg")
        async with speaking(MediaFake(lambda request, answer=answer: answer)) as speaker:  # type: ignore[misc]
            assert (await speaker.speak("hello")).format == format


@pytest.mark.parametrize("version", ["1.2", "1.3", "1.4"])
async def test_each_version_of_piper_speaks(version: Literal["1.2", "1.3", "1.4"]) -> None:
    fake = Piper(version)
    async with speaking(fake, "", api="piper") as speaker:
        assert (await speaker.speak("buenos días")).format == "wav"
        before = len(fake.requests)
        assert (await speaker.speak("two")).content == WAV
        assert len(fake.requests) == before + 1  # what it knows is remembered
    assert fake.spoken == ["buenos días", "two"]


async def test_piper_is_asked_for_a_voice() -> None:
    fake = Piper("1.4")
    async with speaking(fake, "/synthesize", api="piper", voice="es_ES-davefx-medium") as speaker:
        await speaker.speak("hola")
    assert fake.requests[0].json == {"text": "hola", "voice": "es_ES-davefx-medium"}


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (
            as_json({"detail": [{"msg": "Voice 'alloy' not found"}]}, 422),
            "refused",
            "Voice 'alloy' not found",
        ),
        (as_json({"error": "no voice"}), "refused", "refused to speak: no voice"),
        (NOT_FOUND, "not_found", 'set voice.speech_api = "piper"'),
        (MediaAnswer(PAGE, "text/html"), "malformed", "it sent a web page"),
        (MediaAnswer(b"RIFF\0\0\0\0WAVE" + bytes(32), "audio/wav"), "malformed", "it is empty"),
        (MediaAnswer(b"OggS" + bytes(99), "audio/ogg"), "malformed", "no known sound format"),
        (MediaAnswer(b"", "audio/mpeg"), "malformed", "Check voice.speech_server"),
        (MediaAnswer(bytes(21_000_000), "audio/mpeg"), "malformed", "it sent more than"),
        (as_json({"error": "slow down"}, 429), "rate_limited", "rate limit"),
        (MediaAnswer(status=413), "too_large", "Set a smaller voice.speech_chars"),
    ],
    ids=range(10),
)
async def test_an_odd_answer_is_told_with_what_to_do(answer: MediaAnswer, kind: str, words: str) -> None:
    error = await refusal(MediaFake(lambda request: answer))
    assert error.kind == kind
    assert words in str(error)


async def test_a_piper_that_is_no_piper_is_told() -> None:
    error = await refusal(MediaFake(lambda request: NOT_FOUND), "", api="piper")
    assert "Check voice.speech_server: it is the address of Piper's server" in str(error)


async def test_a_stop_closes_the_connection() -> None:
    fake = MediaFake(lambda request: MediaAnswer(wait_s=60))
    async with speaking(fake) as speaker:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(speaker.speak, "hello")
            with trio.fail_after(10):
                await fake.wait_requests(1)
            nursery.cancel_scope.cancel()
        with trio.fail_after(10):
            await fake.wait_idle()


def test_only_ogg_with_opus_counts_as_ogg() -> None:
    assert format_of(OPUS) == "ogg"
    assert format_of(b"OggS\0\2" + bytes(22) + b"\1vorbis" + bytes(20)) is None
    assert format_of(b"\xff\xd8\xff\xe0 a picture") is None
    assert format_of(b"") is None
