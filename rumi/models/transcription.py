"""Transcription of voice messages by Groq, which accepts a whole recording in one request."""

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

import trio

from rumi.models.failures import Failures, sentence, shown_url
from rumi.models.model import FailureKind, ModelError
from rumi.models.registry import provider_server
from rumi.platform.redact import Redactor
from rumi.texts import Language, Text

if TYPE_CHECKING:
    from groq import AsyncGroq

TRANSCRIPTION_MODEL: Final = "whisper-large-v3-turbo"
MAX_AUDIO_BYTES: Final = 25_000_000
"""Maximum size of a recording: Groq's limit for free accounts."""

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

_SENTENCES: Final[dict[FailureKind, tuple[Text, Text]]] = {
    "auth": (Text("{host} refused the key for {model}"), Text("Check GROQ_API_KEY.")),
    "not_found": (Text("{host} does not know {model}"), Text("Check GROQ_BASE_URL.")),
    "rate_limited": (Text("{model} has reached its rate limit"), Text("Try again later.")),
    "too_large": (Text("the recording is too large for {model}"), Text("Send a shorter one.")),
    "timeout": (Text("{model} did not answer in {timeout_s} s"), Text("Try again.")),
    "server": (Text("{host} failed"), Text("Try again later.")),
    "malformed": (Text("{host} does not answer as a transcription does"), Text("Check GROQ_BASE_URL.")),
    "refused": (Text("{host} refused the recording"), Text("")),
}


class Transcriber:
    """A client that transcribes recordings. The creator must call `aclose`.

    `base_url` is the root of Groq's API, None for the official URL; `timeout_s` is the maximum duration of
    one attempt; `redact` hides secrets in the server's texts. Temporary failures are retried twice, after
    `pauses_s` or the server's `retry-after` if that is at most `MAX_WAIT_S`.

    Raises:
        ConfigError: The key or the URL is invalid.
    """

    def __init__(
        self,
        api_key: str,
        base_url: str | None = None,
        *,
        timeout_s: float = 60.0,
        redact: Redactor | None = None,
        pauses_s: tuple[float, ...] = _PAUSES_S,
    ) -> None:
        self._server = provider_server("groq", api_key.strip(), base_url, redact)
        self._timeout_s = timeout_s
        self._pauses_s = pauses_s
        self._failures = Failures(
            model=TRANSCRIPTION_MODEL,
            url=self._server.base_url,
            key=self._server.api_key,
            key_name=self._server.key_name,
            timeout_s=timeout_s,
            redact=self._server.redact,
        )

    async def transcribe(self, name: str, audio: bytes, language: Language | None = None) -> str:
        """Return the text of a recording; empty if nobody speaks in the recording.

        Only the extension of the file `name` is used. Without a `language`, the server detects the language.
        On cancellation, closes the connection.

        Raises:
            ModelError: The recording could not be transcribed. The error never contains the key.
        """
        failure = self._unfit(audio)
        if failure is None:
            outcome = await self._patiently(name, audio, language)
            if isinstance(outcome, str):
                return outcome
            failure = outcome
        # Raised outside of any `except`: the HTTP errors hold requests, and requests hold keys.
        raise self._in_words(failure)

    async def aclose(self) -> None:
        """Close the idle connections, even if the caller is cancelled, within a time limit."""
        await self._server.aclose()

    def _unfit(self, audio: bytes) -> ModelError | None:
        if not audio:
            return self._error("refused", "it is empty")
        return self._error("too_large") if len(audio) > MAX_AUDIO_BYTES else None

    async def _patiently(self, name: str, audio: bytes, language: Language | None) -> str | ModelError:
        """Make up to three attempts; return the text, or the error of the last attempt."""
        client = await self._server.client()
        for pause_s in self._pauses_s:
            outcome = await self._attempt(client, name, audio, language)
            if isinstance(outcome, str) or not outcome.retriable:
                return outcome
            wait_s = pause_s if outcome.retry_after_s is None else outcome.retry_after_s
            if wait_s > MAX_WAIT_S:
                return outcome
            await trio.sleep(wait_s)
        return await self._attempt(client, name, audio, language)

    async def _attempt(
        self, client: "AsyncGroq", name: str, audio: bytes, language: Language | None
    ) -> str | ModelError:
        """Make one attempt; return the text or the error.

        An error is returned, not raised: the caller raises it outside of the `except` blocks of
        exceptions that contain keys.
        """
        import groq

        with trio.move_on_after(self._timeout_s):
            try:
                answer = await client.audio.transcriptions.create(
                    model=TRANSCRIPTION_MODEL,
                    file=_as_file(name, audio),
                    response_format="json",
                    temperature=0.0,
                    language=groq.omit if language is None else language,
                )
            except groq.APIStatusError as error:
                return self._failures.from_status(error.status_code, error.body, error.response.headers)
            except groq.APIConnectionError as error:
                return self._failures.no_answer(error.__cause__ or error)
            except ValueError:  # the body is not JSON, although the header says so
                return self._error("malformed")
            # The SDK validates nothing: a body that is not JSON arrives as a str, and an object may lack the
            # field.
            text = getattr(answer, "text", None)
            known = self._server.redact.known
            return known(text.strip()) if isinstance(text, str) else self._error("malformed")
        return self._error("timeout")

    def _error(self, kind: FailureKind, detail: str = "") -> ModelError:
        return ModelError(kind, kind, detail=detail, model=TRANSCRIPTION_MODEL)

    def _in_words(self, error: ModelError) -> ModelError:
        """Return the error with its message changed: it mentions the recording instead of a reply."""
        if error.kind not in _SENTENCES:
            return error
        text, advice = _SENTENCES[error.kind]
        text = Text(
            text.key,
            host=shown_url(self._server.base_url),
            model=TRANSCRIPTION_MODEL,
            timeout_s=f"{self._timeout_s:g}",
        )
        return ModelError(
            error.kind,
            sentence(text, error.detail),
            advice,
            retry_after_s=error.retry_after_s,
            detail=error.detail,
            model=TRANSCRIPTION_MODEL,
        )


def _as_file(name: str, audio: bytes) -> tuple[str, bytes, str]:
    """Return the file for the upload form: a neutral name with the right extension, bytes, media type.

    The server derives the format from the extension. Telegram uses `.oga`, which Groq does not know. The
    user's file name is not sent, because Groq does not need the name.
    """
    ending = PurePath(name).suffix.removeprefix(".").lower()
    ending = ending if ending in _TYPES else "ogg"
    return f"voice.{ending}", audio, _TYPES[ending]
