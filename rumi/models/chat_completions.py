"""One attempt at a server that speaks OpenAI's chat completions: Groq, or a server of the user.

The groq SDK sends the request. The module `stream` reads the answer, and explains why the SDK does not read
it.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import trio

from rumi.models.body import body_of, takes_schema
from rumi.models.dialects.failed_calls import read_failed_generation
from rumi.models.model import Emit, ModelError, ModelRequest, Reply
from rumi.models.rates import RateLimits
from rumi.models.reading import AnswerReading, Seen, ServerModel
from rumi.models.stream import ReplyBuilder
from rumi.platform import http
from rumi.platform.config.providers import Dialect

if TYPE_CHECKING:
    from groq import AsyncGroq, Omit

_PATHS: Final[dict[Dialect, str]] = {"groq": "/openai/v1/chat/completions", "openai": "/chat/completions"}


class ChatCompletions(ServerModel):
    """A model at a server that speaks chat completions. `reply` makes one attempt, without retries."""

    async def _answered(self, request: ModelRequest, emit: Emit, seen: Seen) -> Reply | ModelError:
        def saw(limits: RateLimits) -> None:
            self._budget.saw(limits)
            seen(limits)

        schema = takes_schema(request, self._server.provider.model(self._model)) and self._server.takes_schema
        outcome = await self._once(request, emit, saw, schema=schema)
        # Whether a server supports schemas is only known from its refusal. It is remembered for the server.
        if schema and isinstance(outcome, ModelError) and outcome.kind == "refused":
            outcome = await self._once(request, emit, saw, schema=False)
            # A second refusal says that something else was wrong.
            self._server.takes_schema = isinstance(outcome, ModelError) and outcome.kind == "refused"
        return outcome

    async def _once(
        self, request: ModelRequest, emit: Emit, saw: Seen, *, schema: bool
    ) -> Reply | ModelError:
        """Send one request; return the reply or the error."""
        client = await self._server.client()
        builder, small = ReplyBuilder(emit, self._name, _names(request)), self._budget.small_plan
        body = body_of(
            request, self._model, self._server.provider, self._sampling, schema=schema, small_plan=small
        )
        with trio.move_on_after(self._first_s) as silence:
            reading = AnswerReading(self._failures, silence, (self._first_s, self._timeout_s), saw)
            outcome = await self._asked(client, body, builder, reading)
            if request.tools:
                outcome = _read_all_the_same(outcome, builder, _names(request))
            return outcome
        return self._failures.silent(begun=builder.begun)

    async def _asked(
        self, client: "AsyncGroq", body: dict[str, object], builder: ReplyBuilder, reading: AnswerReading
    ) -> Reply | ModelError:
        """Return the reply or the error.

        An error is returned, not raised: the caller raises it outside of the `except` blocks of
        exceptions that contain keys.
        """
        import groq
        from groq.types.chat import ChatCompletionChunk

        try:
            stream = await client.post(
                _PATHS[self._server.dialect],
                cast_to=ChatCompletionChunk,
                body=body,
                options={"headers": self._headers()},
                stream=True,
                stream_cls=groq.AsyncStream[ChatCompletionChunk],
            )
        except groq.APIStatusError as error:
            reading.note_limits(error.response)
            return self._failures.from_status(error.status_code, error.body, error.response.headers)
        except groq.APIConnectionError as error:
            return self._failures.no_answer(error.__cause__ or error)
        try:
            return await reading.read(stream.response, builder)
        finally:
            await http.close(stream.close)

    def _headers(self) -> "dict[str, str | Omit]":
        from groq import Omit

        headers: dict[str, str | Omit] = {"Accept": "text/event-stream, application/json"}
        # Without a key, the SDK would send an Authorization header all the same.
        if not self._server.api_key:
            headers["Authorization"] = Omit()
        return headers


def _names(request: ModelRequest) -> set[str]:
    return {tool.name for tool in request.tools}


def _read_all_the_same(
    outcome: Reply | ModelError, builder: ReplyBuilder, tools: Collection[str]
) -> Reply | ModelError:
    """Return a reply with the tool calls that Groq failed to parse, or `outcome` if there are none."""
    if isinstance(outcome, Reply):
        return outcome
    calls = read_failed_generation(outcome.failed_generation, tools)
    return replace(builder.words(), tool_calls=calls, finish_reason="tool_calls") if calls else outcome
