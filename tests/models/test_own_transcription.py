"""Voice messages against servers of the user's own: whisper.cpp's, and odd ones, on loopback."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio

from rumi.errors import ConfigError
from rumi.models.media_server import MediaAddress, full_address
from rumi.models.model import ModelError
from rumi.models.transcription import PURPOSE, Transcriber
from tests.fakes.media_servers import (
    NOT_FOUND,
    OPUS,
    PAGE,
    WAV,
    MediaAnswer,
    MediaFake,
    WhisperCpp,
    as_json,
    serving_media,
)


@asynccontextmanager
async def hearing(fake: MediaFake, path: str = "/v1", **more: Any) -> AsyncIterator[Transcriber]:
    async with serving_media(fake):
        at = MediaAddress(f"{fake.root}{path}", "whisper-1", timeout_s=more.pop("timeout_s", 5.0))
        at = replace(at, key=more.pop("key", ""))
        transcriber = Transcriber(at, pauses_s=(), **more)
        try:
            yield transcriber
        finally:
            await transcriber.aclose()


async def said_by(answer: MediaAnswer) -> str:
    async with hearing(MediaFake(lambda request: answer)) as transcriber:
        return await transcriber.transcribe("voice.ogg", OPUS)


async def refusal(fake: MediaFake, path: str = "/v1", **more: Any) -> ModelError:
    async with hearing(fake, path, **more) as transcriber:
        with pytest.raises(ModelError) as caught:
            await transcriber.transcribe("voice.ogg", OPUS)
    return caught.value


@pytest.mark.parametrize(
    ("address", "full"),
    [
        ("http://h:8080", "http://h:8080/v1/audio/transcriptions"),
        ("http://h:8080/", "http://h:8080/v1/audio/transcriptions"),
        ("http://h:8000/v1", "http://h:8000/v1/audio/transcriptions"),
        ("https://h/openai/v1/", "https://h/openai/v1/audio/transcriptions"),
        ("http://h/v1/audio/transcriptions", "http://h/v1/audio/transcriptions"),
        ("http://[::1]:8080/inference", "http://[::1]:8080/inference"),
        ("http://h:8080/whisper/inference/", "http://h:8080/whisper/inference"),
    ],
)
def test_an_address_may_end_at_the_server_the_api_or_the_path(address: str, full: str) -> None:
    assert full_address(address, PURPOSE) == full


@pytest.mark.parametrize(
    ("path", "start"),
    [("/inference", {}), ("/v1", {"path": "/v1/audio/transcriptions"}), ("/inference", {"convert": True})],
)
async def test_whisper_cpp_hears_a_voice_message(path: str, start: dict[str, Any]) -> None:
    fake = WhisperCpp(" Buy milk,", " and bread.", **start)
    async with hearing(fake, path, language="en") as transcriber:
        assert await transcriber.transcribe("file_3.oga", OPUS) == "Buy milk, and bread."
    (request,) = fake.requests
    assert request.form["file"] == OPUS
    assert (request.form["file_name"], request.form["language"]) == ("voice.ogg", "en")
    assert "authorization" not in request.headers


@pytest.mark.parametrize("silence", [" [BLANK_AUDIO]", "[ Silence ]", " (silence)", "", " \n "])
async def test_what_whisper_cpp_writes_for_silence_is_no_words(silence: str) -> None:
    async with hearing(WhisperCpp(silence), "/inference") as transcriber:
        assert await transcriber.transcribe("voice.ogg", OPUS) == ""


async def test_the_path_that_whisper_cpp_has_is_named_where_the_address_has_another() -> None:
    error = await refusal(WhisperCpp())
    assert error.kind == "not_found"
    assert "has nothing at /v1/audio/transcriptions (404)" in str(error)
    assert "Check voice.server" in str(error)
    assert "/inference" in str(error)


async def test_a_whisper_cpp_that_cannot_read_opus_is_told_with_the_fix() -> None:
    error = await refusal(WhisperCpp(convert=False), "/inference")
    assert "refused the recording: failed to read audio data. Start whisper.cpp" in str(error)
    assert "--convert" in str(error)
    failed = MediaFake(lambda request: as_json({"error": "FFmpeg conversion failed."}, 500))
    assert "--convert" in str(await refusal(failed, "/inference"))
    async with hearing(WhisperCpp(" Yes.", convert=False), "/inference") as transcriber:
        assert await transcriber.transcribe("note.wav", WAV) == "Yes."


@pytest.mark.parametrize(
    "answer",
    [
        as_json({"text": "buy milk"}),
        as_json({"text": "buy milk", "error": None}),
        as_json({"text": "", "segments": [{"text": " buy"}, {"text": " milk"}]}),
        as_json({"segments": [{"id": 0, "text": "buy"}, {"id": 1, "text": "milk"}]}),
        as_json([{"text": "buy"}, {"text": "milk"}]),
        as_json("buy milk"),
        MediaAnswer(b"buy milk\n", "text/plain; charset=utf-8"),
        MediaAnswer(b"\xef\xbb\xbf buy\nmilk\n", "text/html; charset=utf-8"),
        MediaAnswer(json.dumps({"text": "buy milk"}).encode(), "text/html"),
        MediaAnswer(json.dumps({"text": "buy milk"}).encode(), ""),
    ],
    ids=range(10),
)
async def test_words_are_found_in_whatever_form_they_come(answer: MediaAnswer) -> None:
    assert await said_by(answer) == "buy milk"


@pytest.mark.parametrize(
    "answer", [as_json({"text": ""}), as_json({"segments": []}), MediaAnswer(b"", "text/plain")]
)
async def test_an_empty_text_is_no_words_and_no_error(answer: MediaAnswer) -> None:
    assert await said_by(answer) == ""


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (as_json({"error": "model is loading"}), "refused", "refused the recording: model is loading"),
        (as_json({"error": {"message": "no such file"}}), "refused", "no such file"),
        (as_json({"detail": [{"loc": ["file"], "msg": "field required"}]}, 422), "refused", "field required"),
        (as_json({"detail": "Unsupported media type: audio/ogg"}, 415), "refused", "must read OGG with Opus"),
        (as_json({"error": {"message": "Invalid file format."}}, 400), "refused", "must read OGG with Opus"),
        (as_json({"error": {"message": "The model `w` does not exist"}}, 404), "not_found", "does not know"),
        (MediaAnswer(PAGE, "text/html", 404), "not_found", "has nothing at /v1/audio/transcriptions (404)"),
        (NOT_FOUND, "not_found", "Check voice.server"),
        (MediaAnswer(b"", status=405), "not_found", "(405)"),
        (MediaAnswer(b"<html>413</html>", status=413), "too_large", "Send a shorter one"),
        (as_json({"error": "bad key"}, 401), "auth", "Check voice.api_key"),
        (as_json({"error": "slow down"}, 429), "rate_limited", "rate limit: slow down"),
        (MediaAnswer(PAGE, "text/html", 502), "server", "failed. Try again later"),
        (MediaAnswer(status=307, headers=(("location", "http://127.0.0.1:1/"),)), "refused", "set the final"),
        (MediaAnswer(PAGE, "text/html"), "malformed", "it sent a web page"),
        (MediaAnswer(b'{"te', "application/json"), "malformed", "Check voice.server"),
        (
            MediaAnswer(b"\x1f\x8b\0", "application/json", 200, (("content-encoding", "gzip"),)),
            "malformed",
            "",
        ),
        (MediaAnswer(b"\0\1\2\3", "application/octet-stream"), "malformed", "as a transcription does"),
        (MediaAnswer(b"x" * 2_000_001, "text/plain"), "malformed", "it sent more than 2000 KB"),
        (MediaAnswer(b"[" * 100_000), "malformed", "as a transcription does"),
        (MediaAnswer(b'{"text": "half', cut=True), "unreachable", "the connection was cut"),
    ],
    ids=range(21),
)
async def test_an_odd_answer_is_told_with_what_to_do(answer: MediaAnswer, kind: str, words: str) -> None:
    error = await refusal(MediaFake(lambda request: answer))
    assert error.kind == kind
    assert words in str(error)
    assert "<" not in str(error)


async def test_a_huge_answer_is_left_before_its_end() -> None:
    fake = MediaFake(lambda request: MediaAnswer(b"x" * 100_000_000, "text/plain"))
    async with hearing(fake) as transcriber:
        with pytest.raises(ModelError, match="more than 2000 KB"):
            await transcriber.transcribe("voice.ogg", OPUS)
        with trio.fail_after(10):
            await fake.wait_idle()
        assert fake.left == 1


async def test_a_server_that_does_not_run_is_told_with_its_setting() -> None:
    transcriber = Transcriber(MediaAddress("http://127.0.0.1:1/v1"), pauses_s=())
    with pytest.raises(ModelError, match=r"Is the server running\? Check voice\.server") as caught:
        await transcriber.transcribe("voice.ogg", OPUS)
    assert caught.value.kind == "unreachable"
    await transcriber.aclose()


async def test_a_slow_server_has_its_time_and_then_the_setting_is_named() -> None:
    error = await refusal(MediaFake(lambda request: MediaAnswer(wait_s=30)), timeout_s=0.3)
    assert "did not answer in 0.3 s. Try again, or set a longer voice.timeout_s." in str(error)


async def test_a_stop_closes_the_connection_to_a_slow_server() -> None:
    fake = MediaFake(lambda request: MediaAnswer(wait_s=60))
    async with hearing(fake) as transcriber:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transcriber.transcribe, "voice.ogg", OPUS)
            with trio.fail_after(10):
                await fake.wait_requests(1)
            nursery.cancel_scope.cancel()
        with trio.fail_after(10):
            await fake.wait_idle()
        assert fake.left == 1


async def test_a_key_is_sent_and_never_shown() -> None:
    fake = MediaFake(lambda request: as_json({"error": "bad key sk-secret-123456"}, 401))
    error = await refusal(fake, key="sk-secret-123456")
    assert fake.requests[0].headers["authorization"] == "Bearer sk-secret-123456"
    assert "sk-secret-123456" not in f"{error!r} {error}"
    assert error.__context__ is None


async def test_a_key_that_is_not_set_is_an_error_of_each_recording() -> None:
    fault = ConfigError("voice.api_key refers to $MY_KEY, which is not set.", "Set it.")
    transcriber = Transcriber(MediaAddress("http://127.0.0.1:1/v1", fault=fault))
    with pytest.raises(ModelError, match=r"MY_KEY, which is not set\. Set it\."):
        await transcriber.transcribe("voice.ogg", OPUS)
