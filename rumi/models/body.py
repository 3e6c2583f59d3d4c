"""The body of a request for a chat completion: what a server needs and takes, and nothing else."""

import re
from dataclasses import dataclass
from typing import Final

from rumi.models.model import Effort, ModelRequest
from rumi.models.wire import messages_json, plain, tools_json
from rumi.platform.config.providers import KnownModel, Provider

_GPT_OSS: Final = "openai/gpt-oss-"
"""Groq's models that need their earlier reasoning beside their tool calls; others get a 400 for it."""

_TAKES_EFFORT: Final = re.compile(r"(?:^|/)(?:gpt-oss|gpt-5(?!-chat)|o[1-9])(?![a-z0-9])", re.IGNORECASE)
"""Reasoning models that take an effort, as servers that are not in the table name them."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Parameters of a model call besides the words; None uses the server's default."""

    temperature: float | None = None
    max_output_tokens: int | None = None
    effort: Effort | None = None


def takes_schema(request: ModelRequest, facts: KnownModel) -> bool:
    """Return True if the answer should be JSON and the server may see to that. A custom one is asked."""
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
    """Return the body. With `schema` the server sees to the form of the answer, which Groq does not stream.

    A `small_plan` counts the largest reply in advance, as if it took all of that; so it gets no maximum.
    """
    groq, facts = provider.dialect == "groq", provider.model(model)
    body: dict[str, object] = {
        "model": model,
        "messages": messages_json(
            request,
            reasoning=groq and model.startswith(_GPT_OSS),
            system_first=not groq,
            call_ids=provider.call_ids,
            signed=provider.signs,
        ),
        "stream": not (schema and groq),
    }
    if tools := tools_json(request):
        body["tools"] = tools
        if groq:
            # Rumi itself answers a call of an unknown tool, so that the model learns of its error.
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
    if not (groq or provider.strict):
        body["stream_options"] = {"include_usage": True}
    return body


def most_tokens(request: ModelRequest, sampling: Sampling) -> int | None:
    """Return the bound of the reply: the smaller one of the request's and the configuration's."""
    return min(
        (n for n in (sampling.max_output_tokens, request.max_output_tokens) if n is not None), default=None
    )
