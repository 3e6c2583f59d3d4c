"""One attempt at one server that speaks OpenAI's chat completions: Groq, or the user's own server.

The groq SDK makes the request; `stream` reads the answer, and explains why.
"""

from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from rumi import http
from rumi.models.body import Sampling, body_of, takes_schema
from rumi.models.calls import read_failed_generation
from rumi.models.failures import Failures
from rumi.models.fitting import seen_by
from rumi.models.rates import RateLimits, rate_limits
from rumi.models.room import Room
from rumi.models.server import Dialect, Server
from rumi.models.stream import (
    DONE,
    MAX_EVENT_BYTES,
    BadStreamError,
    EventReader,
    ReplyBuilder,
    StreamReportedError,
    as_chunk,
)
from rumi.models.types import Emit, ModelError, ModelRequest, Reply

if TYPE_CHECKING:
    import httpx
    from groq import AsyncGroq, Omit

Seen: TypeAlias = Callable[[RateLimits], None]
"""Gets the limits in a server's headers as soon as they arrive."""

_PATHS: Final[dict[Dialect, str]] = {"groq": "/openai/v1/chat/completions", "openai": "/chat/completions"}
_LAST_BYTES_S: Final = 0.25


class ChatCompletions:
    """A model at a server: `reply` is one attempt, without retries.

    `timeout_s` is the longest silence between two signs of life. `first_token_timeout_s` is the longest
    silence before the model's first word, while a server reads a long prompt; by default it is the same. The
    turn bounds the time of the whole reply. `room` gets the limits that the server reports. Without
    `takes_pictures` it gets a note in place of each picture.
    """

    def __init__(
        self,
        server: Server,
        model: str,
        *,
        name: str,
        timeout_s: float,
        first_token_timeout_s: float | None = None,
        sampling: Sampling | None = None,
        room: Room | None = None,
        takes_pictures: bool = False,
    ) -> None:
        self.takes_pictures = takes_pictures
        self._server = server
        self._model = model
        self._name = name
        self._timeout_s = timeout_s
        self._first_s = first_token_timeout_s or timeout_s
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
        return await self.metered_reply(request, emit, _ignore)

    async def metered_reply(self, request: ModelRequest, emit: Emit, seen: Seen) -> Reply:
        """Like `reply`; `seen` gets the server's rate limits."""

        request = seen_by(request, takes_pictures=self.takes_pictures)

        def saw(limits: RateLimits) -> None:
            self._room.saw(limits)
            seen(limits)

        schema = takes_schema(request, self._model, self._server.dialect) and self._server.takes_schema
        outcome = await self._once(request, emit, saw, schema=schema)
        if schema and isinstance(outcome, ModelError) and outcome.kind == "refused":
            self._server.takes_schema = False
            outcome = await self._once(request, emit, saw, schema=False)
        if isinstance(outcome, Reply):
            return outcome
        # Raised here, with no other exception around it: those hold requests, and requests hold keys.
        raise outcome

    async def _once(
        self, request: ModelRequest, emit: Emit, saw: Seen, *, schema: bool
    ) -> Reply | ModelError:
        """Make one request; return the reply or the error."""
        client = await self._server.client()
        dialect, builder = self._server.dialect, ReplyBuilder(emit, self._name)
        small = self._room.small_plan
        body = body_of(request, self._model, dialect, self._sampling, schema=schema, small_plan=small)
        with trio.move_on_after(self._first_s) as silence:
            attempt = _Attempt(self._failures, silence, (self._first_s, self._timeout_s), saw)
            outcome = await attempt.run(client, _PATHS[dialect], body, self._headers(), builder)
            if request.tools:
                outcome = _read_all_the_same(outcome, builder, {tool.name for tool in request.tools})
            return outcome
        return self._failures.silent(begun=builder.begun)

    def _headers(self) -> "dict[str, str | Omit]":
        from groq import Omit

        headers: dict[str, str | Omit] = {"Accept": "text/event-stream, application/json"}
        if not self._server.api_key:
            headers["Authorization"] = Omit()
        return headers


class _Attempt:
    """One request and its answer, while `silence` runs: each sign of life moves its deadline.

    `limits_s` are the two time limits: before the model's first word, and after it.
    """

    def __init__(
        self, failures: Failures, silence: trio.CancelScope, limits_s: tuple[float, float], seen: Seen
    ) -> None:
        self._failures = failures
        self._silence = silence
        self._limits_s = limits_s
        self._seen = seen

    async def run(
        self,
        client: "AsyncGroq",
        path: str,
        body: dict[str, object],
        headers: "dict[str, str | Omit]",
        builder: ReplyBuilder,
    ) -> Reply | ModelError:
        """Return the reply or the error. The caller raises it, where no key is in reach."""
        import groq
        from groq.types.chat import ChatCompletionChunk

        try:
            stream = await client.post(
                path,
                cast_to=ChatCompletionChunk,
                body=body,
                options={"headers": headers},
                stream=True,
                stream_cls=groq.AsyncStream[ChatCompletionChunk],
            )
        except groq.APIStatusError as error:
            self._note_limits(error.response)
            return self._failures.from_status(error.status_code, error.body, error.response.headers)
        except groq.APIConnectionError as error:
            return self._failures.no_answer(error.__cause__ or error)
        try:
            return await self._read(stream.response, builder, streamed=body["stream"] is True)
        finally:
            await http.close(stream.close)

    async def _read(
        self, response: "httpx.Response", builder: ReplyBuilder, *, streamed: bool
    ) -> Reply | ModelError:
        import httpx

        self._alive(builder)
        self._note_limits(response)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/html" or (streamed and kind == "application/json"):
            return self._failures.malformed(f"it sent {kind} where a stream was asked for")
        chunks = response.aiter_bytes()
        try:
            done = await (self._feed if streamed else _whole)(chunks, builder)
            builder.end(done=done)
            if not builder.finish_reason:
                return self._failures.cut()
            if builder.empty:
                return self._failures.empty(builder.finish_reason)
            reply = builder.reply()
            if done:
                await _read_the_end(chunks)
            return reply
        except StreamReportedError as failure:
            return self._failures.from_stream(failure.error)
        except BadStreamError as how:
            return self._failures.malformed(str(how))
        except httpx.DecodingError:
            return self._failures.malformed("its stream cannot be decompressed")
        except (httpx.TransportError, httpx.StreamError) as error:
            return self._failures.no_answer(error)
        finally:
            await http.unwind(chunks)

    async def _feed(self, chunks: AsyncIterator[bytes], builder: ReplyBuilder) -> bool:
        """Feed the builder until the stream says that it is done (True), or ends."""
        reader = EventReader()
        async for data in chunks:
            for event in reader.feed(data):
                if event.startswith(DONE):
                    return True
                builder.add(event)
            # A line, also a comment, is a sign of life; a single byte is not.
            if b"\n" in data:
                self._alive(builder)
        for event in reader.end():
            if not event.startswith(DONE):
                builder.add(event)
        return False

    def _alive(self, builder: ReplyBuilder) -> None:
        self._silence.deadline = trio.current_time() + self._limits_s[builder.begun]

    def _note_limits(self, response: "httpx.Response") -> None:
        if (limits := rate_limits(response.headers)) is not None:
            self._seen(limits)


def _read_all_the_same(
    outcome: Reply | ModelError, builder: ReplyBuilder, tools: Collection[str]
) -> Reply | ModelError:
    """Return the reply if its server could not read a tool call in it, and Rumi can; otherwise the outcome.

    Some servers return the call in gpt-oss's own format as the answer's text.
    """
    if isinstance(outcome, ModelError):
        calls = read_failed_generation(outcome.failed_generation, tools)
        words = builder.words()
    else:
        unread = builder.text if not outcome.tool_calls and builder.text.lstrip().startswith("<|") else ""
        calls = read_failed_generation(unread, tools) if "to=" in unread else ()
        words = replace(outcome, text="")
    return replace(words, tool_calls=calls, finish_reason="tool_calls") if calls else outcome


async def _whole(chunks: AsyncIterator[bytes], builder: ReplyBuilder) -> bool:
    """Feed the builder a reply that is not streamed."""
    data = bytearray()
    async for part in chunks:
        data += part
        if len(data) > MAX_EVENT_BYTES:
            raise BadStreamError("its answer has no end")
    builder.add(as_chunk(data.decode("utf-8", "replace")))
    return True


async def _read_the_end(chunks: AsyncIterator[bytes]) -> None:
    """Read the rest after the last event, normally nothing, so that the connection can be used again."""
    import httpx

    try:
        with trio.move_on_after(_LAST_BYTES_S):
            async for _ in chunks:
                pass
    except (httpx.TransportError, httpx.StreamError):
        pass  # the reply is complete; the rest does not matter


def _ignore(_: RateLimits) -> None:
    pass
