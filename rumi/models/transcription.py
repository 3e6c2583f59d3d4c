"""Transcription of recordings by a server with OpenAI's API, or by whisper.cpp's server.

A server gets a whole recording in one request. `docs/voice.md` says which servers work, and how to run them.
"""

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

import trio

from rumi.models.media_server import MediaAddress, MediaServer, Purpose, Received, error_in
from rumi.models.model import ModelError
from rumi.platform.config.providers import PROVIDERS
from rumi.platform.redact import Redactor
from rumi.texts import Text

GROQ_MODEL: Final = "whisper-large-v3-turbo"
OTHER_MODEL: Final = "whisper-1"
"""The name of OpenAI's model. Most other servers have one model and ignore the name."""

MAX_AUDIO_BYTES: Final = 25_000_000
"""Maximum size of a recording: the limit of OpenAI, and of Groq for free accounts."""

MAX_ANSWER_BYTES: Final = 2_000_000
MAX_WAIT_S: Final = 20.0
"""Maximum wait before another attempt, in seconds."""

_TYPES: Final = {
    "flac": "audio/flac",
    "m4a": "audio/mp4",
    "mp3": "audio/mpeg",
    "mp4": "audio/mp4",
    "mpeg": "audio/mpeg",
    "mpga": "audio/mpeg",
    "ogg": "audio/ogg",
    "wav": "audio/wav",
    "webm": "audio/webm",
}
_PAUSES_S: Final = (1.0, 4.0)
_GROQ_PATH: Final = "/openai/v1"

_NOTHING_SAID: Final = re.compile(r"(?i)[\[(*]\s*(?:blank[_ ]audio|silence|no speech|inaudible)\s*[\])*]")
"""What whisper.cpp writes if nobody speaks."""

PURPOSE: Final = Purpose(
    endpoint="audio/transcriptions",
    other_paths=("inference",),
    too_large=Text("the recording is too large for {model}"),
    too_large_advice=Text("Send a shorter one."),
    malformed=Text("{host} does not answer as a transcription does"),
    refused=Text("{host} refused the recording"),
    lost=Text(
        "Check {setting}: it ends with /v1, or with /inference for whisper.cpp's server without "
        "--inference-path."
    ),
    format=Text(
        "Start whisper.cpp's server with --convert, which needs ffmpeg there; other servers must read OGG "
        "with Opus."
    ),
)


def groq_address(key: str, base_url: str | None = None, *, model: str = GROQ_MODEL) -> MediaAddress:
    """Return the address of Groq; `base_url` is the root of its API, None for the official URL."""
    row = PROVIDERS["groq"]
    root = (base_url or row.url).rstrip("/").removesuffix(_GROQ_PATH)
    return MediaAddress(f"{root}{_GROQ_PATH}", model, key.strip(), row.base_url_variable, row.key_variable)


class Transcriber:
    """A client that transcribes recordings. The creator must call `aclose`.

    `language` is the language that people speak, empty if the server is to detect it. `redact` hides secrets
    in the server's texts. Temporary failures are retried twice, after `pauses_s` or the server's
    `retry-after` if that is at most `MAX_WAIT_S`.

    Raises:
        ConfigError: The key or the URL is invalid.
    """

    def __init__(
        self,
        at: MediaAddress,
        *,
        language: str = "",
        redact: Redactor | None = None,
        pauses_s: tuple[float, ...] = _PAUSES_S,
    ) -> None:
        self._server = MediaServer(at, PURPOSE, redact)
        self._language = language
        self._pauses_s = pauses_s

    async def transcribe(self, name: str, audio: bytes, language: str | None = None) -> str:
        """Return the text of a recording; empty if nobody speaks in the recording.

        Only the extension of the file `name` is used. Without a `language`, the configured one counts, or the
        server detects the language. On cancellation, closes the connection.

        Raises:
            ModelError: The recording could not be transcribed. The error never contains the key.
        """
        outcome: str | ModelError
        if not audio:
            outcome = self._server.refused(Text("it is empty"))
        elif len(audio) > MAX_AUDIO_BYTES:
            outcome = self._server.too_large()
        else:
            outcome = await self._patiently(name, audio, language or self._language)
        if isinstance(outcome, ModelError):
            # Raised outside of any `except`: the HTTP errors hold requests, and requests hold keys.
            raise outcome
        return outcome

    async def aclose(self) -> None:
        """Close the idle connections, even if the caller is cancelled, within a time limit."""
        await self._server.aclose()

    async def _patiently(self, name: str, audio: bytes, language: str) -> str | ModelError:
        """Make up to three attempts; return the text, or the error of the last attempt."""
        for pause_s in self._pauses_s:
            outcome = await self._attempt(name, audio, language)
            if isinstance(outcome, str) or not outcome.retriable:
                return outcome
            wait_s = pause_s if outcome.retry_after_s is None else outcome.retry_after_s
            if wait_s > MAX_WAIT_S:
                return outcome
            await trio.sleep(wait_s)
        return await self._attempt(name, audio, language)

    async def _attempt(self, name: str, audio: bytes, language: str) -> str | ModelError:
        """Make one attempt; return the text or the error."""
        fields = {"model": self._server.at.model, "response_format": "json", "temperature": "0.0"}
        if language:
            fields["language"] = language
        received = await self._server.post(
            MAX_ANSWER_BYTES,
            data={name: text for name, text in fields.items() if text},
            files={"file": _as_file(name, audio)},
        )
        return received if isinstance(received, ModelError) else self._text(received)

    def _text(self, received: Received) -> str | ModelError:
        """Return the text of an answer, whose format may be another one than the requested JSON."""
        if not received.is_json:
            if received.is_web_page:
                return self._server.malformed(Text("it sent a web page"))
            plain = received.media_type.startswith("text/")
            return self._said(received.content.decode("utf-8-sig", "replace")) if plain else self._malformed()
        try:
            answer = received.json()
        except ValueError:
            return self._malformed()
        text = _text_in(answer)
        if text is not None:
            return self._said(text)
        reported = error_in(answer)
        return self._malformed() if reported is None else self._server.reported(reported)

    def _said(self, text: str) -> str:
        """Return the text on one line: whisper.cpp puts each segment on a line of its own."""
        words = " ".join(_NOTHING_SAID.sub(" ", text).split())
        return self._server.redact.known(words)

    def _malformed(self) -> ModelError:
        return self._server.malformed()


def _text_in(answer: object) -> str | None:
    """Return the text in an answer: its `text`, or that of its segments; None if it has none."""
    if isinstance(answer, str):
        return answer
    if isinstance(answer, Mapping):
        text = answer.get("text")
        if isinstance(text, str) and text.strip():
            return text
        segments = answer.get("segments")
        joined = _joined(segments) if isinstance(segments, list) else None
        return joined or (text if isinstance(text, str) else joined)
    return _joined(answer) if isinstance(answer, list) and answer else None


def _joined(segments: list[object]) -> str | None:
    """Return the text of segments; None if one of them has no text."""
    parts = [segment.get("text") if isinstance(segment, Mapping) else None for segment in segments]
    return " ".join(map(str, parts)) if all(isinstance(part, str) for part in parts) else None


def _as_file(name: str, audio: bytes) -> tuple[str, bytes, str]:
    """Return the file for the upload form: a neutral name with the right extension, bytes, media type.

    The server derives the format from the extension. Telegram uses `.oga`, which Groq does not know. The
    user's file name is not sent, because the server does not need the name.
    """
    ending = PurePath(name).suffix.removeprefix(".").lower()
    ending = ending if ending in _TYPES else "ogg"
    return f"voice.{ending}", audio, _TYPES[ending]
