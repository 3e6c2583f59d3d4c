"""Between Telegram and the library: what a server may send, and what is left of it."""

import json
import re
import warnings
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

import httpx
from telegram.error import NetworkError, RetryAfter
from telegram.request import BaseRequest, HTTPXRequest

from rumi.redact import HIDDEN

MAX_WORDS: Final = 300
"""How much of an error's description is kept, in characters."""

MAX_WAIT_S: Final = 3600.0
"""However long Telegram wants to be left alone, somebody looks again after this time."""

REFUSALS: Final = (400, 403)
"""What Telegram answers where a request is not to be made again."""

NO_ANSWER: Final = "the answer cannot be read"
_TOKEN_IN_URL: Final = re.compile(r"/bot([^/]+)/")


class Guarded(BaseRequest):
    """Goes in front of a request class: whatever a server sends becomes an answer or a `TelegramError`.

    The library alone logs what it cannot read, quotes it in its errors, fails with other errors where
    fields are missing, and warns about itself whenever Telegram asks for patience.
    """

    __slots__ = ()

    async def do_request(self, url: str, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        """See `BaseRequest.do_request`. Of an error only Telegram's description and parameters are left.

        Raises:
            RetryAfter: Telegram asks for patience.
            TelegramError: no answer.
        """
        code, payload = await super().do_request(url, *args, **kwargs)  # type: ignore[safe-super]
        if 200 <= code <= 299:
            return code, payload
        return code, self._error_of(code, payload, url)

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """The answer; what it lacks is a `NetworkError` when it is looked for."""
        try:
            found = json.loads(payload.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            raise NetworkError(NO_ANSWER) from None
        if not isinstance(found, dict):
            raise NetworkError(NO_ANSWER)
        return _Answer(found)

    def _error_of(self, code: int, payload: bytes, url: str) -> bytes:
        """An error's body as the library takes it, with nothing in it but what is known of Telegram's.

        Raises:
            NetworkError: the body of a refusal was lost, or is a proxy's: it says nothing about the request.
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
    """HTTP, guarded. `httpx_kwargs` are further settings of the client's."""

    __slots__ = ()

    def __init__(self, *, httpx_kwargs: Mapping[str, Any], **settings: Any) -> None:
        hooks = {"request": [_send_plainly]}
        super().__init__(httpx_kwargs={**httpx_kwargs, "event_hooks": hooks}, **settings)


class _Body(httpx.AsyncByteStream):
    """A request's body. The client's own is a generator, and one that is cancelled in the middle of sending
    would be left to the garbage collector, which cannot end it in order."""

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


async def _send_plainly(request: httpx.Request) -> None:
    if isinstance(request.stream, httpx.SyncByteStream):
        request.stream = _Body(request.stream)


class _Answer(dict[str, Any]):
    def __missing__(self, key: str) -> Any:
        raise NetworkError(NO_ANSWER)


def one_line(text: str) -> str:
    """The text without line breaks, cut to `MAX_WORDS`."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_WORDS else line[: MAX_WORDS - 1] + "…"
