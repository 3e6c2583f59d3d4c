"""The configured servers for recordings, speech and images, as one part of the process."""

from dataclasses import dataclass, replace

from rumi.models.drawing import Elsewhere, ImageServer
from rumi.models.media_server import MediaAddress
from rumi.models.speech import Speaker
from rumi.models.transcription import GROQ_MODEL, OTHER_MODEL, Transcriber, groq_address
from rumi.platform.config.cascade import Loaded
from rumi.platform.config.secrets import IMAGES_KEY, SPEECH_KEY, VOICE_KEY, plain
from rumi.platform.redact import Redactor


@dataclass(frozen=True, slots=True)
class Media:
    """The clients of the configured servers, each None if there is none. The creator must call `aclose`."""

    transcriber: Transcriber | None = None
    speaker: Speaker | None = None
    images: ImageServer | None = None

    async def aclose(self) -> None:
        """Close the idle connections, even if the caller is cancelled, within a time limit."""
        for client in (self.transcriber, self.speaker, self.images):
            if client is not None:
                await client.aclose()


def build_media(loaded: Loaded, elsewhere: Elsewhere | None = None) -> Media:
    """Create the clients. Nothing is sent. `elsewhere` fetches images from other servers than the configured.

    Raises:
        ConfigError: A key or an address is invalid. A key that is missing is an error of each request.
    """
    redact = Redactor(loaded.secrets.values())
    hears, speaks, draws = transcription_at(loaded), speech_at(loaded), images_at(loaded)
    voice, images = loaded.settings.voice, loaded.settings.images
    return Media(
        None if hears is None else Transcriber(hears, language=voice.language or "", redact=redact),
        None
        if speaks is None
        else Speaker(speaks, api=voice.speech_api, voice=voice.voice or "", redact=redact),
        None
        if draws is None
        else ImageServer(draws, size=images.size or "", elsewhere=elsewhere, redact=redact),
    )


def transcription_at(loaded: Loaded) -> MediaAddress | None:
    """Return the server that transcribes: the configured one, else Groq if its key is set, else None."""
    voice, secrets = loaded.settings.voice, loaded.secrets
    if voice.server is not None:
        return MediaAddress(
            voice.server,
            voice.model or OTHER_MODEL,
            plain(secrets.keys.get(VOICE_KEY)).strip(),
            timeout_s=voice.timeout_s,
            fault=secrets.faults.get(VOICE_KEY),
        )
    key = plain(secrets.groq_api_key).strip()
    if not key:
        return None
    groq = groq_address(key, secrets.groq_base_url, model=voice.model or GROQ_MODEL)
    return replace(groq, timeout_s=voice.timeout_s)


def speech_at(loaded: Loaded) -> MediaAddress | None:
    """Return the configured server that speaks, or None."""
    voice, secrets = loaded.settings.voice, loaded.secrets
    if voice.speech_server is None:
        return None
    return MediaAddress(
        voice.speech_server,
        voice.speech_model if voice.speech_api == "openai" else "",
        plain(secrets.keys.get(SPEECH_KEY)).strip(),
        "voice.speech_server",
        SPEECH_KEY,
        "voice.speech_timeout_s",
        voice.speech_timeout_s,
        secrets.faults.get(SPEECH_KEY),
    )


def images_at(loaded: Loaded) -> MediaAddress | None:
    """Return the configured server that makes images, or None."""
    images, secrets = loaded.settings.images, loaded.secrets
    if images.server is None:
        return None
    return MediaAddress(
        images.server,
        images.model or "",
        plain(secrets.keys.get(IMAGES_KEY)).strip(),
        "images.server",
        IMAGES_KEY,
        "images.timeout_s",
        images.timeout_s,
        secrets.faults.get(IMAGES_KEY),
    )
