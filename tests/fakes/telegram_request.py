"""Telegram in memory for `telegram.Bot`: the same Bot API without sockets, under virtual time."""

from random import Random
from typing import Any
from urllib.parse import unquote

import httpx
import trio
from telegram._utils.defaultvalue import DefaultValue
from telegram.error import NetworkError, TimedOut
from telegram.request import BaseRequest, RequestData

from tests.fakes.bot_api import Answer, BotApi
from tests.fakes.bot_api_world import Json, Upload
from tests.fakes.telegram_exchange import ConnectionLost, download, exchange

__all__ = ["InMemoryRequest"]


class _Ready(bytes):
    """An answer's body that is never made into bytes and back."""

    body: Json


class InMemoryRequest(BaseRequest):
    """A request object of a bot whose Telegram is `api`.

    A call takes `latency` (from, to) in seconds, half of it before the call is done. As with `HTTPXRequest`,
    no answer within `read_timeout` is `TimedOut` (the call may have been done), a reset is a `NetworkError`,
    and a request object that was shut down does nothing. `open` counts the calls under way.
    """

    __slots__ = ("_closed", "_latency", "_random", "_read_timeout", "api", "open")

    def __init__(
        self,
        api: BotApi,
        *,
        latency: tuple[float, float] = (0.02, 0.2),
        read_timeout: float | None = 5.0,
        seed: int = 0,
    ) -> None:
        self.api = api
        self.open = 0
        self._latency = latency
        self._read_timeout = read_timeout
        self._random = Random(seed)
        self._closed = False

    @property
    def read_timeout(self) -> float | None:
        return self._read_timeout

    async def initialize(self) -> None:
        self._closed = False

    async def shutdown(self) -> None:
        self._closed = True

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: Any = BaseRequest.DEFAULT_NONE,
        write_timeout: Any = BaseRequest.DEFAULT_NONE,
        connect_timeout: Any = BaseRequest.DEFAULT_NONE,
        pool_timeout: Any = BaseRequest.DEFAULT_NONE,
    ) -> tuple[int, bytes]:
        if self._closed:
            raise RuntimeError("This InMemoryRequest is not initialized!")
        limit_s = self._read_timeout if isinstance(read_timeout, DefaultValue) else read_timeout
        way_s = self._random.uniform(*self._latency) / 2
        self.open += 1
        try:
            with trio.move_on_after(float("inf") if limit_s is None else limit_s):
                await trio.sleep(way_s)
                answer = await self._answer(url, request_data)
                await trio.sleep(way_s)
                return answer.status, _payload(answer)
        except ConnectionLost:
            raise NetworkError("httpx.ReadError: ") from httpx.ReadError("")
        finally:
            self.open -= 1
        raise TimedOut

    async def _answer(self, url: str, data: RequestData | None) -> Answer:
        # https://…/bot{token}/{method}, https://…/file/bot{token}/{path}
        head, _, rest = url.partition("/bot")
        token, _, method = rest.partition("/")
        if "%" in rest:  # the links of files are quoted
            token, method = unquote(token), unquote(method)
        wrong = self.api.wrong_token(token)
        if wrong is not None:
            return wrong
        if head.endswith("/file"):
            return await download(self.api, method)
        if data is None:
            return await exchange(self.api, method, {})
        return await exchange(
            self.api, method, data.parameters, _files(data) if data.contains_files else None
        )

    @staticmethod
    def parse_json_payload(payload: bytes) -> Json:
        if isinstance(payload, _Ready):
            return payload.body
        return BaseRequest.parse_json_payload(payload)


def _payload(answer: Answer) -> bytes:
    if answer.body is None:
        return answer.raw
    ready = _Ready()
    ready.body = answer.body
    return ready


def _files(data: RequestData) -> dict[str, Upload]:
    files = {}
    for part, field in data.multipart_data.items():
        name, content, media_type = field
        files[part] = Upload(name, content if isinstance(content, bytes) else content.read(), media_type)
    return files
