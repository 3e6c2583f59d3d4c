"""Adapters whose server is a list of pieces of a recording, for tests with virtual time."""

from collections.abc import AsyncIterator, Callable
from typing import Final

import httpx
import trio

from rumi.models.anthropic import AnthropicProtocol
from rumi.models.model import Emit, ModelError, ModelRequest, Reply
from rumi.models.ollama import OllamaProtocol
from rumi.models.reading import AnswerReading, Builder, Seen, ServerModel
from rumi.models.server import ModelServer
from rumi.models.stream import ReplyBuilder
from rumi.platform.config.providers import Dialect
from tests.dialects.recordings import Recording

BUILDERS: Final[dict[str, Callable[[Emit, str, set[str]], Builder]]] = {
    "chat": ReplyBuilder,
    "anthropic": AnthropicProtocol().builder,
    "ollama": OllamaProtocol().builder,
}
DIALECTS: Final[dict[str, Dialect]] = {"chat": "openai", "anthropic": "anthropic", "ollama": "ollama"}


class Bytes(httpx.AsyncByteStream):
    """A body in pieces, after which the connection may stay open or break."""

    def __init__(self, recording: Recording, pieces: list[bytes]) -> None:
        self._recording = recording
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
            await trio.lowlevel.checkpoint()
        if self._recording.open:
            await trio.sleep_forever()
        if self._recording.cut:
            raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")

    async def aclose(self) -> None:
        pass


class Replayed(ServerModel):
    """The adapter of a recording's protocol, whose server is a list of pieces."""

    def __init__(self, recording: Recording, pieces: list[bytes]) -> None:
        usual = {"chat": "custom:mine"}.get(recording.protocol, recording.protocol)
        name = recording.head.get("server", usual)
        dialect = DIALECTS[recording.protocol]
        server = ModelServer(name, "http://127.0.0.1:9", "", dialect=dialect)
        super().__init__(server, "m", name="x:m", timeout_s=60)
        self._recording = recording
        self._pieces = pieces

    async def _answered(self, request: ModelRequest, emit: Emit, seen: Seen) -> Reply | ModelError:
        builder = BUILDERS[self._recording.protocol](emit, "x:m", {tool.name for tool in request.tools})
        headers = {"content-type": self._recording.content_type}
        response = httpx.Response(200, headers=headers, stream=Bytes(self._recording, self._pieces))
        with trio.move_on_after(60) as silence:
            return await AnswerReading(self._failures, silence, (60, 60), seen).read(response, builder)
        return self._failures.silent(begun=builder.begun)
