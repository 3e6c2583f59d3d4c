"""The body of a chat completion request, with only the fields that the addressed server accepts."""

import re
from dataclasses import dataclass
from typing import Final

from rumi.models.model import Effort, ModelRequest
from rumi.models.wire import messages_json, plain, tools_json
from rumi.platform.config.providers import KnownModel, Provider

_GPT_OSS: Final = "openai/gpt-oss-"
"""Groq models that need their earlier reasoning sent with their tool calls; others reject it with a 400."""

_TAKES_EFFORT: Final = re.compile(r"(?:^|/)(?:gpt-oss|gpt-5(?!-chat)|o[1-9])(?![a-z0-9])", re.IGNORECASE)
"""Names of reasoning models that accept an `effort`; used for servers outside of the provider table."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of a model call. For a parameter that is None, the server uses its default."""

    temperature: float | None = None
    max_output_tokens: int | None = None
    effort: Effort | None = None


def takes_schema(request: ModelRequest, facts: KnownModel) -> bool:
    """Return True if the answer should be JSON and the server may be able to enforce the schema.

    Custom servers are assumed to support schemas. `ChatCompletions` retries without a schema if such a server
    refuses the schema.
    """
    return request.schema is not None and not request.tools and facts.schema


def body_of(
    request: ModelRequest,
    model: str,
    provider: Provider,
    sampling: Sampling,
    *,
    schema: bool,
    small_plan: bool,
) -> dict[str, object]:
    """Return the request body. With `schema`, the body asks the server to enforce the request's schema.

    Groq does not stream answers that follow a schema. With `small_plan` (the server's plan allows few tokens
    per minute), the body sets no maximum reply size: such a plan charges the maximum in advance, even if the
    reply is shorter.
    """
    groq, facts = provider.dialect == "groq", provider.model(model)
    body: dict[str, object] = {
        "model": model,
        "messages": messages_json(
            request,
            reasoning=groq and model.startswith(_GPT_OSS),
            system_first=not groq,
            signed=provider.signs,
        ),
        "stream": not (schema and groq),
    }
    if tools := tools_json(request, facts.tools):
        body["tools"] = tools
        if groq:
            # Rumi answers a call of an unknown tool with an error result, so that the model can correct it.
            body["disable_tool_validation"] = True
    if schema:
        form = {"name": "answer", "strict": True, "schema": plain(request.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    effort = request.effort or sampling.effort
    if effort is not None and (facts.effort or _TAKES_EFFORT.search(model)):
        body["reasoning_effort"] = effort
    temperature = sampling.temperature if request.temperature is None else request.temperature
    if temperature is not None and facts.temperature:
        body["temperature"] = temperature
    most = most_tokens(request, sampling)
    if most is not None and not small_plan:
        # `max_tokens` is deprecated at Groq and OpenAI, but many other servers know only this name.
        body[provider.max_tokens] = most
    # Groq reports usage without this field, and strict servers refuse it.
    if not (groq or provider.strict):
        body["stream_options"] = {"include_usage": True}
    return body


def most_tokens(request: ModelRequest, sampling: Sampling) -> int | None:
    """Return the maximum reply size: the smaller of the request's limit and the configured limit, if any."""
    return min(
        (n for n in (sampling.max_output_tokens, request.max_output_tokens) if n is not None), default=None
    )
