"""A server for recordings, speech or images: one request, one answer, and errors in words for people.

Many programs implement OpenAI's API only partly: an answer may have another format than the request asked
for, and an error may come with the status 200. So callers judge an answer by its content.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import trio

from rumi.errors import ConfigError
from rumi.models.failures import Failures, scrub, sentence, shown_url
from rumi.models.model import FailureKind, ModelError
from rumi.models.rates import retry_after_s
from rumi.models.registry import check_key, check_url
from rumi.models.server import ModelServer
from rumi.platform import http
from rumi.platform.redact import Redactor
from rumi.texts import Text

_WEB_PAGE: Final = re.compile(rb"\s*<(?:!doctype|html|head|body|\?xml)", re.IGNORECASE)
_ABOUT_FORMAT: Final = re.compile(
    r"(?i)\b(?:format|decod|codec|audio data|audio file|wav|ffmpeg|container|media type|mime)"
)
_ABOUT_A_MODEL: Final = re.compile(r"(?i)\bmodels?\b")
_DETAIL_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a server is for: `endpoint` is its path below `/v1`, and the texts are its errors.

    `other_paths` are the last parts of addresses that are complete without `endpoint`. `lost` is the advice
    if there is nothing at the address, and `format` the one if the server cannot read what was sent.
    """

    endpoint: str
    too_large: Text
    too_large_advice: Text
    malformed: Text
    refused: Text
    lost: Text
    other_paths: tuple[str, ...] = ()
    format: Text | None = None


@dataclass(frozen=True, slots=True)
class MediaAddress:
    """Where a server is, its model and key, and the names of the settings that say so.

    `fault` is the error of a key that cannot be read; each request then fails with it.
    """

    url: str
    model: str = ""
    key: str = field(default="", repr=False)
    setting: str = "voice.server"
    key_setting: str = "voice.api_key"
    timeout_setting: str = "voice.timeout_s"
    timeout_s: float = 120.0
    fault: ConfigError | None = None

    @property
    def host(self) -> str:
        """Scheme, host and port, for people."""
        return shown_url(self.url)


@dataclass(frozen=True, slots=True)
class Received:
    """An answer with a status below 300: its media type in small letters, and its content."""

    media_type: str
    content: bytes

    @property
    def is_web_page(self) -> bool:
        """Return True for HTML, whatever the media type says: whisper.cpp sends texts as HTML."""
        return _WEB_PAGE.match(self.content[:500]) is not None

    @property
    def is_json(self) -> bool:
        """Return True if the content is JSON, or should be."""
        return self.media_type.endswith("json") or self.content.lstrip()[:1] in (b"{", b"[", b'"')

    def json(self) -> object:
        """Return the content as JSON.

        Raises:
            ValueError: It is not JSON.
        """
        try:
            return json.loads(self.content)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None


class MediaServer:
    """A client of one server. The creator must call `aclose`.

    `redact` hides secrets in the server's texts.

    Raises:
        ConfigError: The key or the address is invalid.
    """

    def __init__(self, at: MediaAddress, purpose: Purpose, redact: Redactor | None = None) -> None:
        if at.key:
            check_key(at.key, at.key_setting)
        check_url(at.url, at.setting)
        self.at = at
        self.host = at.host
        self.url = full_address(at.url, purpose)
        self._purpose = purpose
        self._server = ModelServer(
            "media", at.url, at.key, dialect="openai", key_name=at.key_setting, redact=redact
        )
        self.redact = self._server.redact

    @property
    def name(self) -> str:
        """The model's name for people, or the server's address."""
        return self.at.model or self.host

    def __repr__(self) -> str:
        return f"<MediaServer {self.host}>"

    async def aclose(self) -> None:
        """Close the idle connections, even if the caller is cancelled, within a time limit."""
        await self._server.aclose()

    async def post(self, max_bytes: int, url: str = "", **body: Any) -> Received | ModelError:
        """Send one POST request and return the answer, or an error that says what a person can do.

        `body` is what httpx takes as the body: `json`, or `data` and `files`. Without `url`, the request goes
        to the configured address. On cancellation, closes the connection. An error is returned, not raised:
        the exceptions of the HTTP library hold requests, and requests hold keys.
        """
        if (fault := self.at.fault) is not None:
            return ModelError("auth", fault.message, fault.advice)
        return await self._in_time("POST", url or self.url, max_bytes, body)

    async def get(self, max_bytes: int, url: str) -> Received | ModelError:
        """Send one GET request to the same server, like `post`."""
        return await self._in_time("GET", url, max_bytes, {})

    def malformed(self, detail: str = "") -> ModelError:
        """Return the error for an answer that is not of the server's purpose."""
        purpose = self._purpose
        return self._error("malformed", Text(purpose.malformed.key, host=self.host), self._check(), detail)

    def reported(self, said: str) -> ModelError:
        """Return the error for an answer that reports an error, although its status says that all is well."""
        return self._refusal(400, said)

    def too_large(self) -> ModelError:
        """Return the error for a request that the server does not take because of its size."""
        purpose = self._purpose
        return self._error(
            "too_large", Text(purpose.too_large.key, model=self.name), purpose.too_large_advice
        )

    def refused(self, detail: str) -> ModelError:
        """Return the error for a refused request."""
        return self._error("refused", Text(self._purpose.refused.key, host=self.host), "", detail)

    async def _in_time(
        self, method: str, url: str, max_bytes: int, body: Mapping[str, Any]
    ) -> Received | ModelError:
        import httpx

        with trio.move_on_after(self.at.timeout_s):
            try:
                return await self._exchange(method, url, max_bytes, body)
            except ModelError as error:  # the proxy or the certificates cannot be used
                return error
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                return self._no_answer(error)
        return self._error(
            "timeout",
            Text(
                "{model} did not answer in {timeout_s} s", model=self.name, timeout_s=f"{self.at.timeout_s:g}"
            ),
            Text("Try again, or set a longer {setting}.", setting=self.at.timeout_setting),
        )

    async def _exchange(
        self, method: str, url: str, max_bytes: int, body: Mapping[str, Any]
    ) -> Received | ModelError:
        client = await self._server.bare()
        # Uncompressed, so that the limit on received bytes also limits the memory.
        headers = {"Accept-Encoding": "identity", "Accept": "*/*"}
        if self.at.key:
            headers["Authorization"] = f"Bearer {self.at.key}"
        response = await client.send(client.build_request(method, url, headers=headers, **body), stream=True)
        try:
            failed = response.status_code >= 300
            most = _DETAIL_BYTES if failed else max_bytes
            data = bytearray()
            # Cancelled instead of left with `break`, so that the generators below the loop end in order.
            with trio.CancelScope() as enough:
                async for chunk in response.aiter_raw():
                    data += chunk
                    if len(data) > most:
                        enough.cancel()
        finally:
            await http.close(response.aclose)
        if failed:
            return self._failed(response.status_code, bytes(data[:most]), response.headers)
        if len(data) > most:
            return self.malformed(Text("it sent more than {most} KB", most=most // 1000))
        if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            return self.malformed(Text("it sent a compressed answer"))
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        return Received(media_type, bytes(data))

    def _no_answer(self, cause: BaseException) -> ModelError:
        """Return the error for a connection that could not be opened, or broke."""
        failures = Failures(
            model=self.name,
            url=self.at.url,
            key=self.at.key,
            key_name=self.at.key_setting,
            timeout_s=self.at.timeout_s,
            redact=self.redact,
        )
        error = failures.no_answer(cause)
        advice = Text("Is the server running? Check {setting}.", setting=self.at.setting)
        return ModelError(error.kind, error.message, advice, detail=error.detail, model=self.name)

    def _failed(self, status: int, body: bytes, headers: Mapping[str, str]) -> ModelError:
        """Return the error for an answer with an error status."""
        said, where = said_in(body), urlsplit(self.url).path
        error = partial(self._error, status=status, retry_after_s=retry_after_s(headers))
        if 300 <= status < 400:
            advice = Text(
                "Rumi does not follow redirects, because they would get the key: set the final address."
            )
            text = Text("{host} redirects elsewhere ({status})", host=self.host, status=status)
            return error("refused", text, advice)
        if status in (401, 403):
            text = Text("{host} refused the key for {model}", host=self.host, model=self.name)
            return error("auth", text, Text("Check {key_name}.", key_name=self.at.key_setting), said)
        if status in (404, 405) and not _ABOUT_A_MODEL.search(said):
            text = Text("{host} has nothing at {path} ({status})", host=self.host, path=where, status=status)
            return error("not_found", text, Text(self._purpose.lost.key, setting=self.at.setting))
        if status in (404, 405):
            text = Text("{host} does not know {model}", host=self.host, model=self.name)
            return error("not_found", text, self._check(), said)
        if status == 413:
            return self.too_large()
        if status == 429:
            text = Text("{model} has reached its rate limit", model=self.name)
            return error("rate_limited", text, Text("Try again later."), said)
        # whisper.cpp reports a recording that its ffmpeg cannot convert with a 500.
        if status >= 500 and not ("ffmpeg" in said.lower() and self._purpose.format is not None):
            return error("server", Text("{host} failed", host=self.host), Text("Try again later."), said)
        return self._refusal(status, said)

    def _refusal(self, status: int, said: str) -> ModelError:
        """Return the error for a request that the server refused because of its content."""
        purpose, advice = self._purpose, Text("")
        if purpose.format is not None and (status == 415 or _ABOUT_FORMAT.search(said)):
            advice = purpose.format
        return self._error("refused", Text(purpose.refused.key, host=self.host), advice, said, status=status)

    def _check(self) -> Text:
        return Text("Check {setting}.", setting=self.at.setting)

    def _error(
        self,
        kind: FailureKind,
        text: Text,
        advice: str = "",
        detail: str = "",
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> ModelError:
        # Texts of this module stay translatable; texts of a server are scrubbed.
        detail = detail if isinstance(detail, Text) else scrub(detail, self.redact)
        return ModelError(
            kind,
            sentence(text, detail),
            advice,
            retry_after_s=retry_after_s,
            detail=detail,
            model=self.name,
            status=status,
        )


def full_address(url: str, purpose: Purpose) -> str:
    """Return the address for requests to the server at the configured address.

    The configured address may be the root of the server, that of its API (`…/v1`), or already complete.
    """
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    if not purpose.endpoint:
        return urlunsplit((parts.scheme, parts.netloc, path or "/", "", ""))
    complete = path.endswith(f"/{purpose.endpoint}") or path.rpartition("/")[2] in purpose.other_paths
    if not complete:
        path = f"{path or '/v1'}/{purpose.endpoint}"
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def said_in(body: bytes) -> str:
    """Return the text in the body of an error: that of a known field, or a short plain text, or nothing."""
    text = body.decode("utf-8", "replace").strip()
    if text[:1] not in ("{", "[", '"'):
        return "" if _WEB_PAGE.match(body[:500]) or text.startswith("<") else text[:500]
    try:
        return error_in(json.loads(text)) or ""
    except (ValueError, RecursionError):
        return ""


def error_in(answer: object) -> str | None:
    """Return the text of an error in JSON; None if the JSON reports no error.

    OpenAI's servers write `error`, FastAPI's write `detail`, which may be a list of faults.
    """
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    if not isinstance(answer, dict):
        return None
    for name in ("error", "detail", "message", "msg"):
        value = answer.get(name)
        if isinstance(value, dict | list):
            return error_in(value) or (json.dumps(value)[:300] if value else None)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None
