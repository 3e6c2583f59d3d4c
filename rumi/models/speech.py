"""Speech from text, by a server with OpenAI's speech API or by Piper's own server.

The format of an answer is read from its bytes: Piper's server says `text/html` of a WAV file, and some
servers ignore the requested format.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from rumi.models.media_server import MediaAddress, MediaServer, Purpose, Received, error_in
from rumi.models.model import ModelError
from rumi.platform.redact import Redactor
from rumi.texts import Text

SpeechApi: TypeAlias = Literal["openai", "piper"]
SpeechFormat: TypeAlias = Literal["ogg", "mp3", "m4a", "wav", "flac"]

DEFAULT_VOICE: Final = "alloy"
"""A voice of OpenAI, whose name most other servers know too."""

MAX_SPEECH_BYTES: Final = 20 * 1024 * 1024
_WAV_HEADER: Final = 44

_FORMATS: Final = ("opus", "mp3", "wav")
"""The formats to ask for; the first is best for a voice message, the last needs no encoder."""

PURPOSE: Final = Purpose(
    endpoint="audio/speech",
    too_large=Text("the answer is too long for {model}"),
    too_large_advice=Text("Set a smaller voice.speech_chars."),
    malformed=Text("{host} does not answer with speech"),
    refused=Text("{host} refused to speak"),
    lost=Text('Check {setting}: it ends with /v1. For Piper\'s own server, set voice.speech_api = "piper".'),
)
PIPER: Final = Purpose(
    endpoint="",
    too_large=PURPOSE.too_large,
    too_large_advice=PURPOSE.too_large_advice,
    malformed=PURPOSE.malformed,
    refused=PURPOSE.refused,
    lost=Text("Check {setting}: it is the address of Piper's server, such as http://127.0.0.1:5000"),
)

Body: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Speech:
    """A spoken text: the bytes of a sound file, and its format."""

    content: bytes
    format: SpeechFormat


class Speaks(Protocol):
    """Speaks texts; implemented by `Speaker`."""

    async def speak(self, text: str) -> Speech:
        """Return the spoken text. Raises a `RumiError`."""
        ...


class Speaker:
    """A client that has texts spoken. The creator must call `aclose`.

    `voice` is the name of a voice of the server, empty for a default. `redact` hides secrets in the server's
    texts. Nothing is tried twice, except that another format or another form of request is tried where the
    server does not know the first one; the client remembers which one the server knows.

    Raises:
        ConfigError: The key or the URL is invalid.
    """

    def __init__(
        self, at: MediaAddress, *, api: SpeechApi = "openai", voice: str = "", redact: Redactor | None = None
    ) -> None:
        self._api: SpeechApi = api
        self._voice = voice
        self._server = MediaServer(at, PURPOSE if api == "openai" else PIPER, redact)
        self._first = 0  # index of the first format, or form of request, that the server may know

    async def speak(self, text: str) -> Speech:
        """Return the spoken text. On cancellation, closes the connection.

        Raises:
            ModelError: The server does not speak it. The error never contains the key.
        """
        outcome = await (self._openai(text) if self._api == "openai" else self._piper(text))
        if isinstance(outcome, ModelError):
            # Raised outside of any `except`: the HTTP errors hold requests, and requests hold keys.
            raise outcome
        return outcome

    async def aclose(self) -> None:
        """Close the idle connections, even if the caller is cancelled, within a time limit."""
        await self._server.aclose()

    async def _openai(self, text: str) -> Speech | ModelError:
        body: dict[str, object] = {"model": self._server.at.model, "input": text}
        body["voice"] = self._voice or DEFAULT_VOICE
        first = outcome = await self._asked({**body, "response_format": _FORMATS[self._first]})
        for index in range(self._first + 1, len(_FORMATS)):
            if not _refused(outcome):
                break
            outcome = await self._asked({**body, "response_format": _FORMATS[index]})
            if isinstance(outcome, Speech):
                self._first = index
        # If no format helps, the format was not the reason: the first refusal says what it was.
        return first if _refused(outcome) else outcome

    async def _piper(self, text: str) -> Speech | ModelError:
        """Try the forms of request of Piper's servers: version 1.4, 1.2 (plain text), and 1.3."""
        body = {"text": text} | ({"voice": self._voice} if self._voice else {})
        root, plain = self._server.url, text.encode()
        forms: tuple[tuple[str, dict[str, object]], ...] = (
            (_below(root, "synthesize"), {"json": body}),
            (root, {"content": plain}),
            (root, {"json": body}),
        )
        outcome: Speech | ModelError | None = None
        for index in range(self._first, len(forms)):
            url, request = forms[index]
            outcome = self._speech(await self._server.post(MAX_SPEECH_BYTES, url, **request))
            if isinstance(outcome, Speech):
                self._first = index
                return outcome
            if outcome.kind in ("unreachable", "timeout", "auth", "rate_limited"):
                break
        assert outcome is not None
        return outcome

    async def _asked(self, body: Body) -> Speech | ModelError:
        return self._speech(await self._server.post(MAX_SPEECH_BYTES, json=body))

    def _speech(self, received: Received | ModelError) -> Speech | ModelError:
        if isinstance(received, ModelError):
            return received
        format = format_of(received.content)
        if format is not None:
            empty = format == "wav" and len(received.content) <= _WAV_HEADER
            return self._server.malformed(Text("it is empty")) if empty else Speech(received.content, format)
        if received.is_json:
            try:
                reported = error_in(received.json())
            except ValueError:
                reported = None
            return self._server.malformed() if reported is None else self._server.reported(reported)
        return self._server.malformed(
            Text("it sent a web page") if received.is_web_page else Text("it sent no known sound format")
        )


def format_of(content: bytes) -> SpeechFormat | None:
    """Return the format of a sound file from its first bytes; None if it is none of the known formats.

    An Ogg file counts only with Opus inside, which is what Telegram plays as a voice message.
    """
    if content.startswith(b"OggS") and b"OpusHead" in content[:128]:
        return "ogg"
    if content.startswith(b"ID3") or (len(content) > 2 and content[0] == 0xFF and content[1] & 0xE6 == 0xE2):
        return "mp3"
    if content[4:8] == b"ftyp":
        return "m4a"
    if content.startswith(b"RIFF") and content[8:12] == b"WAVE":
        return "wav"
    return "flac" if content.startswith(b"fLaC") else None


def _refused(outcome: Speech | ModelError) -> bool:
    return isinstance(outcome, ModelError) and outcome.kind in ("refused", "server")


def _below(root: str, name: str) -> str:
    parts = urlsplit(root)
    if parts.path.rstrip("/").endswith(f"/{name}"):
        return root
    return urlunsplit((parts.scheme, parts.netloc, f"{parts.path.rstrip('/')}/{name}", "", ""))
