"""A lenient parser of malformed tool calls: names that contain parts of a model's format, or calls in text.

The format of gpt-oss has channels, and parts of this format leak into tool names (`functions.bash`,
`bash<|channel|>commentary`). If Groq cannot parse a model's call, Groq answers 400 (`tool_use_failed`) and
returns the text as `failed_generation`. Rumi can usually still parse this text.
"""

import json
import re
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any, Final, TypeAlias
from uuid import uuid4

from rumi.models.dialects.values import arguments_in
from rumi.models.model import ToolCall

MAX_FAILED_CHARS: Final = 20_000
"""The parser ignores a failed generation after this many characters."""

MAX_TOKEN_CHARS: Final = 60
"""Maximum length of a token at the end of a reply, with the space around it."""

MAX_CALLS: Final = 32
MAX_BRACKETS: Final = 100
"""Maximum number of searches for JSON in a text: each search may take time proportional to the text."""

Found: TypeAlias = tuple[str, dict[str, Any]]

NAMES: Final = ("name", "tool_name", "function_name", "tool", "function", "recipient_name", "action")
ARGUMENTS: Final = ("arguments", "parameters", "args", "input", "action_input", "kwargs", "params")
"""Keys of a call's name and of its arguments, in the formats of models."""

WRAPPERS: Final = ("tool_calls", "tool_call", "function_call")
"""Keys of an object that contains calls."""

_RECIPIENT = re.compile(r"(?:^|\s)to=(\S+)")
_PREFIX = re.compile(r"^(?:functions?|tools?|default_api)[.:/]")
_TAGGED = re.compile(r"<function\s*[=(]\s*([\w.-]+)[\s)>=,]*")
"""Llama's format: `<function=bash>{…}</function>`, with or without the `>`."""
_CHANNEL = re.compile(r"to=([\w.-]+)[^{]*<\|message\|>\s*")
"""gpt-oss's format: `<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{…}`."""
_HEADER = re.compile(r"<\|channel\|>\s*(\w*)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>")
_BEGINS = ("<|channel|>", "<|start|>", "<|message|>")
_TOKEN = re.compile(r"<\|[a-z_]{1,20}\|>(?:analysis|commentary|final|assistant)?")
_ENDS = re.compile(
    r"\s*(?:<\|(?:end|return|call|im_end|eot_id|eom_id|endoftext|end_of_text|user|observation)\|>"
    r"|</s>|<end_of_turn>|<｜end▁of▁sentence｜>)\s*\Z"
)
"""Tokens that end a reply in the formats of models, and that some servers leave in its text."""
_NAMED = re.compile(r"\b([A-Za-z_][\w.-]*)\s*[(]?\s*(?=\{)")
_BRACKET = re.compile(r"[\[{]")
_JSON: Final = json.JSONDecoder(strict=False)


def clean_name(name: str) -> str:
    """Return a tool's name with all parts of the model's internal format removed.

    A name that would become empty stays unchanged.
    """
    recipient = _RECIPIENT.search(name)
    bare = (recipient[1] if recipient else name).partition("<|")[0].strip()
    return _PREFIX.sub("", bare) or name


def clean_text(text: str) -> str:
    """Return an answer with all parts of gpt-oss's internal format removed.

    Only the text of the last channel remains; if that channel is the model's analysis, nothing remains. A
    text that merely mentions the format stays unchanged.
    """
    if text.lstrip().startswith(_BEGINS):
        *_, last = _HEADER.split(text)
        channel = _HEADER.findall(text)[-1:]
        text = "" if channel == ["analysis"] else _TOKEN.sub("", last).strip()
    while end := _ENDS.search(text, max(0, len(text) - MAX_TOKEN_CHARS)):
        text = text[: end.start()]
    return text


def read_failed_generation(text: str, tools: Collection[str]) -> tuple[ToolCall, ...]:
    """Return the tool calls in a text that the server could not parse; none if no call is certain.

    `tools` are the names of the offered tools. Only a call whose arguments are a JSON object counts.
    """
    found = islice(_found(text[:MAX_FAILED_CHARS], tools), MAX_CALLS)
    return tuple(
        ToolCall(f"call_{uuid4().hex[:12]}", _known(name, tools), json.dumps(arguments, ensure_ascii=False))
        for name, arguments in found
    )


def _known(name: str, tools: Collection[str]) -> str:
    """Return a call's clean name; gpt-oss sometimes glues the format of the arguments to it (`bashjson`)."""
    name = clean_name(name)
    bare = name.removesuffix("json")
    return bare if name not in tools and bare in tools else name


def _found(text: str, tools: Collection[str]) -> Iterator[Found]:
    for pattern in (_TAGGED, _CHANNEL):
        if pattern.search(text):
            yield from _behind(pattern, text)
            return
    # A name before a bracket is the weakest hint, since any prose may contain one: only known tools count.
    in_json = [call for value in _values(text) for call in calls_of(value)]
    yield from in_json or (call for call in _behind(_NAMED, text) if clean_name(call[0]) in tools)


def _behind(pattern: re.Pattern[str], text: str) -> Iterator[Found]:
    """Yield each name that the pattern finds, with the JSON object that follows the name."""
    for mark in pattern.finditer(text):
        value, _ = json_at(text, mark.end())
        if isinstance(value, dict):
            yield mark[1], value


def _values(text: str) -> Iterator[object]:
    """Yield the JSON objects and lists in a text, in order."""
    at = 0
    for _ in range(MAX_BRACKETS):
        bracket = _BRACKET.search(text, at)
        if bracket is None:
            return
        value, end = json_at(text, bracket.start())
        at = max(end, bracket.end())
        yield value


def calls_of(value: object) -> Iterator[Found]:
    """Yield the calls in a JSON value: one call, a list of calls, or an object with a list of calls."""
    if isinstance(value, list):
        for item in value:
            yield from calls_of(item)
    elif isinstance(value, dict) and (
        inner := next((value[key] for key in WRAPPERS if value.get(key)), None)
    ):
        if isinstance(inner, list | dict):
            yield from calls_of(inner)
    elif isinstance(value, dict):
        function = value.get("function")
        fields = {**value, **function} if isinstance(function, dict) else value
        name = next((fields[key] for key in NAMES if isinstance(fields.get(key), str)), "")
        arguments = next((fields[key] for key in ARGUMENTS if key in fields), None)
        if isinstance(arguments, str):
            arguments = arguments_in(arguments)
        elif arguments is None and not fields.keys().isdisjoint(ARGUMENTS):
            arguments = {}
        if name and isinstance(arguments, dict) and not _is_schema(arguments):
            yield name, arguments


def _is_schema(arguments: dict[str, Any]) -> bool:
    """Return True for the JSON schema of a tool: a list of tools has the form of calls."""
    return arguments.get("type") == "object" and isinstance(arguments.get("properties"), dict)


def json_at(text: str, start: int) -> tuple[object, int]:
    """Return the JSON value at `start` and the index after it; None and `start` if there is no value."""
    try:
        return _JSON.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, start
