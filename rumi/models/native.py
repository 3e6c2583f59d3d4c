"""One attempt at a server with a protocol of its own, over httpx: Anthropic's messages, Ollama's chat."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import trio

from rumi import http
from rumi.models.body import Sampling
from rumi.models.failures import Failures
from rumi.models.reading import Builder, Cutter, Reading, Seen
from rumi.models.room import Room
from rumi.models.server import Server
from rumi.models.types import Emit, ModelError, ModelRequest, Reply

if TYPE_CHECKING:
    import httpx

MOST_ERROR_BYTES = 65_536


class Native(Protocol):
    """A protocol: where a request goes, what is in it, and how its answer is read."""

    path: str

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers of a request; an empty key is none."""
        ...

    def body(
        self, request: ModelRequest, model: str, sampling: Sampling, context: int | None
    ) -> dict[str, object]:
        """Return the body. `context` is the model's maximum of tokens, where it is known."""
        ...

    def builder(self, emit: Emit, name: str) -> Builder:
        """Return what puts the reply together."""
        ...

    def cutter(self) -> Cutter:
        """Return what cuts the answer into events."""
        ...


class NativeModel:
    """A model at a server that `protocol` describes: `reply` is one attempt, without retries.

    `timeout_s` is the longest silence between two signs of life, `first_token_timeout_s` that before the
    model's first word. `room` gets the limits that the server reports.
    """

    def __init__(
        self,
        server: Server,
        model: str,
        protocol: Native,
        *,
        name: str,
        timeout_s: float,
        first_token_timeout_s: float | None = None,
        sampling: Sampling | None = None,
        room: Room | None = None,
    ) -> None:
        self._server = server
        self._model = model
        self._protocol = protocol
        self._name = name
        self._first_s = first_token_timeout_s or timeout_s
        self._timeout_s = timeout_s
        self._sampling = sampling or Sampling()
        self._room = room or Room()
        self._failures = Failures(
            model=name,
            url=server.base_url,
            key=server.api_key,
            key_name=server.key_name,
            timeout_s=timeout_s,
            first_s=self._first_s,
        )

    @property
    def name(self) -> str:
        """`PROVIDER:NAME`, as in the configuration."""
        return self._name

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        """Stream one reply. Cancelled, it closes its connection before it leaves.

        Raises:
            ModelError: Of every kind; nothing is tried twice.
        """
        return await self.metered_reply(request, emit, lambda _: None)

    async def metered_reply(self, request: ModelRequest, emit: Emit, seen: Seen) -> Reply:
        """Like `reply`; `seen` gets the server's rate limits."""
        outcome = await self._once(request, emit, seen)
        if isinstance(outcome, Reply):
            return outcome
        # Raised here, with no other exception around it: those hold requests, and requests hold keys.
        raise outcome

    async def _once(self, request: ModelRequest, emit: Emit, seen: Seen) -> Reply | ModelError:
        import httpx

        client, protocol = await self._server.bare(), self._protocol
        builder = protocol.builder(emit, self._name)
        body = protocol.body(request, self._model, self._sampling, self._room.context)
        url = f"{self._server.base_url.rstrip('/')}{protocol.path}"
        with trio.move_on_after(self._first_s) as silence:
            reading = Reading(self._failures, silence, (self._first_s, self._timeout_s), seen)
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
                    told = await _error_of(response)
                    return self._failures.from_status(response.status_code, told, response.headers)
                return await reading.read(response, builder, cutter=protocol.cutter())
            finally:
                await http.close(response.aclose)
        return self._failures.silent(begun=builder.begun)


async def _error_of(response: "httpx.Response") -> object:
    """Return the body of an error: JSON, or text."""
    import httpx

    data, chunks = bytearray(), response.aiter_bytes()
    try:
        async for part in chunks:
            data += part
            if len(data) > MOST_ERROR_BYTES:
                break
    except (httpx.HTTPError, httpx.StreamError):
        pass  # the status says enough
    finally:
        await http.unwind(chunks)
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace")
