"""What models at servers share, in every protocol: how they are set up, and how an answer is read in time."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import trio

from rumi.models.body import Sampling
from rumi.models.failures import Failures
from rumi.models.hiding import Hiding
from rumi.models.model import Emit, ModelError, ModelRequest, Reply
from rumi.models.rates import RateLimits, rate_limits
from rumi.models.server import ModelServer
from rumi.models.stream import MAX_EVENT_BYTES, BadStreamError, EventReader, StreamReportedError, as_chunk
from rumi.models.token_budget import TokenBudget
from rumi.platform import http

if TYPE_CHECKING:
    import httpx

Seen: TypeAlias = Callable[[RateLimits], None]
"""Gets the limits in a server's headers as soon as they arrive."""

_LAST_BYTES_S: Final = 0.25


class Builder(Protocol):
    """Puts a reply together from events. `begun`: some output of the model has come, also reasoning."""

    begun: bool
    done: bool
    finish_reason: str

    @property
    def empty(self) -> bool:
        """True if there were neither words nor tool calls."""
        ...

    def add(self, data: str) -> None:
        """Take the data of one event; raise `BadStreamError` or `StreamReportedError` for what is wrong."""
        ...

    def end(self) -> None:
        """Take the end of the stream."""
        ...

    def reply(self) -> Reply:
        """Return the whole reply."""
        ...


class Cutter(Protocol):
    """Cuts bytes, however they arrive, into events."""

    def feed(self, data: bytes) -> Iterator[str]:
        """Take bytes, and yield the data of each event that they complete."""
        ...

    def end(self) -> Iterator[str]:
        """Yield what is left at the end."""
        ...


class LineReader:
    """Cuts bytes into lines of JSON, as Ollama streams them."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[str]:
        """Take bytes, and yield each line that they complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_EVENT_BYTES:
            raise BadStreamError("a line of its stream has no end")
        for line in lines:
            if line.strip():
                yield line.decode("utf-8", "replace")

    def end(self) -> Iterator[str]:
        """Yield the last line, if its end is missing."""
        yield from self.feed(b"\n")


class ServerModel:
    """What models at servers have in common, whatever the protocol.

    `timeout_s` is the longest silence between two signs of life. `first_token_timeout_s` is the longest
    silence before the model's first word, while a server reads a long prompt; by default it is the same. The
    turn bounds the time of the whole reply. `room` is the model's token budget.
    """

    def __init__(
        self,
        server: ModelServer,
        model: str,
        *,
        name: str,
        timeout_s: float,
        first_token_timeout_s: float | None = None,
        sampling: Sampling | None = None,
        budget: TokenBudget | None = None,
    ) -> None:
        self._server = server
        self._model = model
        self._name = name
        self._timeout_s = timeout_s
        self._first_s = first_token_timeout_s or timeout_s
        self._sampling = sampling or Sampling()
        self._budget = budget or TokenBudget()
        self._failures = Failures(
            model=name,
            url=server.base_url,
            key=server.api_key,
            key_name=server.key_name,
            timeout_s=timeout_s,
            redact=server.redact,
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
        hiding = Hiding(self._server.redact, emit)
        outcome = hiding.outcome(await self._answered(request, hiding.emit, seen))
        if isinstance(outcome, Reply):
            return outcome
        raise outcome  # with no other error around it: those hold requests, which hold keys

    async def _answered(self, request: ModelRequest, emit: Emit, seen: Seen) -> Reply | ModelError:
        """Return the reply as the server sent it, or the error."""
        raise NotImplementedError


class AnswerReading:
    """The reading of one answer, while `silence` runs: each sign of life moves its deadline.

    `limits_s` are the two time limits: before the model's first word, and after it.
    """

    def __init__(
        self, failures: Failures, silence: trio.CancelScope, limits_s: tuple[float, float], seen: Seen
    ) -> None:
        self._failures = failures
        self._silence = silence
        self._limits_s = limits_s
        self._seen = seen

    async def read(
        self,
        response: "httpx.Response",
        builder: Builder,
        *,
        streamed: bool = True,
        cutter: Cutter | None = None,
    ) -> Reply | ModelError:
        """Return the reply or the error. Cancelled, it unwinds the body."""
        import httpx

        self._alive(builder)
        self.note_limits(response)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/html" or (streamed and kind == "application/json"):
            return self._failures.malformed(f"it sent {kind} where a stream was asked for")
        chunks = response.aiter_bytes()
        try:
            if streamed:
                await self._feed(chunks, builder, cutter or EventReader())
            else:
                await _whole(chunks, builder)
            builder.end()
            if not builder.finish_reason:
                return self._failures.cut()
            if builder.empty:
                return self._failures.empty(builder.finish_reason)
            reply = builder.reply()
            if builder.done:
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

    def note_limits(self, response: "httpx.Response") -> None:
        """Report the rate limits in an answer's headers."""
        if (limits := rate_limits(response.headers)) is not None:
            self._seen(limits)

    async def _feed(self, chunks: AsyncIterator[bytes], builder: Builder, cutter: Cutter) -> None:
        """Feed the builder until it has what the server says is all, or the stream ends."""
        async for data in chunks:
            for event in cutter.feed(data):
                builder.add(event)
                if builder.done:
                    return
            # A line, also a comment, is a sign of life; a single byte is not.
            if b"\n" in data:
                self._alive(builder)
        for event in cutter.end():
            builder.add(event)

    def _alive(self, builder: Builder) -> None:
        self._silence.deadline = trio.current_time() + self._limits_s[builder.begun]


async def _whole(chunks: AsyncIterator[bytes], builder: Builder) -> None:
    """Feed the builder a chat completion that is not streamed."""
    data = bytearray()
    async for part in chunks:
        data += part
        if len(data) > MAX_EVENT_BYTES:
            raise BadStreamError("its answer has no end")
    builder.add(as_chunk(data.decode("utf-8", "replace")))
    builder.done = True


async def _read_the_end(chunks: AsyncIterator[bytes]) -> None:
    """Read the rest after the last event, normally nothing, so that the connection can be used again."""
    import httpx

    try:
        with trio.move_on_after(_LAST_BYTES_S):
            async for _ in chunks:
                pass
    except (httpx.TransportError, httpx.StreamError):
        pass  # the reply is complete; the rest does not matter
