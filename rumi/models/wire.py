"""Conversion of messages and tools to the JSON of OpenAI's chat completions."""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Final

from rumi.models.model import Message, ModelRequest, Picture, ToolCall, ToolSpec
from rumi.models.schema_rules import sent_schema
from rumi.platform.config.providers import SchemaRules

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
_NAME_LENGTH = 64
EMPTY: Final = "(empty)"
"""Text that replaces an empty text, because strict servers refuse empty texts."""

UNSIGNED: Final = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""Google's documented placeholder signature, for calls from other models and calls without a signature."""


def messages_json(
    request: ModelRequest,
    *,
    reasoning: bool = False,
    system_first: bool = False,
    signed: bool = False,
) -> list[dict[str, object]]:
    """Return the conversation, one object per message.

    With `reasoning`, include the reasoning that led to tool calls.

    With `system_first`, a system message in the middle of the conversation is sent as a user message, because
    the chat templates of some models otherwise refuse the whole request. With `signed`, each call is sent
    with its signature from the server.
    """
    messages: list[dict[str, object]] = []
    of_results: list[Picture] = []
    for request_message in request.messages:
        # Only after the last result: servers require all results directly after the calls.
        if of_results and request_message.role != "tool":
            messages.append(_of_results(of_results))
            of_results = []
        messages.append(_message(request_message, reasoning, signed))
        of_results += request_message.pictures if request_message.role == "tool" else ()
    if of_results:
        messages.append(_of_results(of_results))
    for message in messages[1:]:
        if system_first and message["role"] == "system":
            message["role"] = "user"
    return messages


def tools_json(request: ModelRequest, rules: SchemaRules = "open") -> list[dict[str, object]]:
    """Return the tools, one object each, as `rules` allow; empty if the request has none."""
    return [_tool(tool, rules) for tool in request.tools]


def sendable(text: str) -> str:
    """Return `text` with lone surrogates replaced, because UTF-8 cannot encode lone surrogates."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def arguments_object(arguments: str) -> dict[str, object] | None:
    """Return a call's arguments as a JSON object, or None if the model wrote something else."""
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _message(message: Message, reasoning: bool, signed: bool) -> dict[str, object]:
    bare = not (message.content.strip() or message.pictures or message.tool_calls)
    out: dict[str, object] = {"role": message.role, "content": EMPTY if bare else sendable(message.content)}
    if message.pictures and message.role != "tool":
        words = [{"type": "text", "text": sendable(message.content)}] if message.content.strip() else []
        out["content"] = [*words, *map(_picture, message.pictures)]
    if message.tool_calls:
        out["tool_calls"] = [_call(call, signed, first=at == 0) for at, call in enumerate(message.tool_calls)]
        if not message.content:
            out["content"] = None
        if reasoning and message.reasoning:
            out["reasoning"] = sendable(message.reasoning)
    if message.role == "tool":
        out["tool_call_id"] = message.tool_call_id or ""
    return out


def _of_results(pictures: list[Picture]) -> dict[str, object]:
    """Return the pictures of tool results as a user message; servers accept no pictures in a tool message."""
    words = {"type": "text", "text": "[The pictures of the results above.]"}
    return {"role": "user", "content": [words, *map(_picture, pictures)]}


def _picture(picture: Picture) -> dict[str, object]:
    url = f"data:{picture.media_type};base64,{b64encode(picture.data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def _call(call: ToolCall, signed: bool, *, first: bool) -> dict[str, object]:
    arguments = sendable(call.arguments)
    if arguments_object(arguments) is None:
        arguments = json.dumps(sent_arguments(call))
    sent: dict[str, object] = {
        "id": call.id,
        "type": "function",
        "function": {"name": sent_name(call.name), "arguments": arguments},
    }
    signature = arguments_object(call.signature) or {}
    if signed and ("google" in signature or first):  # of parallel calls, only the first one is signed
        sent["extra_content"] = signature if "google" in signature else UNSIGNED
    return sent


def sent_name(name: str) -> str:
    """Return a tool's name with only the characters and the length that servers allow."""
    return _NOT_IN_A_NAME.sub("_", name)[:_NAME_LENGTH] or "_"


def sent_arguments(call: ToolCall) -> dict[str, object]:
    """Return a call's arguments as an object.

    Servers parse the past calls of a conversation again, and refuse the whole request if one call is invalid.
    So invalid arguments are sent as text inside a valid object, in which the model still sees its mistake.
    """
    arguments = sendable(call.arguments)
    found = arguments_object(arguments)
    return {"invalid_arguments": arguments} if found is None else found


def _tool(tool: ToolSpec, rules: SchemaRules) -> dict[str, object]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": sendable(tool.description),
            "parameters": sent_schema(tool, rules),
        },
    }


def plain(value: object) -> object:
    """Return `value` as dicts and lists for JSON; a frozen schema may contain other mappings and tuples."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value
