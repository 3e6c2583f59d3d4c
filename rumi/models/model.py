"""The common types of all models: the request, the events while a reply streams, and the reply.

The shapes follow OpenAI's chat completions, which Groq and self-hosted servers use.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias, cast

from rumi.errors import RumiError

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
Effort: TypeAlias = Literal["low", "medium", "high"]
"""The amount of reasoning that a reasoning model does before it answers."""

BYTES_PER_TOKEN = 3
PER_TOOL = 16
PER_MESSAGE = 4
PER_CALL = 8
PER_PICTURE = 1600
"""Estimated tokens of the largest picture that Rumi sends, at about one token per 750 pixels."""


def text_tokens(text: str) -> int:
    """Return the estimated number of tokens in `text`; 0 for an empty text."""
    length = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-length // BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that a model requests. `arguments` is the JSON text exactly as the model wrote it.

    `signature` is JSON that later requests of the same turn must return to the server with this call. The
    signature is not stored.
    """

    id: str
    name: str
    arguments: str
    signature: str = field(default="", repr=False, compare=False)

    def unsigned(self) -> "ToolCall":
        """Return the call without its signature."""
        return replace(self, signature="") if self.signature else self

    @property
    def parsed_arguments(self) -> Mapping[str, Any]:
        """The arguments; empty if they are not a JSON object."""
        try:
            arguments = json.loads(self.arguments or "{}")
        except (ValueError, RecursionError):
            return {}
        return arguments if isinstance(arguments, dict) else {}


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture for a model. `path` is the workspace file; `data` holds the bytes that are sent.

    `data` is empty in the history, because each model call reads the file again.
    """

    path: str
    media_type: str
    data: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a conversation.

    An assistant message may have `tool_calls`, and the `reasoning` that led to these calls. Some models need
    the reasoning again within the same turn; prompts of later turns do not have it. In a tool message,
    `tool_call_id` is the id of the call that the message answers. Only models that accept pictures get the
    `pictures`. `tokens` is the estimated size of the message, computed once because each turn sums its whole
    history several times.
    """

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    reasoning: str = ""
    pictures: tuple[Picture, ...] = ()
    tokens: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tokens = PER_MESSAGE + text_tokens(self.content) + text_tokens(self.reasoning)
        tokens += PER_PICTURE * len(self.pictures)
        for call in self.tool_calls:
            tokens += PER_CALL + text_tokens(call.name) + text_tokens(call.arguments)
        object.__setattr__(self, "tokens", tokens)


@dataclass(frozen=True)
class ToolSpec:
    """A tool as a model sees it. `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, object]

    @cached_property
    def schema(self) -> str:
        """`parameters` as a JSON text. It is encoded once, because every model call sends and measures it."""
        return json.dumps(self.parameters, default=dict)

    @cached_property
    def parsed(self) -> Mapping[str, object]:
        """The parameters as plain dicts and lists, for JSON encoders. Callers must not change them."""
        return cast(Mapping[str, object], json.loads(self.schema))

    @cached_property
    def tokens(self) -> int:
        """Estimated number of tokens that the tool takes in a prompt."""
        return PER_TOOL + text_tokens(self.name) + text_tokens(self.description) + text_tokens(self.schema)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """The request of one model call. Without `tools`, the model must answer in text.

    `temperature` and `effort` replace the configured values for this call. `words_only` means that the last
    message asks for text and no tool will run. The request still lists the tools, because Groq rejects a
    reply that calls an unlisted tool. `schema` is the JSON schema of the answer, for servers that can enforce
    a schema; it is ignored if there are `tools`. `max_output_tokens` limits the reply in addition to the
    configured limit.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    temperature: float | None = None
    words_only: bool = False
    effort: Effort | None = None
    schema: Mapping[str, object] | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as counted by the server; zero if the server did not report them.

    `cached_tokens` counts the prompt tokens that the server read from its prompt cache. If writing to the
    cache has a separate price, `written_tokens` counts the prompt tokens that the server wrote to it.
    `nano_usd` is the total price in billionths of a USD, 0 if no price is known.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    nano_usd: int = 0
    written_tokens: int = 0

    @property
    def usd(self) -> float:
        """The total price in USD."""
        return self.nano_usd / 1e9

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.nano_usd + other.nano_usd,
            self.written_tokens + other.written_tokens,
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply: text, tool calls, or both.

    `finish_reason` is the reason that the server gave for the end of the reply.

    The reasons `stop` and `tool_calls` mean that the reply is complete, and `length` that it was cut off. Any
    other reason is the server's own, and unknown. `reasoning` is not part of the answer's text.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the reply's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallNamed:
    """The reply names a tool; the call's arguments are still being streamed."""

    name: str


@dataclass(frozen=True, slots=True)
class Discarded:
    """The text emitted so far for this reply must be discarded, because another attempt begins."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The turn waits for `seconds` seconds. `why` is the reason: a rate limit, a retry, a fallback model."""

    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class Used:
    """The recorded usage and price of one attempt at a model call."""

    model: str
    usage: Usage


ModelEvent: TypeAlias = TextDelta | ToolCallNamed | Discarded | Waiting | Used
Emit: TypeAlias = Callable[[ModelEvent], None]

FailureKind: TypeAlias = Literal[
    "auth",  # wrong or missing key
    "not_found",  # the server does not know the model
    "rate_limited",
    "too_large",  # the request does not fit the model
    "timeout",  # no data for longer than timeout_s, or first_token_timeout_s
    "unreachable",  # no connection, or it was cut
    "server",  # 5xx
    "malformed",  # the stream violated the protocol
    "empty",  # neither text nor tool calls
    "filtered",  # a content filter or the model itself refused
    "refused",  # any other 4xx
    "budget",  # no request was sent: a budget is used up, or a price is missing
]


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The sizes that a server reports when a request is too large: the limit, and the size of the prompt.

    `a_minute` is True if the limit is the tokens per minute of the server's plan, not the model's context.
    `with_reply` is True if the limit also counts the longest reply that the request asked for. `reply` is the
    longest reply that the server allows; then only that part of the request is too large.
    """

    limit: int | None = None
    requested: int | None = None
    a_minute: bool = False
    with_reply: bool = False
    reply: int | None = None


class ModelError(RumiError):
    """The model could not be reached, or it refused the request. Never contains a key.

    `retry_after_s` is the wait that the server asked for, if any. `detail` is the server's text. `model` is
    the name of the model that failed. `too_large` contains the sizes if the server reported them.
    `failed_generation` is the model's text if the server could not parse a tool call in the text. `status` is
    the HTTP status if the server refused the request or reported an error. `partial` is the text of the reply
    that arrived before the failure.
    """

    exit_code = 4

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        advice: str = "",
        /,
        *,
        retry_after_s: float | None = None,
        detail: str = "",
        model: str = "",
        too_large: TooLarge | None = None,
        failed_generation: str = "",
        status: int | None = None,
        **fields: object,
    ) -> None:
        super().__init__(message, advice, **({"model": model, **fields} if model else fields))
        self.kind: FailureKind = kind
        self.retry_after_s = retry_after_s
        self.detail = detail
        self.model = model
        self.too_large = too_large
        self.failed_generation = failed_generation
        self.status = status
        self.partial = ""

    @property
    def retriable(self) -> bool:
        """True if the same request to the same model may succeed later."""
        return self.kind in {"rate_limited", "unreachable", "server", "malformed", "empty"}


class Model(Protocol):
    """A model that answers a `ModelRequest`: one attempt at one server, or a chain with fallbacks."""

    @property
    def name(self) -> str:
        """`PROVIDER:NAME`, as in the configuration."""
        ...

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        """Stream one reply: call `emit` for each event as it arrives, and return the complete reply.

        On cancellation, closes the connection and then releases the permit.

        Raises:
            ModelError: The model could not be reached or refused, after all retries and fallbacks.
        """
        ...
