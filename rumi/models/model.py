"""The types of every model: a request, events while the reply streams, and the reply.

The shapes follow OpenAI's chat completions, which Groq and the self-hosted servers share.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Protocol, TypeAlias, cast

from rumi.errors import RumiError

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
Effort: TypeAlias = Literal["low", "medium", "high"]
"""How long a reasoning model thinks."""

BYTES_PER_TOKEN = 3
PER_TOOL = 16
PER_MESSAGE = 4
PER_CALL = 8
PER_PICTURE = 1600
"""About what servers count for the largest picture that a model gets: a token for each 750 pixels."""


def text_tokens(text: str) -> int:
    """Return about how many tokens `text` is; 0 for no text."""
    length = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-length // BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's request to call a tool. `arguments` is the JSON text exactly as the model wrote it.

    `signature` is what its server needs back within the same turn, as JSON; it is not stored.
    """

    id: str
    name: str
    arguments: str
    signature: str = field(default="", repr=False, compare=False)

    def unsigned(self) -> "ToolCall":
        """Return the call without its signature."""
        return replace(self, signature="") if self.signature else self


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture for a model. `path` is its file in the workspace; `data` are the bytes that a model gets.

    The history has no `data`: it is read from the file for each model call.
    """

    path: str
    media_type: str
    data: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a conversation.

    An assistant's message may carry `tool_calls`, and the `reasoning` that led to them, which some models
    need again within the same turn; it is not stored in the history. A tool's message names the call that it
    answers. Only a model that takes pictures gets the `pictures` of a message. `tokens` is about how many it
    takes, counted once: each turn adds up its whole history several times.
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
        """`parameters` as JSON. It is made once, because each call of each turn sends and measures it."""
        return json.dumps(self.parameters, default=dict)

    @cached_property
    def parsed(self) -> Mapping[str, object]:
        """`parameters` as JSON encoders take them: dicts and lists. No caller changes them."""
        return cast(Mapping[str, object], json.loads(self.schema))

    @cached_property
    def tokens(self) -> int:
        """About how many tokens the description takes in a prompt."""
        return PER_TOOL + text_tokens(self.name) + text_tokens(self.description) + text_tokens(self.schema)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call. No `tools` means that the model must answer in words.

    `temperature` and `effort` replace the configuration's for this call. `words_only`: the last message asks
    for words, and no tool will run; they are listed all the same, since Groq refuses a reply that calls one
    that is not. `schema` is that of the JSON object that the answer must be, where the server can see to it;
    it is ignored with `tools`. `max_output_tokens` bounds the reply besides the configuration's bound.
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
    """Tokens as the server counted them; zero if it did not report them.

    `cached_tokens` are the prompt tokens that the server had in its cache, `written_tokens` those that it
    wrote into it where that has a price of its own. `nano_usd` is the price of all of it in billionths of a
    USD, 0 where no price is known.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    nano_usd: int = 0
    written_tokens: int = 0

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
    """A whole reply: words, tool calls, or both. `finish_reason` is the server's reason for its end.

    `length` means that the reply was cut off. `reasoning` is not part of the answer.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More words of the reply."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallNamed:
    """The reply names a tool; its arguments are still on their way."""

    name: str


@dataclass(frozen=True, slots=True)
class Discarded:
    """The words of this reply so far are void, because another attempt begins."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The turn waits for `seconds`, and why: a rate limit, a retry, a fallback to another model."""

    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class Used:
    """An attempt at a model call was counted: what it used, and its price."""

    model: str
    usage: Usage


ModelEvent: TypeAlias = TextDelta | ToolCallNamed | Discarded | Waiting | Used
Emit: TypeAlias = Callable[[ModelEvent], None]

FailureKind: TypeAlias = Literal[
    "auth",  # wrong or missing key
    "not_found",  # the server does not know the model
    "rate_limited",
    "too_large",  # the request does not fit the model
    "timeout",  # silence for longer than timeout_s, or first_token_timeout_s
    "unreachable",  # no connection, or it was cut
    "server",  # 5xx
    "malformed",  # the stream violated the protocol
    "empty",  # neither words nor tool calls
    "refused",  # any other 4xx
    "budget",  # nothing was asked: a budget is used up, or a price is missing
]


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The figures of a refused request: the limit, and the size of the request.

    `a_minute`: the limit is the plan's for one minute, not the model's.
    """

    limit: int
    requested: int | None = None
    a_minute: bool = False


class ModelError(RumiError):
    """The model could not be reached or refused. Never contains a key.

    `retry_after_s` is the server's wish, if it sent one; `detail` is the server's text; `model` is the model
    concerned. `too_large` has the figures of such an error, if the server sent them; `failed_generation` is
    the model's text if the server could not read a tool call in it.
    """

    exit_code = 4

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        advice: str = "",
        *,
        retry_after_s: float | None = None,
        detail: str = "",
        model: str = "",
        too_large: TooLarge | None = None,
        failed_generation: str = "",
    ) -> None:
        super().__init__(message, advice)
        self.kind: FailureKind = kind
        self.retry_after_s = retry_after_s
        self.detail = detail
        self.model = model
        self.too_large = too_large
        self.failed_generation = failed_generation

    @property
    def retriable(self) -> bool:
        """True if the same request to the same model may succeed later."""
        return self.kind in {"rate_limited", "unreachable", "server", "malformed", "empty"}


class Model(Protocol):
    """Answers a `ModelRequest`: one attempt at one server, or a chain with fallbacks."""

    @property
    def name(self) -> str:
        """`PROVIDER:NAME`, as in the configuration."""
        ...

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        """Stream one reply: `emit` is called for each event as it comes, the whole reply returned.

        Cancelled, it closes its connection and gives back its permit before it leaves.

        Raises:
            ModelError: The model could not be reached or refused, after all retries and fallbacks.
        """
        ...
