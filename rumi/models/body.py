"""The body of a request for a chat completion: what a server needs and takes, and nothing else."""

import re
from dataclasses import dataclass
from typing import Final

from rumi.models.server import Dialect
from rumi.models.types import Effort, ModelRequest
from rumi.models.wire import messages_json, plain, tools_json

_GPT_OSS: Final = "openai/gpt-oss-"
"""Groq's models that need their earlier reasoning beside their tool calls (others get a 400 for it), and that
keep strictly to a schema."""

_TAKES_EFFORT: Final = re.compile(r"(?:^|/)(?:gpt-oss|gpt-5(?!-chat)|o[1-9])(?![a-z0-9])", re.IGNORECASE)
"""Reasoning models that take an effort, as servers name them."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Parameters of a model call besides the words; None uses the server's default."""

    temperature: float | None = None
    max_output_tokens: int | None = None
    effort: Effort | None = None


def takes_schema(request: ModelRequest, model: str, dialect: Dialect) -> bool:
    """Return True if the answer should be JSON and the server may see to that. A custom one is asked."""
    asked = request.schema is not None and not request.tools
    return asked and (dialect == "openai" or model.startswith(_GPT_OSS))


def body_of(
    request: ModelRequest, model: str, dialect: Dialect, sampling: Sampling, *, schema: bool, small_plan: bool
) -> dict[str, object]:
    """Return the body. With `schema` the server sees to the form of the answer, which Groq does not stream.

    A `small_plan` counts the largest reply in advance, as if it took all of that; so it gets no maximum.
    """
    groq = dialect == "groq"
    body: dict[str, object] = {
        "model": model,
        "messages": messages_json(
            request, reasoning=groq and model.startswith(_GPT_OSS), system_first=not groq
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
    if effort is not None and _TAKES_EFFORT.search(model):
        body["reasoning_effort"] = effort
    temperature = sampling.temperature if request.temperature is None else request.temperature
    if temperature is not None:
        body["temperature"] = temperature
    bounds = [n for n in (sampling.max_output_tokens, request.max_output_tokens) if n is not None]
    if bounds and not small_plan:
        # `max_tokens` is deprecated at Groq, but many self-hosted servers know only this name.
        body["max_completion_tokens" if groq else "max_tokens"] = min(bounds)
    if not groq:
        body["stream_options"] = {"include_usage": True}
    return body
