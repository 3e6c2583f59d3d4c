"""Images made to order by a server with OpenAI's image API."""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urljoin, urlsplit

from rumi.models.media_server import MediaAddress, MediaServer, Purpose, Received, error_in
from rumi.models.model import ModelError, Usage
from rumi.platform.file_kinds import HEAD_BYTES, picture_type
from rumi.platform.redact import Redactor
from rumi.texts import Text

MAX_IMAGE_BYTES: Final = 20 * 1024 * 1024
_MAX_ANSWER_BYTES: Final = MAX_IMAGE_BYTES * 4 // 3 + 65_536  # base64 and what is around it
_ENDINGS: Final = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}

PURPOSE: Final = Purpose(
    endpoint="images/generations",
    too_large=Text("the request is too large for {model}"),
    too_large_advice=Text("Use a shorter prompt."),
    malformed=Text("{host} does not answer with an image"),
    refused=Text("{host} refused to make the image"),
    lost=Text("Check {setting}: it ends with /v1, and the server must know OpenAI's image API."),
)


@dataclass(frozen=True, slots=True)
class Image:
    """A made image: its bytes, and the ending that a file name of its format has."""

    content: bytes
    ending: str


Elsewhere: TypeAlias = Callable[[str], Awaitable[bytes]]
"""Fetches an image from an address at another server, with the guard for addresses; raises a `RumiError`."""


class ImageServer:
    """A client that has images made. The creator must call `aclose`.

    `size` is the size of an image for which a request names no other. `elsewhere` fetches images that the
    server keeps at another one; without it, such an image is an error. `redact` hides secrets in the server's
    texts. Nothing is tried twice, except without the parameter `response_format` where a server refuses it.

    Raises:
        ConfigError: The key or the URL is invalid.
    """

    def __init__(
        self,
        at: MediaAddress,
        *,
        size: str = "",
        elsewhere: Elsewhere | None = None,
        redact: Redactor | None = None,
    ) -> None:
        self._server = MediaServer(at, PURPOSE, redact)
        self._size = size
        self._elsewhere = elsewhere
        self._takes_format = True

    @property
    def host(self) -> str:
        """Scheme, host and port of the server, for people."""
        return self._server.host

    @property
    def model(self) -> str:
        """The name under which the use of the server is counted: `PROVIDER:NAME`."""
        provider = "openai" if urlsplit(self._server.url).hostname == "api.openai.com" else "custom"
        return f"{provider}:{self._server.at.model or 'images'}"

    async def make(self, prompt: str, size: str = "") -> tuple[Image, Usage]:
        """Have an image made; return it with the tokens that the server has counted, zero if it counts none.

        On cancellation, closes the connection.

        Raises:
            ModelError: The server does not make it. The error never contains the key.
            RumiError: The image is at another server, from which it cannot be fetched.
        """
        outcome = await self._made(prompt, size or self._size)
        if isinstance(outcome, ModelError):
            # Raised outside of any `except`: the HTTP errors hold requests, and requests hold keys.
            raise outcome
        return outcome

    async def aclose(self) -> None:
        """Close the idle connections, even if the caller is cancelled, within a time limit."""
        await self._server.aclose()

    async def _made(self, prompt: str, size: str) -> tuple[Image, Usage] | ModelError:
        fields = {"model": self._server.at.model, "prompt": prompt, "size": size}
        body: dict[str, object] = {**{name: text for name, text in fields.items() if text}, "n": 1}
        received = await self._post(body)
        # OpenAI's newer models refuse the parameter, and old versions of LocalAI cannot parse it.
        if self._takes_format and isinstance(received, ModelError) and "response_format" in received.detail:
            self._takes_format = False
            received = await self._post(body)
        return received if isinstance(received, ModelError) else await self._image(received)

    async def _post(self, body: dict[str, object]) -> Received | ModelError:
        form = {"response_format": "b64_json"} if self._takes_format else {}
        return await self._server.post(_MAX_ANSWER_BYTES, json={**body, **form})

    async def _image(self, received: Received) -> tuple[Image, Usage] | ModelError:
        if (bare := image_in(received.content)) is not None:
            return bare, Usage()
        try:
            answer = received.json() if received.is_json else None
        except ValueError:
            answer = None
        if answer is None:
            return self._server.malformed(Text("it sent a web page") if received.is_web_page else "")
        data = answer.get("data") if isinstance(answer, dict) else None
        first = data[0] if isinstance(data, list) and data else None
        coded, url = (first.get("b64_json"), first.get("url")) if isinstance(first, dict) else (None, None)
        if isinstance(url, str) and url.startswith("data:"):
            coded, url = url.partition(",")[2], None
        if isinstance(coded, str) and coded:
            image = self._decoded(coded)
        elif isinstance(url, str) and url:
            image = await self._at(urljoin(self._server.url, url))
        else:
            reported = error_in(answer)
            return self._server.malformed() if reported is None else self._server.reported(reported)
        return image if isinstance(image, ModelError) else (image, _usage(answer))

    def _decoded(self, coded: str) -> Image | ModelError:
        if coded.startswith("data:"):
            coded = coded.partition(",")[2]
        try:
            content = b64decode("".join(coded.split()) + "=" * (-len(coded) % 4))
        except (Base64Error, ValueError):
            content = b""
        return image_in(content) or self._server.malformed(Text("it sent no known image format"))

    async def _at(self, url: str) -> Image | ModelError:
        """Fetch an image: from the configured server directly, from another one with the guard.

        The configured server may be on this machine, which the guard refuses.
        """
        if _origin(url) == _origin(self._server.url):
            received = await self._server.get(MAX_IMAGE_BYTES, url)
            if isinstance(received, ModelError):
                return received
            content = received.content
        elif self._elsewhere is not None:
            content = await self._elsewhere(url)
        else:
            return self._server.malformed(Text("the image is at another server"))
        return image_in(content) or self._server.malformed(Text("it sent no known image format"))


def _usage(answer: object) -> Usage:
    """Return the tokens in an answer, as OpenAI's newer models count them; zero if it has none."""
    used = answer.get("usage") if isinstance(answer, dict) else None
    counts = [used.get(name) if isinstance(used, dict) else 0 for name in ("input_tokens", "output_tokens")]
    whole = [count if isinstance(count, int) and 0 < count < 10**9 else 0 for count in counts]
    return Usage(whole[0], whole[1])


def image_in(content: bytes) -> Image | None:
    """Return the image that the bytes are; None if they are no known format, or too large."""
    ending = _ENDINGS.get(picture_type(content[:HEAD_BYTES]))
    return Image(content, ending) if ending is not None and len(content) <= MAX_IMAGE_BYTES else None


def _origin(url: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return "", None, None
    host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname
    return parts.scheme, host, port
