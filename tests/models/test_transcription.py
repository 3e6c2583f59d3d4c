"""Voice messages against a real server on loopback. What takes real time here waits for a real socket."""

import logging
import subprocess
import sys
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio

from rumi.errors import ConfigError
from rumi.models.model import ModelError
from rumi.models.transcription import MAX_AUDIO_BYTES, Transcriber, groq_address
from tests.fakes.groq_server import (
    KEY,
    Answer,
    Drop,
    Fail,
    GroqServer,
    Hang,
    Raw,
    Script,
    Transcript,
    serve_groq,
)

RECORDING = b"OggS\0\2\r\n--boundary\r\n\r\n\xff\xfe" + bytes(range(256)) * 20
HOLA = Transcript("hola, ¿qué tal?")


@asynccontextmanager
async def transcriber(
    audio: Script, *, timeout_s: float = 5.0, key: str = KEY
) -> AsyncIterator[tuple[Transcriber, GroqServer]]:
    async with serve_groq(Answer("not asked"), audio=audio) as fake:
        at = replace(groq_address(key, fake.base_url), timeout_s=timeout_s)
        server = Transcriber(at, pauses_s=(0.01, 0.02))
        try:
            yield server, fake
        finally:
            await server.aclose()


async def failure_of(audio: Script, *, timeout_s: float = 5.0, requests: int = 1) -> ModelError:
    async with transcriber(audio, timeout_s=timeout_s) as (server, fake):
        with pytest.raises(ModelError) as caught:
            await server.transcribe("voice.ogg", RECORDING)
        with trio.fail_after(30):
            await server.aclose()
            await fake.wait_idle()
    assert len(fake.requests) == requests
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None
    return caught.value


async def test_a_recording_becomes_words() -> None:
    async with transcriber(HOLA) as (server, fake):
        assert await server.transcribe("voice.ogg", RECORDING) == "hola, ¿qué tal?"
    (request,) = fake.requests
    assert request.path == "/openai/v1/audio/transcriptions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "whisper-large-v3-turbo",
        "file": RECORDING,
        "file_name": "voice.ogg",
        "file_type": "audio/ogg",
        "response_format": "json",
        "temperature": "0.0",
    }


async def test_the_spoken_language_is_told_where_it_is_known() -> None:
    async with transcriber(HOLA) as (server, fake):
        await server.transcribe("voice.ogg", RECORDING, "es")
    assert fake.requests[0].body is not None
    assert fake.requests[0].body["language"] == "es"


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("file_3.oga", "voice.ogg"),  # Telegram's own name for it
        ("nota.M4A", "voice.m4a"),
        ("secret plan\r\nX: y.mp3", "voice.mp3"),
        ("noending", "voice.ogg"),
        ("", "voice.ogg"),
    ],
)
async def test_of_a_name_only_the_ending_leaves_the_house(name: str, sent: str) -> None:
    async with transcriber(HOLA) as (server, fake):
        assert await server.transcribe(name, RECORDING) == HOLA.text
    assert fake.requests[0].body is not None
    assert fake.requests[0].body["file_name"] == sent


async def test_silence_is_no_words_and_no_error() -> None:
    async with transcriber(Transcript(" \n")) as (server, _):
        assert await server.transcribe("voice.ogg", RECORDING) == ""


async def test_the_largest_voice_message_of_telegram_passes_whole() -> None:
    recording = b"OggS" + bytes(20 * 1024 * 1024 - 4)
    async with transcriber(HOLA) as (server, fake):
        assert await server.transcribe("voice.ogg", recording) == HOLA.text
    assert fake.requests[0].body is not None
    assert fake.requests[0].body["file"] == recording


@pytest.mark.parametrize(
    ("recording", "words"),
    [(b"", "refused the recording: it is empty"), (bytes(MAX_AUDIO_BYTES + 1), "too large")],
)
async def test_what_cannot_be_taken_is_not_sent(recording: bytes, words: str) -> None:
    async with transcriber(HOLA) as (server, fake):
        with pytest.raises(ModelError, match=words):
            await server.transcribe("voice.ogg", recording)
    assert fake.requests == []


@pytest.mark.parametrize(
    "trouble",
    [Fail(429, "slow down"), Fail(500), Fail(503, body="<html>"), Drop(), Raw(b'{"te', cut=True)],
)
async def test_trouble_that_passes_is_waited_for(trouble: Script) -> None:
    async with transcriber([trouble, trouble, HOLA]) as (server, fake):  # type: ignore[list-item]
        assert await server.transcribe("voice.ogg", RECORDING) == HOLA.text
    assert len(fake.requests) == 3
    assert all(request.body == fake.requests[0].body for request in fake.requests)


async def test_trouble_that_stays_is_told_after_two_more_attempts() -> None:
    error = await failure_of(Fail(500, "oops"), requests=3)
    assert error.kind == "server"
    assert str(error).startswith("http://127.0.0.1:")
    assert str(error).endswith("failed: oops. Try again later.")


async def test_a_wish_for_patience_is_followed_within_reason() -> None:
    before = time.monotonic()
    async with transcriber([Fail(429, headers={"retry-after": "0.3"}), HOLA]) as (server, _):
        assert await server.transcribe("voice.ogg", RECORDING) == HOLA.text
    assert time.monotonic() - before >= 0.3
    error = await failure_of(Fail(429, "tomorrow", headers={"retry-after": "3600"}))
    assert error.kind == "rate_limited"
    assert error.retry_after_s == 3600


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (Fail(401, f"Invalid API Key {KEY}", "invalid_api_key"), "auth", "refused the key"),
        (Fail(404, "no such model", "model_not_found"), "not_found", "does not know whisper"),
        (Fail(413, "Request Entity Too Large", "request_too_large"), "too_large", "Send a shorter one"),
        (Fail(400, "could not process file"), "refused", "refused the recording: could not process file."),
        (Fail(302, headers={"location": "http://127.0.0.1:1/"}), "refused", "redirects elsewhere (302)"),
    ],
)
async def test_what_does_not_pass_is_told_at_once(answer: Fail, kind: str, words: str) -> None:
    error = await failure_of(answer)
    assert error.kind == kind
    assert words in str(error)


@pytest.mark.parametrize(
    "answer",
    [
        Raw(b"{nonsense", "application/json"),
        Raw(b"[]", "application/json"),
        Raw(b'{"text": 5}', "application/json"),
        Raw(b"{}", "application/json"),
        Raw(b"<html>a login page</html>", "text/html"),
    ],
)
async def test_an_answer_that_is_no_transcript_is_told_as_one(answer: Raw) -> None:
    error = await failure_of(answer, requests=3)
    assert error.kind == "malformed"
    assert "login" not in str(error)


async def test_a_server_that_is_not_there_is_told() -> None:
    server = Transcriber(groq_address(KEY, "http://127.0.0.1:1"), pauses_s=())
    with pytest.raises(ModelError, match=r"cannot connect to http://127\.0\.0\.1:1"):
        await server.transcribe("voice.ogg", RECORDING)
    await server.aclose()


async def test_silence_of_the_server_ends_the_attempt_and_the_connection() -> None:
    error = await failure_of(Hang(), timeout_s=0.7)
    assert error.kind == "timeout"
    assert "did not answer in 0.7 s" in str(error)


async def test_cancelled_it_closes_its_connection_before_it_leaves() -> None:
    async with transcriber(Hang()) as (server, fake):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.transcribe, "voice.ogg", RECORDING)
            with trio.fail_after(30):
                await fake.wait_requests(1)
            nursery.cancel_scope.cancel()
        with trio.fail_after(30):
            await fake.wait_idle()
        assert fake.left == 1


async def test_cancelled_between_attempts_it_leaves_at_once() -> None:
    async with serve_groq(Answer(""), audio=Fail(500)) as fake:
        server = Transcriber(groq_address(KEY, fake.base_url), pauses_s=(15.0,))
        with trio.move_on_after(0.5) as scope:
            await server.transcribe("voice.ogg", RECORDING)
        assert scope.cancelled_caught
        await server.aclose()


async def test_the_key_gets_into_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with transcriber([Fail(500), Drop(), HOLA, Fail(401, KEY)]) as (server, _):
        await server.transcribe("voice.ogg", RECORDING)
        with pytest.raises(ModelError) as caught:
            await server.transcribe("voice.ogg", RECORDING)
    assert KEY not in str(caught.value)
    assert caplog.records
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    ("key", "base_url"),
    [("ñandú", None), ("two words", None), (KEY, "groq.com"), (KEY, f"https://{KEY}@host/")],
)
def test_a_key_or_an_address_that_cannot_work_is_refused_without_showing_it(
    key: str, base_url: str | None
) -> None:
    with pytest.raises(ConfigError, match="GROQ_") as caught:
        Transcriber(groq_address(key, base_url))
    assert key not in str(caught.value)


def test_importing_it_imports_no_sdk() -> None:
    code = (
        "import sys; from rumi.models.transcription import Transcriber, groq_address; "
        "Transcriber(groq_address('key')); "
        "sys.exit('groq' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
