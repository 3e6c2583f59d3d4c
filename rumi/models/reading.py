"""Code shared by the models of all server protocols: their set-up, and reading an answer with timeouts."""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import trio

from rumi.models.body import Sampling
from rumi.models.dialects.conversation import id_form, paired, with_new_ids
from rumi.models.dialects.endings import ending_of
from rumi.models.dialects.events import BadStreamError, EventReader
from rumi.models.dialects.text_calls import calls_in_text
from rumi.models.failures import Failures
from rumi.models.hiding import Hiding
from rumi.models.model import Emit, ModelError, ModelRequest, Reply, ToolCallNamed
from rumi.models.rates import RateLimits, rate_limits
from rumi.models.server import ModelServer
from rumi.models.stream import StreamReportedError
from rumi.models.token_budget import TokenBudget
from rumi.platform import http

if TYPE_CHECKING:
    import httpx

Seen: TypeAlias = Callable[[RateLimits], None]
"""A callback that receives the rate limits in a server's headers as soon as they arrive."""

_LAST_BYTES_S: Final = 0.25

FINISH_S: Final = 2.0
"""Maximum wait for more events after the reason for the reply's end, in seconds.

Usage may still come. Some servers then send no last event, and keep the connection open.
"""

_COMPLETE: Final = frozenset({"stop", "tool_calls", "length"})


class Builder(Protocol):
    """A builder that assembles a reply from the events of a stream.

    `begun` is True if some output of the model has arrived, including reasoning. `done` is True if the server
    has reported the end of the reply. `answered` is True if an event belonged to a reply; otherwise `noise`
    is the first event. `size` grows with the reply.
    """

    begun: bool
    done: bool
    answered: bool
    noise: str
    size: int
    finish_reason: str

    @property
    def empty(self) -> bool:
        """True if the reply has neither text nor tool calls."""
        ...

    def add(self, data: str) -> None:
        """Process the data of one event.

        Raises:
            BadStreamError: The event violates the protocol.
            StreamReportedError: The event is the server's report of an error.
        """
        ...

    def end(self) -> None:
        """Process the end of the stream."""
        ...

    def reply(self) -> Reply:
        """Return the complete reply."""
        ...


class ServerModel:
    """Base class of models at servers, independent of the protocol.

    `timeout_s` is the maximum time between two pieces of the stream. `first_token_timeout_s` is the maximum
    time before the model's first output, while the server reads the prompt; by default, it equals
    `timeout_s`. The turn limits the time of the whole reply. `budget` is the model's token budget.
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
            url_name=server.url_name,
            timeout_s=timeout_s,
            redact=server.redact,
            first_s=self._first_s,
        )

    @property
    def name(self) -> str:
        """`PROVIDER:NAME`, as in the configuration."""
        return self._name

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        """Stream one reply, in one attempt. On cancellation, closes the connection.

        Raises:
            ModelError: The attempt failed. The error can have any kind except `budget`.
        """
        return await self.metered_reply(request, emit, lambda _: None)

    async def metered_reply(self, request: ModelRequest, emit: Emit, seen: Seen) -> Reply:
        """Stream one reply like `reply`, and call `seen` with the server's rate limits."""
        hiding = Hiding(self._server.redact, emit)
        form = id_form(self._server.provider.call_ids, self._model)
        sent = replace(request, messages=paired(request.messages, form))
        outcome = await self._answered(sent, hiding.emit, seen)
        if isinstance(outcome, Reply):
            outcome = self._with_calls(outcome, request, hiding.emit)
        outcome = hiding.outcome(outcome)
        if isinstance(outcome, Reply):
            return outcome
        # Raised outside of any `except`: the HTTP errors hold requests, and requests hold keys, which a
        # traceback of chained exceptions could show.
        raise outcome

    def _with_calls(self, reply: Reply, request: ModelRequest, emit: Emit) -> Reply:
        """Return the reply with the tool calls that are in its text, and with unique ids of its calls."""
        calls = reply.tool_calls
        if request.tools and not calls and not request.words_only:
            local = self._server.provider.local
            text, calls = calls_in_text(reply.text, request.tools, bare=local)
            if calls:
                reply = replace(reply, text=text, finish_reason="tool_calls")
                for call in calls:
                    emit(ToolCallNamed(call.name))
        return replace(reply, tool_calls=with_new_ids(calls, request.messages)) if calls else reply

    async def _answered(self, request: ModelRequest, emit: Emit, seen: Seen) -> Reply | ModelError:
        """Return the reply as the server sent it, or the error. Subclasses implement this."""
        raise NotImplementedError


class _WebPageError(Exception):
    """The body is a web page."""


class AnswerReading:
    """Reader of one answer. Each line of the stream extends the deadline of the cancel scope `silence`.

    `limits_s` contains two timeouts in seconds: the first applies until the model's first output, the second
    after it.
    """

    def __init__(
        self, failures: Failures, silence: trio.CancelScope, limits_s: tuple[float, float], seen: Seen
    ) -> None:
        self._failures = failures
        self._silence = silence
        self._limits_s = limits_s
        self._seen = seen

    async def read(self, response: "httpx.Response", builder: Builder) -> Reply | ModelError:
        """Return the reply or the error. On cancellation, closes the iterator over the body."""
        import httpx

        self._alive(builder)
        self.note_limits(response)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/html":
            return self._failures.other_api("")
        chunks = response.aiter_bytes()
        try:
            try:
                await self._feed(chunks, builder)
            except (httpx.TransportError, httpx.StreamError):
                # Some servers close the connection right after the last chunk, against the protocol.
                if not builder.finish_reason:
                    raise
            builder.end()
            outcome = self._outcome(builder, whole=kind == "application/json")
            # Only after the last event: a stream that ended without one has nothing more to read.
            if builder.done and isinstance(outcome, Reply):
                await _read_the_end(chunks)
            return outcome
        except StreamReportedError as failure:
            return self._failures.from_stream(failure.error)
        except _WebPageError:
            return self._failures.other_api("")
        except BadStreamError as how:
            return self._failures.malformed(str(how))
        except httpx.DecodingError:
            return self._failures.malformed("its stream cannot be decompressed")
        except (httpx.TransportError, httpx.StreamError) as error:
            return self._failures.no_answer(error)
        finally:
            # Nested generators read the body. Closing only the outer one would leave the inner ones to the
            # garbage collector.
            await http.unwind(chunks)

    def _outcome(self, builder: Builder, *, whole: bool) -> Reply | ModelError:
        """Return the reply if the server said that it is complete, or the error.

        If it is `whole`, it was not streamed.
        """
        if builder.noise and not builder.answered:
            return self._failures.other_api(builder.noise)
        reason = builder.finish_reason
        if not reason and whole:
            return self._failures.malformed("its answer is not a chat completion")
        if not reason:
            # The words of a proxy may say why; a heartbeat says nothing.
            return self._failures.cut("" if builder.noise.startswith("{") else builder.noise)
        ending = ending_of(reason)
        if ending in ("failed", "malformed", "filtered"):
            return self._failures.ended(ending, reason)
        if builder.empty:
            return self._failures.empty(reason)
        reply = builder.reply()
        if reply.tool_calls and ending == "stop":
            ending = "tool_calls"
        return replace(reply, finish_reason=ending if ending in _COMPLETE else reason)

    def note_limits(self, response: "httpx.Response") -> None:
        """Report the rate limits in the headers of a response, if there are any."""
        if (limits := rate_limits(response.headers)) is not None:
            self._seen(limits)

    async def _feed(self, chunks: AsyncIterator[bytes], builder: Builder) -> None:
        """Pass events to the builder until the server reports the reply's end, or until the stream ends.

        After the reason for the reply's end, it waits at most `FINISH_S` for the end of the stream.
        """
        import httpx

        reader, size, begun = EventReader(), 0, False
        with trio.CancelScope() as finish:
            try:
                async for data in chunks:
                    if not begun and (start := data.removeprefix(b"\xef\xbb\xbf").lstrip()):
                        begun = True
                        if start.startswith(b"<"):
                            raise _WebPageError
                    for event in reader.feed(data):
                        builder.add(event)
                        if builder.done:
                            return
                    # A line, even a comment, shows that the server works. Single bytes must not keep a call
                    # alive.
                    if b"\n" in data:
                        self._alive(builder)
                    if builder.finish_reason and (finish.deadline == inf or builder.size > size):
                        finish.deadline = trio.current_time() + FINISH_S
                        size = builder.size
            except (httpx.TransportError, httpx.StreamError):
                with suppress(BadStreamError):  # the last event may be whole, without its line end
                    for event in reader.end():
                        builder.add(event)
                raise
            for event in reader.end():
                builder.add(event)

    def _alive(self, builder: Builder) -> None:
        self._silence.deadline = trio.current_time() + self._limits_s[builder.begun]


async def _read_the_end(chunks: AsyncIterator[bytes]) -> None:
    """Read the rest of the body, which is normally empty, so that the connection can be reused."""
    import httpx

    try:
        with trio.move_on_after(_LAST_BYTES_S):
            async for _ in chunks:
                pass
    except (httpx.TransportError, httpx.StreamError):
        pass  # the reply is complete; the rest does not matter
