"""A guard between Telegram and python-telegram-bot: limits which response data reaches that library."""

import json
import re
import warnings
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta
from typing import Any, Final

import httpx
from telegram.error import NetworkError, RetryAfter
from telegram.request import BaseRequest, HTTPXRequest
from typing_extensions import override

from rumi.platform.direct_http import DirectClient
from rumi.platform.redact import HIDDEN

MAX_WORDS: Final = 300
"""Maximum length of an error description, in characters. Longer descriptions are cut."""

MAX_WAIT_S: Final = 3600.0
"""Longest wait that is accepted from Telegram, in seconds. If Telegram asks for more, a new attempt follows
after this time.
"""

REFUSALS: Final = (400, 403)
"""Telegram's status codes for requests that must not be repeated."""

NO_ANSWER: Final = "the answer cannot be read"
_TOKEN_IN_URL: Final = re.compile(r"/bot([^/]+)/")


class Guarded(BaseRequest):
    """Wraps a request class of the library. Every server response becomes a result or a `TelegramError`.

    Without the guard, the library logs responses that it cannot parse, quotes them in its errors, raises
    other errors if fields are missing, and emits warnings about itself whenever Telegram asks the bot to
    wait.
    """

    __slots__ = ()

    @override
    async def do_request(self, url: str, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        """Send a request as `BaseRequest.do_request` does.

        If the response reports an error, only Telegram's description and known parameters are returned.

        Raises:
            RetryAfter: Telegram asks the bot to wait.
            TelegramError: There is no usable response.
        """
        code, payload = await super().do_request(url, *args, **kwargs)  # type: ignore[safe-super]
        if 200 <= code <= 299:
            return code, payload
        return code, self._error_of(code, payload, url)

    @staticmethod
    @override
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Return the response as a dict that raises a `NetworkError` when a missing field is read."""
        try:
            found = json.loads(payload.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            raise NetworkError(NO_ANSWER) from None
        if not isinstance(found, dict):
            raise NetworkError(NO_ANSWER)
        return _ApiResponse(found)

    def _error_of(self, code: int, payload: bytes, url: str) -> bytes:
        """Return the body of an error response in the library's format, with only Telegram's known fields.

        Raises:
            RetryAfter: Telegram asks the bot to wait.
            NetworkError: The body of a refusal is unreadable or was written by a proxy, so it says nothing
                about the request.
        """
        try:
            found = self.parse_json_payload(payload)
        except NetworkError:
            if code in REFUSALS:
                raise
            return b"{}"
        kept: dict[str, Any] = {}
        if isinstance(description := found.get("description"), str):
            if token := _TOKEN_IN_URL.search(url):
                # A server may quote the request's URL in its description.
                description = description.replace(token[1], HIDDEN)
            kept["description"] = one_line(description)
        parameters = found.get("parameters")
        if isinstance(parameters, dict):
            wait = parameters.get("retry_after")
            if isinstance(wait, int | float) and wait > 0:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the library announces a change of this error's type
                    raise RetryAfter(timedelta(seconds=min(wait, MAX_WAIT_S)))
            chat = parameters.get("migrate_to_chat_id")
            if type(chat) is int:
                kept["parameters"] = {"migrate_to_chat_id": chat}
        return json.dumps(kept).encode()


class GuardedHTTP(Guarded, HTTPXRequest):
    """HTTP requests behind the guard. `httpx_kwargs` are additional settings of the client."""

    __slots__ = ()

    @override
    def _build_client(self) -> httpx.AsyncClient:
        return _PlainClient(**self._client_kwargs)


class _Body(httpx.AsyncByteStream):
    """A request body as an iterator object, which replaces the client's async generator.

    If sending is cancelled, a generator would be left to the garbage collector, which cannot close an async
    generator properly.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self._left = iter(chunks)

    def __aiter__(self) -> AsyncIterator[bytes]:
        self._left = iter(self._chunks)
        return self

    async def __anext__(self) -> bytes:
        for chunk in self._left:
            return chunk
        raise StopAsyncIteration


class _PlainClient(DirectClient):
    @override
    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        if isinstance(request.stream, httpx.SyncByteStream):
            request.stream = _Body(request.stream)
        return await super().send(request, **options)


class _ApiResponse(dict[str, Any]):
    def __missing__(self, key: str) -> Any:
        raise NetworkError(NO_ANSWER)


def one_line(text: str) -> str:
    """Return the text without line breaks, shortened to `MAX_WORDS` characters."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_WORDS else line[: MAX_WORDS - 1] + "…"
