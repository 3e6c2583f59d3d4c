"""Our messages as JSON of OpenAI's chat completions."""

import json
import re
from base64 import b64encode
from collections.abc import Mapping

from rumi.models.types import Message, ModelRequest, Picture, ToolCall, ToolSpec

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
_NAME_LENGTH = 64


def messages_json(
    request: ModelRequest, *, reasoning: bool = False, system_first: bool = False
) -> list[dict[str, object]]:
    """Return the conversation, one object a message. `reasoning`: include the reasoning of each tool call.

    With `system_first`, a system message in the middle is sent as a user's: the chat templates of some models
    otherwise refuse the whole request.
    """
    messages: list[dict[str, object]] = []
    of_results: list[Picture] = []
    for each in request.messages:
        if of_results and each.role != "tool":
            messages.append(_of_results(of_results))
            of_results = []
        messages.append(_message(each, reasoning))
        of_results += each.pictures if each.role == "tool" else ()
    if of_results:
        messages.append(_of_results(of_results))
    for message in messages[1:]:
        if system_first and message["role"] == "system":
            message["role"] = "user"
    return messages


def tools_json(request: ModelRequest) -> list[dict[str, object]]:
    """Return the tools, one object each; empty if the model must answer in words."""
    return [_tool(tool) for tool in request.tools]


def sendable(text: str) -> str:
    """Return `text` without half surrogates, which UTF-8 cannot carry."""
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


def _message(message: Message, reasoning: bool) -> dict[str, object]:
    out: dict[str, object] = {"role": message.role, "content": sendable(message.content)}
    if message.pictures and message.role != "tool":
        words = [{"type": "text", "text": sendable(message.content)}] if message.content else []
        out["content"] = [*words, *map(_picture, message.pictures)]
    if message.tool_calls:
        out["tool_calls"] = [_call(call) for call in message.tool_calls]
        if not message.content:
            out["content"] = None
        if reasoning and message.reasoning:
            out["reasoning"] = sendable(message.reasoning)
    if message.role == "tool":
        out["tool_call_id"] = message.tool_call_id or ""
    return out


def _of_results(pictures: list[Picture]) -> dict[str, object]:
    """Return the pictures of results as a user's message: servers take none in a tool's."""
    words = {"type": "text", "text": "[The pictures of the results above.]"}
    return {"role": "user", "content": [words, *map(_picture, pictures)]}


def _picture(picture: Picture) -> dict[str, object]:
    url = f"data:{picture.media_type};base64,{b64encode(picture.data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def _call(call: ToolCall) -> dict[str, object]:
    # Servers parse the past calls of a conversation again and refuse the whole request for one bad call. So a
    # model's invalid arguments are kept as text inside a valid object: the model still sees its error.
    arguments = sendable(call.arguments)
    if arguments_object(arguments) is None:
        arguments = json.dumps({"invalid_arguments": arguments})
    name = _NOT_IN_A_NAME.sub("_", call.name)[:_NAME_LENGTH]
    return {"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _tool(tool: ToolSpec) -> dict[str, object]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": sendable(tool.description),
            "parameters": json.loads(tool.schema),
        },
    }


def plain(value: object) -> object:
    """Convert to dicts and lists for JSON, because a frozen schema may hold other mappings and tuples."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value
