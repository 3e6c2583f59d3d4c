"""One attempt, over httpx, at a server with a native protocol: Anthropic's messages or Ollama's chat."""

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, ClassVar, Protocol

import trio

from rumi.models.body import Sampling
from rumi.models.model import Emit, ModelError, ModelRequest, Reply
from rumi.models.reading import AnswerReading, Builder, Seen, ServerModel
from rumi.platform import http

if TYPE_CHECKING:
    import httpx

MOST_ERROR_BYTES = 65_536


class Native(Protocol):
    """A server's protocol: builds a request's path, headers and body, and creates the answer's parser."""

    path: str

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers of a request. An empty `key` means that the server needs no key."""
        ...

    def body(
        self, request: ModelRequest, model: str, sampling: Sampling, context: int | None
    ) -> dict[str, object]:
        """Return the request body. `context` is the model's context size in tokens, if known."""
        ...

    def builder(self, emit: Emit, name: str, tools: Collection[str]) -> Builder:
        """Return a builder that assembles the reply from the stream's events.

        `tools` are the names of the offered tools.
        """
        ...


class NativeModel(ServerModel):
    """A model at a server with the given `protocol`. `reply` makes one attempt, without retries."""

    protocol: ClassVar[Native]

    async def _answered(self, request: ModelRequest, emit: Emit, seen: Seen) -> Reply | ModelError:
        import httpx

        client, protocol = await self._server.bare(), self.protocol
        builder = protocol.builder(emit, self._name, {tool.name for tool in request.tools})
        body = protocol.body(request, self._model, self._sampling, self._budget.context)
        url = f"{self._server.base_url.rstrip('/')}{protocol.path}"
        # Connecting and the server's work before its first output share one time limit.
        with trio.move_on_after(self._first_s) as silence:
            reading = AnswerReading(self._failures, silence, (self._first_s, self._timeout_s), seen)
            asked = client.build_request(
                "POST", url, json=body, headers=protocol.headers(self._server.api_key)
            )
            try:
                response = await client.send(asked, stream=True)
            except httpx.HTTPError as error:
                return self._failures.no_answer(error)
            try:
                if not response.is_success:
                    reading.note_limits(response)
                    error_body = await _error_of(response)
                    return self._failures.from_status(response.status_code, error_body, response.headers)
                return await reading.read(response, builder)
            finally:
                await http.close(response.aclose)
        return self._failures.silent(begun=builder.begun)


async def _error_of(response: "httpx.Response") -> object:
    """Return the body of an error response: parsed JSON, or text if the body is not JSON."""
    import httpx

    data, chunks = bytearray(), response.aiter_bytes()
    try:
        async for part in chunks:
            data += part
            if len(data) > MOST_ERROR_BYTES:
                break
    except (httpx.HTTPError, httpx.StreamError):
        pass  # the status is enough
    finally:
        await http.unwind(chunks)
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace")
