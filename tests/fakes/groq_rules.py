"""What Groq refuses in a request for a chat completion, with a 400 that says where."""

import json
import re
from collections.abc import Mapping
from typing import Any

MOST_PICTURES = 5
"""How many pictures Groq takes in one request."""

SEEING = "meta-llama/llama-4-"
"""Models that take pictures."""

_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]{8}")
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_KEYS = {
    "model": str,
    "messages": list,
    "stream": bool,
    "tools": list,
    "tool_choice": (str, dict),
    "temperature": (int, float),
    "top_p": (int, float),
    "max_completion_tokens": int,
    "max_tokens": int,
    "stream_options": dict,
    "parallel_tool_calls": bool,
    "disable_tool_validation": bool,
    "response_format": dict,
    "reasoning_effort": str,
    "stop": (str, list),
    "seed": int,
    "user": str,
}
_MESSAGE_KEYS = {
    "system": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls", "reasoning"},
    "tool": {"role", "content", "tool_call_id"},
}


REASONING = "openai/gpt-oss-"
"""Models whose reasoning may go back to them."""


class BadRequestError(Exception):
    """Its text is the message of the 400."""


def check_request(body: object, *, groq: bool = True) -> None:
    """Raise `BadRequestError` for what Groq (or, more leniently, a server like OpenAI's) would refuse."""
    _need(isinstance(body, dict), "the body is no JSON object")
    assert isinstance(body, dict)
    for key, value in body.items():
        _need(key in _KEYS, f"property '{key}' is unsupported")
        _need(isinstance(value, _KEYS[key]), f"'{key}' : wrong type")
    _need(bool(body.get("model")), "'model' : property 'model' is missing")
    _need(bool(body.get("messages")), "'messages' : minimum number of items is 1")
    _check_form(body, groq=groq)
    if (effort := body.get("reasoning_effort")) is not None and groq:
        _need(body["model"].startswith(REASONING), "`reasoning_effort` is not supported with this model")
        _need(effort in {"low", "medium", "high"}, "`reasoning_effort` must be one of low, medium, high")
    _need("stream_options" not in body or not groq, "stream_options is for other servers")
    _need("disable_tool_validation" not in body or groq, "disable_tool_validation is Groq's")
    _need(0 <= body.get("temperature", 1) <= 2, "'temperature' : must be between 0 and 2")
    for limit in ("max_completion_tokens", "max_tokens"):
        _need(body.get(limit, 1) >= 1, f"'{limit}' : must be at least 1")
    if "tools" in body:
        _need(len(body["tools"]) > 0, "'tools' : minimum number of items is 1")
        for index, tool in enumerate(body["tools"]):
            _check_tool(tool, f"'tools.{index}'")
        names = [tool["function"]["name"] for tool in body["tools"]]
        _need(len(set(names)) == len(names), "'tools' : names must be unique")
    sees = not groq or body["model"].startswith(SEEING)
    _check_messages(body["messages"], reasoning=groq and body["model"].startswith(REASONING), sees=sees)


def _check_form(body: Mapping[str, Any], *, groq: bool) -> None:
    """Look at `response_format`, which Groq takes of some models, without tools and not streamed."""
    if (form := body.get("response_format")) is None:
        _need(body.get("stream") is True, "this server only streams")
        return
    _need(form.get("type") == "json_schema", "'response_format.type' : unknown")
    inside = form.get("json_schema")
    _need(isinstance(inside, dict) and _is_name(inside.get("name")), "'response_format.json_schema.name'")
    if not groq:
        return
    _need("tools" not in body, "json mode cannot be combined with tool/function calling")
    _need(body.get("stream") is False, "response_format` does not support streaming")
    _need(body["model"].startswith(REASONING), "This model does not support response format `json_schema`.")
    _check_strict(inside["schema"], "schema")


def _check_strict(schema: Mapping[str, Any], at: str) -> None:
    """Look at a strict schema: every property is required, and no other one may be there."""
    for name, value in (schema.get("properties") or {}).items():
        _check_strict(value, f"{at}.{name}")
    if isinstance(schema.get("items"), dict):
        _check_strict(schema["items"], f"{at}.items")
    if "properties" in schema:
        _need(schema.get("additionalProperties") is False, f"{at} : `additionalProperties:false` must be set")
        _need(set(schema.get("required", ())) == set(schema["properties"]), f"{at} : `required` lacks a key")


def _check_tool(tool: Any, at: str) -> None:
    _need(isinstance(tool, dict) and set(tool) == {"type", "function"}, f"{at} : wrong shape")
    _need(tool["type"] == "function", f"{at}.type : must be 'function'")
    function = tool["function"]
    _need(isinstance(function, dict), f"{at}.function : no object")
    _need(
        set(function) <= {"name", "description", "parameters", "strict"}, f"{at}.function : unknown property"
    )
    _need(_is_name(function.get("name")), f"{at}.function.name : not a name")
    _need(isinstance(function.get("description", ""), str), f"{at}.function.description : no string")
    schema = function.get("parameters", {"type": "object"})
    _need(
        isinstance(schema, dict) and schema.get("type") == "object",
        f"{at}.function.parameters : no object schema",
    )
    properties = schema.get("properties", {})
    _need(isinstance(properties, dict), f"{at}.function.parameters.properties : no object")
    _need(all(isinstance(value, dict) for value in properties.values()), f"{at} : a property is no schema")
    required = schema.get("required", [])
    _need(
        isinstance(required, list) and set(required) <= set(properties), f"{at} : required names no property"
    )


def _check_messages(messages: list[Any], *, reasoning: bool, sees: bool) -> None:
    pictures = 0
    open_calls: set[str] = set()
    all_calls: set[str] = set()
    for index, message in enumerate(messages):
        at = f"'messages.{index}'"
        _need(isinstance(message, dict), f"{at} : no object")
        role = message.get("role")
        _need(role in _MESSAGE_KEYS, f"{at}.role : unknown")
        for key in message:
            unsupported = f"({at} : property '{key}' is unsupported)"
            _need(
                key in _MESSAGE_KEYS[role],
                f"{at} : for 'role:{role}' the following must be satisfied[{unsupported}]",
            )
        _need(
            "reasoning" not in message or reasoning,
            f"`messages[{index}].reasoning`: reasoning is not supported with this model",
        )
        if role == "tool":
            _need(message.get("tool_call_id") in open_calls, f"{at}.tool_call_id : answers no call")
            open_calls.remove(message["tool_call_id"])
        else:
            _need(not open_calls, f"{at} : calls before it have no result: {sorted(open_calls)}")
        calls = message.get("tool_calls")
        if calls is None:
            if role == "user" and isinstance(message.get("content"), list):
                pictures += _check_parts(message["content"], at)
                _need(sees, f"{at}.content : this model takes no pictures")
                _need(pictures <= MOST_PICTURES, f"'messages' : more than {MOST_PICTURES} pictures")
                continue
            _need(isinstance(message.get("content"), str), f"{at}.content : no string")
            _need(bool(message["content"].strip()), f"{at}.content : must not be empty")
            continue
        _need(
            message.get("content") is None or isinstance(message["content"], str), f"{at}.content : no string"
        )
        _need(isinstance(calls, list) and len(calls) > 0, f"{at}.tool_calls : minimum number of items is 1")
        for call in calls:
            _check_call(call, f"{at}.tool_calls")
            _need(call["id"] not in all_calls, f"{at}.tool_calls : two calls have the id {call['id']}")
            open_calls.add(call["id"])
            all_calls.add(call["id"])
    _need(not open_calls, f"'messages' : calls have no result: {sorted(open_calls)}")


def _check_parts(parts: list[Any], at: str) -> int:
    """Check the parts of a message; return how many of them are pictures."""
    for part in parts:
        if part.get("type") == "text":
            _need(set(part) == {"type", "text"} and isinstance(part["text"], str), f"{at}.content : no text")
            continue
        _need(set(part) == {"type", "image_url"} and part["type"] == "image_url", f"{at}.content : no part")
        url = part["image_url"]["url"]
        _need(_PICTURE.match(url) is not None, f"{at}.content.image_url : invalid image data")
        _need(len(url) <= 4 * 1024 * 1024, f"{at}.content.image_url : too large")
    return sum(part["type"] == "image_url" for part in parts)


def _check_call(call: Any, at: str) -> None:
    _need(isinstance(call, dict) and set(call) == {"id", "type", "function"}, f"{at} : wrong shape")
    _need(isinstance(call["id"], str) and _CALL_ID.fullmatch(call["id"]) is not None, f"{at}.id : not valid")
    _need(call["type"] == "function", f"{at}.type : must be 'function'")
    function = call["function"]
    _need(
        isinstance(function, dict) and set(function) == {"name", "arguments"}, f"{at}.function : wrong shape"
    )
    _need(_is_name(function["name"]), f"{at}.function.name : not a name")
    _need(isinstance(function["arguments"], str), f"{at}.function.arguments : no string")
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        arguments = None
    _need(isinstance(arguments, Mapping), f"{at}.function.arguments : no JSON object")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise BadRequestError(message)
